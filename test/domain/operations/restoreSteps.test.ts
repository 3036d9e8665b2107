/** Bringing a workspace back: until the new machine answers, the old one is as it was. */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { machinePlans } from "../../../src/domain/operations/machinePlans.ts"
import { OperationPlans } from "../../../src/domain/operations/plan.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { countCalls, failNext } from "../../../src/infra/guests/scriptedState.ts"
import { requestOf, Scripted, undispatched } from "../removal/fixture.ts"
import { carryOut } from "./actionCases.ts"
import { goesOn, guestOf, leftOf, runtimeOf, withWorkspace } from "./snapshotFixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const withSnapshot = Effect.tap(withWorkspace, (scene) =>
  Effect.gen(function* () {
    yield* carryOut(scene, requestOf(scene.project, "snapshot"))
    writeFileSync(join(scene.workspace, "counter"), "two")
  })
)

/** Plans over a node that has as much room as is used. */
const withoutRoom = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const registry = yield* Registry
    const { cpuMillis, memoryBytes, sandboxes } = yield* registry.charges
    const full = Registry.of({ ...registry, capacity: { cpuMillis, memoryBytes, sandboxes } })
    const plans = yield* Effect.provideService(machinePlans, Registry, full)
    const planOf: OperationPlans["Service"]["planOf"] = (action) =>
      plans.find((plan) => plan.action === action)
    return yield* Effect.provideService(work, OperationPlans, { planOf })
  })

describe("operations/restoreSteps", () => {
  layer(
    undispatched,
    live
  )((it) => {
    it.effect(
      "SP-OPS-04 a new machine that does not start leaves the old one stopped and whole, and goes with proof",
      () =>
        Effect.gen(function* () {
          const scene = yield* withSnapshot
          const before = yield* runtimeOf(scene)
          const { guests } = yield* Scripted
          failNext(guests, "start", "before")
          const failed = yield* carryOut(scene, requestOf(scene.project, "restore"))
          assert.deepStrictEqual([failed.state, failed.errorCode], ["failed", "guest_failure"])
          const after = yield* runtimeOf(scene)
          assert.deepStrictEqual(
            [after.observed, after.desired, after.generation, after.recipe],
            ["stopped", before.desired, before.generation, before.recipe]
          )
          assert.strictEqual(readFileSync(join(scene.workspace, "counter"), "utf8"), "two")
          const inventory = yield* (yield* Registry).inventory
          const next = failed.newRecipe!
          assert.deepStrictEqual(
            [inventory.get(scene.sandbox)?.status, inventory.has(next.sandbox)],
            ["Terminated", false]
          )
          assert.deepStrictEqual([failed.owed, leftOf(next.disks[0]!)], [[], []])
          assert.isTrue(failed.absences.some((sentence) => sentence.startsWith(`${next.sandbox} `)))
          const started = yield* carryOut(scene, requestOf(scene.project, "start"))
          assert.strictEqual(started.state, "succeeded", "the old machine is as good as it was")
        })
    )

    it.effect("RG-BUD-04 a node without room for both machines refuses before the old one is stopped", () =>
      Effect.gen(function* () {
        const scene = yield* withSnapshot
        const { guests } = yield* Scripted
        const refused = yield* withoutRoom(carryOut(scene, requestOf(scene.project, "restore")))
        assert.deepStrictEqual([refused.state, refused.errorCode], ["failed", "capacity_exceeded"])
        assert.deepStrictEqual([refused.newRecipe, refused.owed], [null, []])
        assert.strictEqual(countCalls(guests, "end", scene.sandbox), 0)
        assert.deepStrictEqual(
          [yield* guestOf(scene), (yield* runtimeOf(scene)).observed],
          [goesOn, "running"]
        )
      })
    )

    it.effect("a snapshot that is still being made, or is going, is not restored", () =>
      Effect.gen(function* () {
        const scene = yield* withSnapshot
        const rows = yield* SnapshotRows
        const [made] = yield* rows.ofProject(scene.project)
        assert.isTrue(yield* rows.markRemoving(made!.rowId, "ready", { by: "a test", reason: "asked" }))
        const refused = yield* carryOut(scene, requestOf(scene.project, "restore"))
        assert.deepStrictEqual([refused.state, refused.errorCode], ["failed", "snapshot_not_found"])
        assert.deepStrictEqual(yield* guestOf(scene), goesOn)
      })
    )

    it.effect("a snapshot that is not there is refused before the old machine is stopped", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const refused = yield* carryOut(scene, requestOf(scene.project, "restore"))
        assert.deepStrictEqual([refused.state, refused.errorCode], ["failed", "snapshot_not_found"])
        assert.deepStrictEqual(yield* guestOf(scene), goesOn)
      })
    )

    it.effect(
      "SP-OPS-04 behind the switch a failure goes forward only: the new machine runs, and the old one goes later",
      () =>
        Effect.gen(function* () {
          const scene = yield* withSnapshot
          const { guests } = yield* Scripted
          const request = requestOf(scene.project, "restore")
          failNext(guests, "removeGroups", "before")
          const failed = yield* carryOut(scene, request)
          assert.strictEqual(failed.state, "failed")
          assert.include(failed.flags, "switched")
          const after = yield* runtimeOf(scene)
          assert.deepStrictEqual([after.observed, after.sandbox], ["running", failed.newRecipe!.sandbox])
          assert.isTrue(
            existsSync(scene.workspace),
            "the old disk stays until the old machine is proved absent"
          )
          const done = yield* carryOut(scene, request)
          assert.strictEqual(done.state, "succeeded", done.errorText ?? "")
          assert.isFalse(existsSync(scene.workspace))
          assert.strictEqual(readFileSync(join(after.recipe!.disks[0]!, "counter"), "utf8"), "one")
        })
    )
  })
})
