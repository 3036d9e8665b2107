/** Copying a workspace, over scripted guests and real copies: whatever happens, the guest goes on. */
import { readFileSync, renameSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { projectSnapshotsMax } from "../../../src/domain/Bounds.ts"
import { GuestCapabilities } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { SnapshotId } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { machinePlans } from "../../../src/domain/operations/machinePlans.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { OperationPlans } from "../../../src/domain/operations/plan.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { pauseSandbox, resumeSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { countCalls, failNext } from "../../../src/infra/guests/scriptedState.ts"
import { keptSnapshot, requestOf, Scripted, undispatched } from "../removal/fixture.ts"
import { carryOut, claim, receiptOf } from "./actionCases.ts"
import {
  afterEach,
  goesOn,
  guestOf,
  leftOf,
  snapshotOf,
  snapshotsOf,
  standsStill,
  withWorkspace
} from "./snapshotFixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

/** Plans over a supervisor that cannot pause. */
const withoutPause = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const real = yield* GuestSupervisor
    const capabilities = new GuestCapabilities({ ...real.capabilities, pause: false })
    const plans = yield* Effect.provideService(machinePlans, GuestSupervisor, { ...real, capabilities })
    const planOf: OperationPlans["Service"]["planOf"] = (action) =>
      plans.find((plan) => plan.action === action)
    return yield* Effect.provideService(work, OperationPlans, { planOf })
  })

