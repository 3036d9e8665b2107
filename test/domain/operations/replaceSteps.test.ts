/** Putting another machine in a machine's place, over scripted guests. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { fixture, provisioned, requestOf, Scripted, settled } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const observed = (project: Parameters<RuntimeStore["Service"]["runtime"]>[0]) =>
  Effect.flatMap(RuntimeStore, (store) =>
    Effect.map(store.runtime(project), (runtime) => Option.getOrThrow(runtime))
  )

describe("operations/replaceSteps", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("a rebuild that this daemon cannot carry leaves the machine that is there alone", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { guests } = yield* Scripted
        const sandbox = scene.operation.newRecipe!.sandbox
        const { operation } = yield* admitOperation(scene.caller, {
          ...requestOf(scene.project, "rebuild"),
          parameters: { supervisor: "bubblewrap" }
        })
        const refused = yield* settled(operation)
        assert.deepStrictEqual([refused.state, refused.errorCode], ["failed", "supervisor_unavailable"])
        assert.isTrue(guests.guests.get(sandbox)?.isAlive)
        assert.deepStrictEqual([refused.oldRecipe, refused.newRecipe, refused.owed], [null, null, []])
        assert.strictEqual((yield* observed(scene.project)).sandbox, sandbox)
      })
    )

    it.effect("a rebuild changes what it was asked to change, and keeps the rest and the workspace", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { operation } = yield* admitOperation(scene.caller, {
          ...requestOf(scene.project, "rebuild"),
          parameters: { cpuMillis: 200 }
        })
        assert.strictEqual((yield* settled(operation)).state, "succeeded")
        const { recipe } = yield* observed(scene.project)
        const first = scene.operation.newRecipe!
        assert.deepInclude(recipe, {
          cpuMillis: 200,
          memoryBytes: first.memoryBytes,
          image: first.image,
          disks: first.disks,
          generation: Generation.make(2)
        })
      })
    )
  })
})
