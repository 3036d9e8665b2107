/** A preview that cannot say everything says nothing: what is being made is not described yet, what cannot be read never. */
import { existsSync } from "node:fs"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { Clone } from "../../support/clone.ts"
import { type Case, carryOut, cases, claim } from "../operations/actionCases.ts"
import { admitDeletion, newProject, requestOf, Scripted, undispatched } from "./fixture.ts"

/** What is made by it has a place that no row names when it is claimed. */
const making: ReadonlyArray<Case> = cases.filter(({ name }) =>
  ["provision", "snapshot", "restore"].includes(name)
)

const unreadable = {
  "the runtime's recipe": "update plugin_sandbox.runtimes set recipe = '{}' where project_id = $1::bigint",
  "a recipe that a receipt owes": `update plugin_sandbox.runtime_operations set new_recipe = '{"disks": 1}'
    where project_id = $1::bigint and owed <> '{}'`,
  "a snapshot's recipe":
    "update plugin_sandbox.runtime_snapshots set recipe = '{}' where project_id = $1::bigint"
} as const

layer(undispatched, { excludeTestServices: true, timeout: "60 seconds" })("describing a removal", (it) => {
  for (const { action, begin, name } of making) {
    it.effect(
      `SP-DEL-06 it is refused as busy while a ${name} has not said what it makes, and only then`,
      () =>
        Effect.gen(function* () {
          const scene = yield* begin
          const { project } = scene
          const before = yield* describeProjectRemoval(project)
          yield* admitOperation(scene.caller, requestOf(project, action))
          assert.deepStrictEqual(yield* describeProjectRemoval(project), before, "nobody has begun it")
          const claimed = yield* claim
          assert.strictEqual((yield* Effect.flip(describeProjectRemoval(project)))._tag, "MetadataBusy")
          const seen: Array<number> = []
          const context = yield* Effect.context<Effect.Services<ReturnType<typeof describeProjectRemoval>>>()
          const look = describeProjectRemoval(project).pipe(
            Effect.map(({ paths }) => void seen.push(paths.length)),
            Effect.provideContext(context),
            // An observer cannot fail.
            Effect.orDie
          )
          // Behind its first step everything that it makes is named.
          const after = (program: string) => (program === action ? look : Effect.void)
          yield* executeClaimed(claimed).pipe(
            Effect.provideService(StepObserver, { before: () => Effect.void, after })
          )
          assert.isAbove(seen.length, 1)
          assert.isTrue(
            seen.every((paths) => paths > before.paths.length),
            "its own among them"
          )
        })
    )
  }

  for (const [what, text] of Object.entries(unreadable)) {
    it.effect(
      `SP-DEL-06 ${what} that cannot be read refuses preview and removal, and nothing is touched`,
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const { project } = scene
          const { newRecipe } = yield* carryOut(scene, requestOf(project, "provision"))
          yield* carryOut(scene, requestOf(project, "snapshot"))
          const { paths } = yield* describeProjectRemoval(project)
          yield* admitDeletion(scene, paths)
          yield* (yield* Clone).admin(text, [BigInt(project)])
          const { guests } = yield* Scripted
          const calls = guests.calls.length
          assert.strictEqual((yield* Effect.flip(describeProjectRemoval(project)))._tag, "MetadataUnreadable")
          assert.strictEqual((yield* Effect.flip(removeProject(project)))._tag, "MetadataUnreadable")
          assert.strictEqual(guests.calls.length, calls)
          assert.isTrue(existsSync(newRecipe!.disks[0]!))
        })
    )
  }
})
