import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { releaseRunLeases } from "../../../src/domain/runLeases/runRelease.ts"
import { remoteExecutionHasStopped } from "../../../src/domain/runLeases/stopEvidence.ts"
import { inDaemon, leaseNow, sweepIn } from "./daemons.ts"
import { onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { leaseRow, newLease, setLease } from "./rawRows.ts"
import { receiptOf, type RecordedCall, scriptedWorkers } from "./scriptedWorkers.ts"

const stopMethod = "environmentStopLease"
const others = ["environmentReleaseLease", "environmentDestroyLease"]
const receipt = receiptOf("stopped")

const stopRun = (
  scene: { readonly run: Parameters<typeof releaseRunLeases>[0] },
  workers: ReturnType<typeof scriptedWorkers>,
  how: Parameters<typeof releaseRunLeases>[1] = {}
) =>
  releaseRunLeases(scene.run, { disposition: "stop_and_retain", ...how }).pipe(
    inDaemon({ workers: workers.manager })
  )

/** Answers of the stops in their order; the last one goes on. */
const answers = (...replies: ReadonlyArray<unknown>) => {
  const left = [...replies]
  return (call: RecordedCall) =>
    Effect.suspend(() => {
      const next = left.length > 1 ? left.shift() : left[0]
      if (next instanceof Error) return Effect.fail(next)
      return Effect.succeed(typeof next === "function" ? next(call) : next)
    })
}

const fault = new Error("provider unavailable")

describe("runLeases/stopAndRetain", () => {
  it.live("RL-STOP-01 stop keeps the lease resumable, whatever status was asked for", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const workers = scriptedWorkers({ call: answers(receipt) })
      const released = yield* stopRun(scene, workers, { status: "failed" })
      assert.strictEqual(released[0]?.lease.status, "released")
      assert.deepStrictEqual(workers.methods(), [stopMethod])
      const [call] = workers.calls
      assert.deepStrictEqual(
        [call!.plugin, call!.params["providerLeaseId"], call!.given[3]],
        [scene.plugin.id, reusableLeaseId, 31_234]
      )
    }).pipe(onClone)
  )

  const startUpRows: ReadonlyArray<readonly [row: string, reply: unknown, hasStopped: boolean]> = [
    ["stopped", receipt, true],
    ["missing", undefined, false],
    ["wrong-lease", { providerLeaseId: "other-sandbox", state: "stopped" }, false],
    ["error", fault, false]
  ]
  for (const [row, reply, hasStopped] of startUpRows) {
    it.live(`RL-STOP-02 RL-STOP-03 start-up cancellation: ${row}`, () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture()
        const other = yield* newLease(scene.tenant, scene.environment.id, {
          provider: "fake-plugin",
          provider_lease_id: "other-sandbox",
          metadata: { driver: "sandbox", pluginId: scene.plugin.id, sandboxProviderPlugin: true }
        })
        const workers = scriptedWorkers({ methods: () => [stopMethod], call: answers(reply) })
        yield* stopRun(scene, workers, { status: "released", cancelActiveWork: true })
        assert.deepStrictEqual(workers.methods(), [stopMethod])
        const [call] = workers.calls
        assert.deepInclude(call!.params, {
          tenantId: scene.tenant,
          providerLeaseId: reusableLeaseId,
          cancelActiveWork: true,
          resourceDisposition: "stop_and_retain"
        })
        assert.isNumber(call!.given[3])
        assert.strictEqual((yield* leaseNow(other)).status, "active")
        assert.strictEqual(yield* remoteExecutionHasStopped(scene.tenant, scene.run), hasStopped)
      }).pipe(onClone)
    )
  }

  const ephemeral = (metadata: JsonObject = {}) =>
    reuseFixture({
      native: true,
      runStatus: "failed",
      lease: { lease_policy: "ephemeral" },
      metadata: { reuseLease: false, ...metadata }
    })

  const assertFinal = Effect.fnUntraced(function* (scene: Effect.Success<ReturnType<typeof reuseFixture>>) {
    const lease = yield* leaseNow(scene.lease)
    assert.deepInclude(lease, { status: "released", cleanupStatus: "success", failureReason: null })
    assert.deepInclude(lease.metadata["remoteExecutionTermination"], {
      state: "stopped",
      providerLeaseId: reusableLeaseId
    })
    assert.deepStrictEqual(lease.metadata["sandboxStopAndRetainReceipt"], {
      method: stopMethod,
      runId: scene.run,
      pluginId: scene.plugin.id
    })
    assert.notProperty(lease.metadata, "sandboxStopAndRetain")
    assert.isFalse(lease.metadata["pendingCleanupInFlight"])
  })

  const assertPending = Effect.fnUntraced(function* (
    scene: Effect.Success<ReturnType<typeof reuseFixture>>,
    marker: JsonObject
  ) {
    const lease = yield* leaseNow(scene.lease)
    assert.deepInclude(lease, { status: "pending_cleanup", cleanupStatus: "failed" })
    assert.deepStrictEqual(lease.metadata["sandboxStopAndRetain"], {
      runId: scene.run,
      providerLeaseId: reusableLeaseId,
      cancelActiveWork: false,
      ...marker
    })
  })

  it.live("RL-STOP-04 stopped", () =>
    Effect.gen(function* () {
      const scene = yield* ephemeral()
      const workers = scriptedWorkers({ call: answers(receipt) })
      yield* stopRun(scene, workers, { status: "failed" })
      assert.deepStrictEqual(workers.methods(), [stopMethod])
      assert.deepInclude(workers.calls[0]!.params["config"], { reuseLease: false })
      yield* assertFinal(scene)
    }).pipe(onClone)
  )

  for (const [row, first] of [
    ["stop_failed", fault],
    ["unconfirmed", undefined]
  ] as const) {
    it.live(`RL-STOP-04 RL-STOP-11 ${row}: one sweep finishes it`, () =>
      Effect.gen(function* () {
        const scene = yield* ephemeral()
        const workers = scriptedWorkers({ call: answers(first, receipt) })
        yield* stopRun(scene, workers, { status: "failed" })
        yield* assertPending(scene, { pluginId: scene.plugin.id })
        assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
          swept: 1,
          destroyed: 0,
          capped: 0
        })
        assert.deepStrictEqual(workers.methods(), [stopMethod, stopMethod])
        assert.deepInclude(workers.calls[1]!.params, { resourceDisposition: "stop_and_retain" })
        assert.deepInclude(workers.calls[1]!.params["config"], { reuseLease: false })
        yield* assertFinal(scene)
      }).pipe(onClone)
    )
  }

  for (const row of ["release_only", "restart"]) {
    it.live(`RL-STOP-04 RL-STOP-05 RL-CAP-07 ${row}: the marker is durable without a call`, () =>
      Effect.gen(function* () {
        const scene = yield* ephemeral()
        const without = scriptedWorkers({ methods: () => others, call: answers(receipt) })
        yield* stopRun(scene, without, { status: "failed" })
        yield* assertPending(scene, { pluginId: scene.plugin.id })
        yield* sweepIn({ workers: without.manager })
        assert.isEmpty(without.calls)
        const workers = scriptedWorkers({ methods: () => [...others, stopMethod], call: answers(receipt) })
        yield* sweepIn({ workers: workers.manager })
        assert.deepStrictEqual(workers.methods(), [stopMethod])
        yield* assertFinal(scene)
      }).pipe(onClone)
    )
  }

  for (const status of ["active", "retained"]) {
    it.live(`RL-STOP-04 RL-STOP-07 competing_owner (${status}): no call at release nor in the sweep`, () =>
      Effect.gen(function* () {
        const scene = yield* ephemeral()
        yield* newLease(scene.tenant, scene.environment.id, {
          status,
          provider: "fake-plugin",
          provider_lease_id: reusableLeaseId
        })
        const workers = scriptedWorkers({ call: answers(receipt) })
        yield* stopRun(scene, workers, { status: "failed" })
        yield* assertPending(scene, { pluginId: scene.plugin.id })
        yield* sweepIn({ workers: workers.manager })
        assert.isEmpty(workers.calls)
      }).pipe(onClone)
    )
  }

  it.live("RL-STOP-04 RL-STOP-06 missing_pin: no call, and no destroy either", () =>
    Effect.gen(function* () {
      const scene = yield* ephemeral({ pluginId: undefined })
      const workers = scriptedWorkers({ call: answers(receipt) })
      yield* stopRun(scene, workers, { status: "failed" })
      yield* assertPending(scene, {})
      yield* sweepIn({ workers: workers.manager })
      assert.isEmpty(workers.calls)
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
    }).pipe(onClone)
  )

  it.live("RL-STOP-04 RL-STOP-08 RL-FENCE-03 late_receipt: the new owner's row is left exactly so", () =>
    Effect.gen(function* () {
      const scene = yield* ephemeral()
      const taken = {
        status: "active",
        run_id: null,
        cleanup_status: null,
        metadata: { newOwner: true }
      }
      const context = yield* Effect.context<Effect.Services<ReturnType<typeof setLease>>>()
      const workers = scriptedWorkers({
        call: (call) =>
          setLease(scene.lease, taken).pipe(
            Effect.provideContext(context),
            Effect.orDie,
            Effect.as(receipt(call))
          )
      })
      const released = yield* stopRun(scene, workers, { status: "failed" })
      assert.isEmpty(released)
      assert.deepInclude(yield* leaseRow(scene.lease), taken)
    }).pipe(onClone)
  )

  it.live("RL-STOP-05 marker, status and claim are one write before the call", () =>
    Effect.gen(function* () {
      const scene = yield* ephemeral()
      const context = yield* Effect.context<Effect.Services<ReturnType<typeof leaseRow>>>()
      const seen: Array<JsonObject> = []
      const workers = scriptedWorkers({
        call: (call) =>
          leaseRow(scene.lease).pipe(
            Effect.provideContext(context),
            Effect.orDie,
            Effect.map((row) => {
              seen.push(row)
              return receipt(call)
            })
          )
      })
      yield* stopRun(scene, workers, { cancelActiveWork: true })
      assert.deepInclude(seen[0], { status: "pending_cleanup", cleanup_status: "failed" })
      const metadata = seen[0]!["metadata"] as JsonObject
      assert.deepStrictEqual(metadata["sandboxStopAndRetain"], {
        pluginId: scene.plugin.id,
        runId: scene.run,
        providerLeaseId: reusableLeaseId,
        cancelActiveWork: true
      })
      assert.isTrue(metadata["pendingCleanupInFlight"])
    }).pipe(onClone)
  )
})
