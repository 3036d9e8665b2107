import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import { TestClock } from "effect/testing"
import { cleanupClaimMillis, cleanupClaimRenewMillis } from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import {
  destroyReusableSandboxLeases,
  destroyReusableSandboxLeasesForEnvironment
} from "../../../src/domain/runLeases/destruction.ts"
import {
  retryPendingSandboxTeardown,
  tearDown,
  TeardownOutcome
} from "../../../src/domain/runLeases/teardown.ts"
import { inDaemon, leaseNow, sweepIn } from "./daemons.ts"
import { onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { leaseRow, newLease, setLease, setMetadata } from "./rawRows.ts"
import { receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

type Scene = Effect.Success<ReturnType<typeof reuseFixture>>

const close = (by: "task" | "workspace" | "environment", scene: Scene) =>
  Effect.gen(function* () {
    const { environment, task, tenant, workspace } = scene
    if (by === "environment") return void (yield* destroyReusableSandboxLeasesForEnvironment(environment.id))
    const scope = by === "task" ? { tenant, task } : { tenant, executionWorkspace: workspace }
    yield* destroyReusableSandboxLeases(scope, "execution_workspace_closed")
  })

/** A worker whose first call waits at a barrier and then fails; the later ones answer a matching receipt. */
const held = Effect.gen(function* () {
  const entered = yield* Deferred.make<void>()
  const barrier = yield* Deferred.make<void>()
  const workers = scriptedWorkers({
    call: (call) =>
      workers.calls.length > 1
        ? Effect.succeed(receiptOf("destroyed")(call))
        : Deferred.succeed(entered, undefined).pipe(
            Effect.andThen(Deferred.await(barrier)),
            Effect.andThen(Effect.fail(new Error("provider unavailable")))
          )
  })
  return { entered, barrier, workers, parts: { workers: workers.manager } }
})

const claimed = (lease: EnvironmentLeaseId) => Effect.map(leaseNow(lease), ({ metadata }) => metadata)

const own = (scene: Scene) =>
  Effect.map(leaseNow(scene.lease), (lease) => ({
    lease,
    from: ["pending_cleanup" as const],
    refuseLiveRun: false,
    failureReason: null,
    actor: "test"
  }))

const pending = {
  status: "pending_cleanup",
  cleanup_status: "failed",
  failure_reason: "release_cleanup_failed"
}

describe("runLeases/teardown", () => {
  for (const by of ["task", "workspace", "environment"] as const) {
    it.live(`RL-DESTROY-04 RL-FENCE-02 claim first, destroy second, recover by sweep: ${by}`, () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({
          withTask: true,
          runStatus: "failed",
          lease: { status: "failed" }
        })
        const { barrier, entered, parts, workers } = yield* held
        const first = yield* Effect.forkChild(Effect.result(close(by, scene).pipe(inDaemon(parts))))
        yield* Deferred.await(entered)
        const row = yield* leaseRow(scene.lease)
        assert.deepInclude(row, {
          status: "pending_cleanup",
          cleanup_status: "failed",
          tenant_id: scene.tenant,
          provider_lease_id: reusableLeaseId
        })
        assert.isString(row.metadata["pendingCleanupAttemptId"])
        assert.isTrue(row.metadata["pendingCleanupInFlight"])
        assert.isNumber(row.metadata["pendingCleanupLeaseExpiresAtMs"])
        yield* close(by, scene).pipe(inDaemon(parts))
        assert.deepStrictEqual(yield* sweepIn(parts), { swept: 0, destroyed: 0, capped: 0 })
        assert.lengthOf(workers.calls, 1)
        yield* Deferred.succeed(barrier, undefined)
        assert.isTrue(Result.isSuccess(yield* Fiber.join(first)))
        const failed = yield* leaseNow(scene.lease)
        assert.strictEqual(failed.status, "pending_cleanup")
        assert.isFalse(failed.metadata["pendingCleanupInFlight"])
        assert.deepStrictEqual(yield* sweepIn(parts), { swept: 1, destroyed: 1, capped: 0 })
        assert.deepStrictEqual(workers.methods(), ["environmentDestroyLease", "environmentDestroyLease"])
        const lease = yield* leaseNow(scene.lease)
        assert.deepInclude(lease, { status: "expired", cleanupStatus: "success" })
        assert.deepInclude(lease.metadata["remoteExecutionTermination"], { state: "destroyed" })
      }).pipe(onClone)
    )
  }

  it.live("RL-FENCE-02 every attempt has a token of its own, and an expired claim may be taken over", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const failing = scriptedWorkers({ call: () => Effect.fail(new Error("no")) })
      yield* sweepIn({ workers: failing.manager })
      const first = (yield* claimed(scene.lease))["pendingCleanupAttemptId"]
      yield* setMetadata(scene.lease, {
        pendingCleanupInFlight: true,
        pendingCleanupLeaseExpiresAtMs: Date.now() - 1
      })
      yield* sweepIn({ workers: failing.manager })
      const second = (yield* claimed(scene.lease))["pendingCleanupAttemptId"]
      assert.isString(second)
      assert.notStrictEqual(first, second)
    }).pipe(onClone)
  )

  it.effect("RL-FENCE-02 the claim is renewed for as long as the call runs", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const { barrier, entered, parts } = yield* held
      const attempt = yield* Effect.forkChild(tearDown(yield* own(scene)).pipe(inDaemon(parts)))
      yield* Deferred.await(entered)
      const store = yield* EnvironmentLeaseStore
      yield* setMetadata(scene.lease, { pendingCleanupLeaseExpiresAtMs: 1 })
      yield* TestClock.adjust(cleanupClaimRenewMillis)
      // The renewal goes to the database beside this fiber: its end is waited for by asking until it is seen.
      let metadata = yield* claimed(scene.lease)
      while (metadata["pendingCleanupLeaseExpiresAtMs"] === 1) metadata = yield* claimed(scene.lease)
      const left = Number(metadata["pendingCleanupLeaseExpiresAtMs"]) - Date.now()
      assert.isAbove(left, cleanupClaimMillis / 2)
      yield* Deferred.succeed(barrier, undefined)
      assert.strictEqual((yield* Fiber.join(attempt))._tag, "Owed")
      assert.lengthOf((yield* store.dueCleanups({ backoffMillis: 0 })).leases, 1)
    }).pipe(onClone)
  )

  it.live("RL-FENCE-03 RL-STOP-08 a destruction whose row was taken over writes nothing", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const context = yield* Effect.context<Effect.Services<ReturnType<typeof setLease>>>()
      const taken = { status: "active", run_id: null, cleanup_status: null, metadata: { newOwner: true } }
      const workers = scriptedWorkers({
        call: (call) =>
          setLease(scene.lease, taken).pipe(
            Effect.provideContext(context),
            Effect.orDie,
            Effect.as(receiptOf("destroyed")(call))
          )
      })
      const outcome = yield* tearDown(yield* own(scene)).pipe(inDaemon({ workers: workers.manager }))
      assert.deepStrictEqual(outcome, TeardownOutcome.Moved())
      assert.deepInclude(yield* leaseRow(scene.lease), taken)
    }).pipe(onClone)
  )

  it.live("RL 6.1-5 readiness comes before the claim, and the verb is decided on the claimed row", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const stale = yield* own(scene)
      const away = scriptedWorkers({ isRunning: () => false })
      const asked = { ...stale, onlyIfReady: true }
      const notReady = yield* tearDown(asked).pipe(inDaemon({ workers: away.manager }))
      assert.deepStrictEqual(notReady, TeardownOutcome.NotReady())
      assert.notProperty(yield* claimed(scene.lease), "pendingCleanupAttemptId")
      // A marker that came after the row was read.
      yield* setMetadata(scene.lease, { sandboxStopAndRetain: 1 })
      const workers = scriptedWorkers()
      const outcome = yield* tearDown(asked).pipe(inDaemon({ workers: workers.manager }))
      assert.deepInclude(outcome, { _tag: "Owed", why: "held" })
      assert.isEmpty(workers.calls)
    }).pipe(onClone)
  )

  for (const status of ["active", "retained"]) {
    it.live(
      `RL 6.1-27 RL-STOP-07 a resource that another row (${status}) holds is not destroyed either`,
      () =>
        Effect.gen(function* () {
          const scene = yield* reuseFixture({ lease: pending })
          const owner = yield* newLease(scene.tenant, scene.environment.id, {
            status,
            provider: "fake-plugin",
            provider_lease_id: reusableLeaseId
          })
          const workers = scriptedWorkers()
          const parts = { workers: workers.manager }
          const outcome = yield* tearDown(yield* own(scene)).pipe(inDaemon(parts))
          assert.deepInclude(outcome, { _tag: "Owed", why: "other_owner" })
          assert.isEmpty(workers.calls)
          yield* setLease(owner, { status: "expired" })
          assert.strictEqual((yield* tearDown(yield* own(scene)).pipe(inDaemon(parts)))._tag, "Ended")
        }).pipe(onClone)
    )
  }

  it.live("RL-FENCE-02 an attempt that is cut off gives its claim back", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const { entered, parts } = yield* held
      const attempt = yield* Effect.forkChild(tearDown(yield* own(scene)).pipe(inDaemon(parts)))
      yield* Deferred.await(entered)
      yield* Fiber.interrupt(attempt)
      const lease = yield* leaseNow(scene.lease)
      assert.deepInclude(lease, { status: "pending_cleanup", cleanupTries: 0 })
      assert.isFalse(lease.metadata["pendingCleanupInFlight"])
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-13 a failing retry throws and changes nothing", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const before = yield* leaseRow(scene.lease)
      const workers = scriptedWorkers({ call: () => Effect.fail(new Error("secret text")) })
      const error = yield* retryPendingSandboxTeardown(yield* leaseNow(scene.lease)).pipe(
        inDaemon({ workers: workers.manager }),
        Effect.flip
      )
      assert.deepInclude(error, { _tag: "TeardownUnconfirmed", why: "provider_failed" })
      assert.notInclude(error.message, "secret text")
      assert.deepStrictEqual(yield* leaseRow(scene.lease), before)
    }).pipe(onClone)
  )

  it.live(
    "RL-ORPHAN-15 RL-SWEEP-08 a retry resolves to the receipt, without discovery too, and writes no status",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ lease: { ...pending, provider_lease_id: "plugin-lease-3" } })
        const workers = scriptedWorkers({
          methods: null,
          call: (call) => Effect.sync(() => receiptOf("destroyed")(call))
        })
        const reply = yield* retryPendingSandboxTeardown(yield* leaseNow(scene.lease)).pipe(
          inDaemon({ workers: workers.manager })
        )
        assert.deepStrictEqual(reply, { providerLeaseId: "plugin-lease-3", state: "destroyed" })
        assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
      }).pipe(onClone)
  )
})
