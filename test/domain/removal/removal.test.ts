/** The storage phase of a Project's deletion, with the dispatcher at work and scripted guests. */
import { existsSync } from "node:fs"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { removalRequestKey } from "../../../src/domain/operations/parameters.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { countCalls, failNext, hold } from "../../../src/infra/guests/scriptedState.ts"
import { Clone } from "../../support/clone.ts"
import {
  admitDeletion,
  ask,
  commandOf,
  count,
  fixture,
  newProject,
  provisioned,
  Scripted,
  settled
} from "./fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const receipt = (project: Parameters<typeof count>[1]) =>
  Effect.flatMap(OperationStore, (store) =>
    Effect.map(store.newestOfProject(project, { limit: 20 }), (all) =>
      all.filter(({ requestKey }) => requestKey === removalRequestKey)
    )
  )

describe("removal", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("SP-TX-08 provision, stop and start use no guest and no file while a transaction is open", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        assert.strictEqual(scene.operation.state, "succeeded", scene.operation.errorText ?? "")
        assert.strictEqual((yield* Effect.flatMap(ask(scene, "stop"), settled)).state, "succeeded")
        assert.strictEqual((yield* Effect.flatMap(ask(scene, "start"), settled)).state, "succeeded")
        const { guests } = yield* Scripted
        assert.isAbove(countCalls(guests, "start"), 0)
      })
    )

    it.effect("SP-DEL-05 a description names what the machine owns and asks no machine", () =>
      Effect.gen(function* () {
        const { operation, project } = yield* provisioned
        const { guests } = yield* Scripted
        const before = guests.calls.length
        const { labels, paths } = yield* describeProjectRemoval(project)
        assert.strictEqual(guests.calls.length, before)
        assert.deepStrictEqual([...labels], [String(operation.newRecipe?.sandbox)])
        assert.include(paths, operation.newRecipe?.disks[0])
        assert.notInclude(paths, "host")
      })
    )

    it.effect(
      "SP-DEL-05 a Project that was never provisioned has no paths, and is removed without any machine",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const { guests } = yield* Scripted
          const before = guests.calls.length
          assert.deepStrictEqual((yield* describeProjectRemoval(scene.project)).paths, [])
          yield* admitDeletion(scene, [])
          const removed = yield* removeProject(scene.project)
          assert.deepStrictEqual(removed, { paths: [], proofs: [] })
          assert.strictEqual(guests.calls.length, before)
        })
    )

    it.effect(
      "SP-DEL-09 SP-DEL-10 removal ends the machine, clears what is the Project's and keeps its receipt",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const { project } = scene
          const disk = scene.operation.newRecipe?.disks[0] ?? ""
          assert.isTrue(existsSync(disk))
          const { paths } = yield* describeProjectRemoval(project)
          yield* admitDeletion(scene, paths)
          const removed = yield* removeProject(project)
          assert.deepStrictEqual(removed.paths, paths)
          assert.lengthOf(removed.proofs, 1)
          assert.isFalse(existsSync(disk))
          assert.strictEqual((yield* (yield* Registry).inventory).size, yield* machinesLeft)
          const [operation, ...others] = yield* receipt(project)
          assert.deepStrictEqual(others, [])
          assert.deepInclude(
            { ...operation },
            { state: "succeeded", initiator: "system", account: null, action: "delete" }
          )
          const left = (table: string) =>
            count(`select count(*) from plugin_sandbox.${table} where project_id = $1::bigint`, project)
          assert.deepStrictEqual(
            [
              yield* left("runtimes"),
              yield* left("runtime_logs"),
              yield* left("execution_leases"),
              yield* left("live_operations")
            ],
            [0, 0, 0, 0]
          )
          assert.strictEqual(yield* left("history_deletions"), 1)
          assert.deepStrictEqual(yield* removeProject(project), removed, "asked again it answers the same")
        })
    )

    it.effect(
      "SP-DEL-02 SP-DEL-03 without the host's record nothing is touched, whatever delete operation is queued",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const { guests } = yield* Scripted
          const ended = countCalls(guests, "end")
          assert.strictEqual((yield* Effect.flip(removeProject(scene.project)))._tag, "RemovalNotAdmitted")
          const { admin } = yield* Clone
          yield* admin(
            `with added as (insert into plugin_sandbox.runtime_operations
              (id, project_id, initiator, action, request_key, generation)
              values (gen_random_uuid(), $1::bigint, 'system', 'delete', $2, 1) returning project_id, row_id)
            insert into plugin_sandbox.live_operations (project_id, row_id) select project_id, row_id from added`,
            [BigInt(scene.project), removalRequestKey]
          )
          yield* (yield* OperationEvents).wake
          const [old] = yield* receipt(scene.project)
          const outcome = yield* settled(old!)
          assert.notStrictEqual(outcome.state, "succeeded")
          assert.strictEqual(countCalls(guests, "end"), ended, "no guest was ended")
          assert.isTrue(existsSync(scene.operation.newRecipe?.disks[0] ?? ""))
        })
    )

    it.effect("SP-DEL-07 paths that were not confirmed stop the removal before its first act", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { guests } = yield* Scripted
        const ended = countCalls(guests, "end")
        const { paths } = yield* describeProjectRemoval(scene.project)
        yield* admitDeletion(scene, paths.slice(1))
        const refusal = yield* Effect.flip(removeProject(scene.project))
        assert.deepStrictEqual(
          [refusal._tag, "paths" in refusal ? refusal.paths : []],
          ["ConfirmationNeeded", [paths[0]]]
        )
        assert.strictEqual(countCalls(guests, "end"), ended)
        assert.isTrue(existsSync(scene.operation.newRecipe?.disks[0] ?? ""))
        yield* admitDeletion(scene, paths)
        assert.lengthOf((yield* removeProject(scene.project)).proofs, 1)
      })
    )

    it.effect("SP-DEL-08 removal waits for the operation in this process to settle, then goes on", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { guests } = yield* Scripted
        const { paths } = yield* describeProjectRemoval(scene.project)
        const barrier = hold(guests, "end")
        const stopping = yield* ask(scene, "stop")
        yield* barrier.reached
        yield* admitDeletion(scene, paths)
        const removing = yield* Effect.forkChild(removeProject(scene.project))
        yield* Effect.yieldNow
        assert.isUndefined(removing.pollUnsafe())
        assert.deepStrictEqual(yield* receipt(scene.project), [])
        yield* barrier.release
        assert.strictEqual((yield* settled(stopping)).state, "succeeded")
        assert.lengthOf((yield* Fiber.join(removing)).proofs, 1)
      })
    )

    it.effect(
      "SP-ADM-05 clean-up ends what runs in the guest though the Project is no longer active, and then all of it",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const { project } = scene
          const { guests } = yield* Scripted
          const { paths } = yield* describeProjectRemoval(project)
          const barrier = hold(guests, "execute")
          const running = yield* Effect.forkChild(Stream.runCollect(commandOf(scene)))
          yield* barrier.reached
          yield* admitDeletion(scene, paths)
          const refused = yield* Effect.flip(Stream.runDrain(commandOf(scene)))
          assert.strictEqual(refused._tag, "ProjectNotActive")
          assert.lengthOf((yield* removeProject(project)).proofs, 1)
          const last = Array.from(yield* Fiber.join(running)).at(-1)
          assert.deepInclude(last, { _tag: "Exited", ended: "cancelled" })
          assert.isFalse(existsSync(scene.operation.newRecipe!.disks[0]!))
          assert.strictEqual(
            yield* count(
              "select count(*) from plugin_sandbox.execution_leases where project_id = $1::bigint",
              project
            ),
            0
          )
          yield* barrier.release
        })
    )

    it.effect(
      "SP-DEL-11 a step that fails keeps its checkpoint, and the next call finishes with the same receipt",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const { guests } = yield* Scripted
          const { paths } = yield* describeProjectRemoval(scene.project)
          yield* admitDeletion(scene, paths)
          failNext(guests, "removeGroups")
          const failure = yield* Effect.flip(removeProject(scene.project))
          assert.strictEqual(failure._tag, "RemovalFailed")
          const [failed] = yield* receipt(scene.project)
          assert.deepInclude({ ...failed }, { state: "failed", step: "guests" })
          assert.strictEqual(
            yield* machinesOf(scene.operation.newRecipe?.sandbox ?? ""),
            1,
            "the charge is kept"
          )
          assert.lengthOf((yield* removeProject(scene.project)).proofs, 1)
          const [done, ...others] = yield* receipt(scene.project)
          assert.deepStrictEqual([done?.id, done?.state, others.length], [failed?.id, "succeeded", 0])
        })
    )

    it.effect("BX-02 a machine that cannot be proved absent keeps its record, its charge and its disk", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { guests } = yield* Scripted
        const sandbox = scene.operation.newRecipe!.sandbox
        const { paths } = yield* describeProjectRemoval(scene.project)
        yield* admitDeletion(scene, paths)
        guests.guests.get(sandbox)!.groups = "replaced"
        assert.strictEqual((yield* Effect.flip(removeProject(scene.project)))._tag, "RemovalFailed")
        assert.strictEqual(yield* machinesOf(sandbox), 1)
        assert.isTrue(existsSync(scene.operation.newRecipe?.disks[0] ?? ""))
        assert.isTrue(
          Option.isSome(yield* Effect.map(receipt(scene.project), ([first]) => Option.fromNullishOr(first)))
        )
      })
    )
  })
})

const machinesOf = (sandbox: string) =>
  Effect.flatMap(Registry, (registry) =>
    Effect.map(registry.inventory, (records) => [...records.keys()].filter((id) => id === sandbox).length)
  )

/** Machines that the rows still name. */
const machinesLeft = Effect.flatMap(Clone, ({ admin }) =>
  Effect.map(
    admin("select count(*)::int as n from plugin_sandbox.runtimes where sandbox_id is not null"),
    ([row]) => Number(row?.["n"])
  )
)