describe("operations/snapshotSteps", () => {
  layer(
    undispatched,
    live
  )((it) => {
    it.effect(
      "SP-OPS-03 a copy that fails lets the guest go on and leaves nothing, and may be asked again",
      () =>
        Effect.gen(function* () {
          const scene = yield* withWorkspace
          const request = requestOf(scene.project, "snapshot")
          renameSync(scene.workspace, `${scene.workspace}.away`)
          const failed = yield* carryOut(scene, request)
          assert.deepStrictEqual([failed.state, failed.errorCode], ["failed", "disk_failure"])
          const { guests } = yield* Scripted
          assert.strictEqual(countCalls(guests, "pause", scene.sandbox), 1)
          assert.deepStrictEqual(yield* guestOf(scene), goesOn)
          assert.deepStrictEqual(yield* snapshotsOf(scene), [])
          renameSync(`${scene.workspace}.away`, scene.workspace)
          assert.strictEqual((yield* carryOut(scene, request)).state, "succeeded")
          const made = Option.getOrThrow(yield* snapshotOf(scene))
          assert.strictEqual(readFileSync(join(made.path, "counter"), "utf8"), "one")
          assert.isAbove(made.bytes ?? 0, 0)
        })
    )

    it.effect(
      "SP-OPS-03 a daemon that stops in the middle of a copy has let the guest go on when it is gone",
      () =>
        Effect.gen(function* () {
          const scene = yield* withWorkspace
          const { operation } = yield* admitOperation(scene.caller, requestOf(scene.project, "snapshot"))
          const claimed = yield* claim
          const reached = yield* Deferred.make<void>()
          const inTheMiddle = Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
          const running = yield* Effect.forkChild(
            executeClaimed(claimed).pipe(afterEach("copy", inTheMiddle))
          )
          yield* Deferred.await(reached)
          assert.deepStrictEqual(yield* guestOf(scene), standsStill)
          yield* Fiber.interrupt(running)
          assert.deepStrictEqual(yield* guestOf(scene), goesOn)
          assert.strictEqual(
            (yield* receiptOf(operation.id)).state,
            "claimed",
            "the next daemon goes on with it"
          )
          yield* (yield* OperationStore).requeueIfClaimedBy(yield* receiptOf(operation.id))
          yield* executeClaimed(yield* claim)
          assert.strictEqual((yield* receiptOf(operation.id)).state, "succeeded")
        })
    )

    it.effect(
      "SP-OPS-03 a guest that does not go on at once is asked again, before its snapshot is told",
      () =>
        Effect.gen(function* () {
          const scene = yield* withWorkspace
          const { guests } = yield* Scripted
          for (const when of ["before", "before", "after"] as const) failNext(guests, "resume", when)
          const done = yield* carryOut(scene, requestOf(scene.project, "snapshot"))
          assert.strictEqual(done.state, "succeeded", done.errorText ?? "")
          assert.deepStrictEqual(yield* guestOf(scene), goesOn)
        })
    )

    it.effect("a guest that somebody lets go on while its workspace is copied has no snapshot of it", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const { sandbox } = scene
        const meddle = Effect.andThen(resumeSandbox(sandbox), pauseSandbox(sandbox))
        for (const meddling of [resumeSandbox(sandbox), meddle]) {
          const refused = yield* carryOut(scene, requestOf(scene.project, "snapshot")).pipe(
            afterEach("copy", Effect.asVoid(meddling))
          )
          assert.deepStrictEqual([refused.state, refused.errorCode], ["failed", "no_safe_copy"])
          assert.deepStrictEqual(yield* guestOf(scene), goesOn)
          assert.deepStrictEqual(yield* snapshotsOf(scene), [])
        }
      })
    )

    it.effect("a guest that somebody else has paused is copied as it stands, and stays paused", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        yield* pauseSandbox(scene.sandbox)
        const { state } = yield* carryOut(scene, requestOf(scene.project, "snapshot"))
        assert.strictEqual(state, "succeeded")
        assert.deepStrictEqual(yield* guestOf(scene), standsStill)
      })
    )

    it.effect("where guests cannot be paused a running one is refused, and a stopped one is copied", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const refused = yield* withoutPause(carryOut(scene, requestOf(scene.project, "snapshot")))
        assert.deepStrictEqual([refused.state, refused.errorCode], ["failed", "pause_unavailable"])
        assert.deepStrictEqual([yield* guestOf(scene), yield* snapshotsOf(scene)], [goesOn, []])
        yield* carryOut(scene, requestOf(scene.project, "stop"))
        const done = yield* withoutPause(carryOut(scene, requestOf(scene.project, "snapshot")))
        assert.strictEqual(done.state, "succeeded", done.errorText ?? "")
      })
    )

    it.effect("FC-15 one snapshot beyond the bound is refused, and no name is part of a path", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const ask = (id: string) =>
          carryOut(scene, {
            ...requestOf(scene.project, "snapshot"),
            parameters: { snapshot: SnapshotId.make(id) }
          })
        for (const name of [".", ".."]) assert.strictEqual((yield* ask(name)).state, "succeeded", name)
        const paths = (yield* snapshotsOf(scene)).map(({ path }) => path)
        for (const path of paths) assert.match(path, /\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
        const [made] = yield* snapshotsOf(scene)
        const rows = yield* SnapshotRows
        for (let at = paths.length; at < projectSnapshotsMax; at += 1) {
          yield* rows.insert({ ...made!, id: SnapshotId.make(`s:${at}`), path: `${made!.path}-${at}` })
        }
        const { guests } = yield* Scripted
        const pauses = countCalls(guests, "pause", scene.sandbox)
        assert.strictEqual((yield* ask("one-more")).errorCode, "snapshots_full")
        assert.strictEqual((yield* snapshotsOf(scene)).length, projectSnapshotsMax)
        assert.strictEqual(countCalls(guests, "pause", scene.sandbox), pauses, "no guest stood still for it")
      })
    )

    it.effect("a name is given once, and the snapshot that has it stays", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const first = yield* carryOut(scene, requestOf(scene.project, "snapshot"))
        const again = yield* carryOut(scene, requestOf(scene.project, "snapshot"))
        assert.deepStrictEqual([again.state, again.errorCode], ["failed", "snapshot_exists"])
        const kept = Option.getOrThrow(yield* snapshotOf(scene, keptSnapshot))
        assert.deepStrictEqual([kept.operation, kept.state], [first.id, "ready"])
        assert.deepStrictEqual(leftOf(kept.path), [kept.path])
      })
    )

    for (const call of ["copy", "bytesOf"] as const) {
      it.effect(`SP-OPS-06 a claim that was stolen behind its ${call} makes no snapshot ready`, () =>
        Effect.gen(function* () {
          const scene = yield* withWorkspace
          const { operation } = yield* admitOperation(scene.caller, requestOf(scene.project, "snapshot"))
          const claimed = yield* claim
          const { current } = yield* Processes
          const store = yield* OperationStore
          const steal = Effect.andThen(store.requeueIfClaimedBy(claimed), claimNext(current))
          yield* executeClaimed(claimed).pipe(afterEach(call, Effect.asVoid(steal)))
          assert.strictEqual(Option.getOrThrow(yield* snapshotOf(scene)).state, "capturing")
          assert.deepStrictEqual(yield* guestOf(scene), goesOn)
          yield* executeClaimed(yield* receiptOf(operation.id))
          assert.strictEqual((yield* receiptOf(operation.id)).state, "succeeded")
          assert.strictEqual(Option.getOrThrow(yield* snapshotOf(scene)).state, "ready")
        })
      )
    }
  })
})
