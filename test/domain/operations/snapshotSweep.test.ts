/** What dead captures leave, and who finishes it. */
import { existsSync, mkdirSync } from "node:fs"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RuntimeLog } from "../../../src/domain/history/RuntimeLog.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { sweepSnapshots } from "../../../src/domain/operations/snapshotSweep.ts"
import { pauseSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { requestOf, type Scene, undispatched } from "../removal/fixture.ts"
import { carryOut, claim, receiptOf } from "./actionCases.ts"
import {
  goesOn,
  guestOf,
  leftOf,
  snapshotOf,
  snapshotsOf,
  standsStill,
  withWorkspace
} from "./snapshotFixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const idle = () => false

/** The daemon dies between pause and resume, so that not even its last words are done. */
const diedWhilePaused = (scene: Scene) =>
  Effect.gen(function* () {
    const { operation } = yield* admitOperation(scene.caller, requestOf(scene.project, "snapshot"))
    const claimed = yield* claim
    const observer = {
      before: (_: string, step: string) => (step === "resume" ? Effect.interrupt : Effect.void),
      after: () => Effect.void
    }
    yield* Effect.exit(executeClaimed(claimed).pipe(Effect.provideService(StepObserver, observer)))
    assert.deepStrictEqual(yield* guestOf(scene), standsStill, "the test has not done what it says")
    return yield* receiptOf(operation.id)
  })

describe("operations/snapshotSweep", () => {
  layer(
    undispatched,
    live
  )((it) => {
    it.effect(
      "SP-OPS-03 a guest that a dead capture left paused goes on with the next pass, and is not lost",
      () =>
        Effect.gen(function* () {
          const scene = yield* withWorkspace
          const left = yield* diedWhilePaused(scene)
          yield* sweepSnapshots(idle)
          assert.deepStrictEqual(yield* guestOf(scene), standsStill, "its claim is held: it may be copying")
          yield* (yield* OperationStore).requeueIfClaimedBy(left)
          yield* sweepSnapshots(() => true)
          assert.deepStrictEqual(yield* guestOf(scene), standsStill, "somebody is at work on the Project")
          assert.isAtLeast((yield* sweepSnapshots(idle)).done, 1)
          assert.deepStrictEqual(yield* guestOf(scene), goesOn)
          assert.isNull(Option.getOrThrow(yield* snapshotOf(scene)).pausedBy)
          yield* executeClaimed(yield* claim)
          assert.strictEqual((yield* receiptOf(left.id)).state, "succeeded")
          assert.deepStrictEqual(yield* guestOf(scene), goesOn)
        })
    )

    it.effect("SP-OPS-03 the next claim lets the guest go on before anything else", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const left = yield* diedWhilePaused(scene)
        yield* (yield* OperationStore).requeueIfClaimedBy(left)
        yield* executeClaimed(yield* claim)
        assert.strictEqual((yield* receiptOf(left.id)).state, "succeeded")
        assert.deepStrictEqual(yield* guestOf(scene), goesOn)
      })
    )

    it.effect("FC-22 a copy to which nobody comes back goes, its guest goes on, and the log tells why", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const left = yield* diedWhilePaused(scene)
        yield* settleOperation(left, { state: "failed", code: "internal", text: "a test ended it" })
        const { path } = Option.getOrThrow(yield* snapshotOf(scene))
        mkdirSync(path, { recursive: true })
        yield* sweepSnapshots(idle)
        assert.deepStrictEqual(
          [yield* guestOf(scene), yield* snapshotsOf(scene), leftOf(path)],
          [goesOn, [], []]
        )
        const lines = (yield* (yield* RuntimeLog).newest(scene.project, 10)).map(({ line }) => line)
        assert.include(lines, "snapshot kept is removed: its capture came to nothing (system)")
      })
    )

    it.effect("a removal that was decided is carried out, and a guest that somebody paused stays so", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        yield* carryOut(scene, requestOf(scene.project, "snapshot"))
        yield* pauseSandbox(scene.sandbox)
        const made = Option.getOrThrow(yield* snapshotOf(scene))
        yield* sweepSnapshots(idle)
        assert.isTrue(existsSync(made.path))
        yield* (yield* SnapshotRows).markRemoving(made.rowId, "ready", { by: "a test", reason: "asked" })
        yield* sweepSnapshots(idle)
        assert.deepStrictEqual([yield* snapshotsOf(scene), leftOf(made.path)], [[], []])
        assert.deepStrictEqual(yield* guestOf(scene), standsStill)
      })
    )
  })
})
