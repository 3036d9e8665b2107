import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as References from "effect/References"
import { cleanupUnattendedTriesMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { OrphanSpoolUnreadable } from "../../../src/domain/runLeases/OrphanSpool.ts"
import { sweepCleanups, sweepPendingCleanupLeases } from "../../../src/domain/runLeases/sweep.ts"
import { inDaemon, leaseNow, sweepIn } from "./daemons.ts"
import { onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { leaseRow, newLease, setLease, setMetadata, sql } from "./rawRows.ts"
import { receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const pending = {
  status: "pending_cleanup",
  cleanup_status: "failed",
  failure_reason: "release_cleanup_failed"
}

const destroying = () => scriptedWorkers({ call: (call) => Effect.sync(() => receiptOf("destroyed")(call)) })
const failing = () => scriptedWorkers({ call: () => Effect.fail(new Error("provider unavailable")) })

/** What the gauge says now. */
const needOperator = Effect.map(Metric.snapshot, (metrics) => {
  const found = metrics.find(({ id }) => id === "holdfast_lease_cleanups_need_operator")
  return found?.type === "Gauge" ? Number(found.state.value) : null
})

describe("runLeases/sweep", () => {
  it.live("RL-SWEEP-01 RL-SWEEP-02 RL-SWEEP-06 recorded config, re-pointed environment, running run", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      yield* EnvironmentStore.use((store) =>
        store.update(scene.environment.id, {
          config: {
            provider: "replacement-provider",
            image: "replacement:test",
            timeoutMs: 9999,
            reuseLease: true
          }
        })
      )
      const workers = scriptedWorkers()
      assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
        swept: 1,
        destroyed: 1,
        capped: 0
      })
      assert.deepStrictEqual(workers.methods(), ["environmentDestroyLease"])
      const [call] = workers.calls
      assert.deepStrictEqual([call!.plugin, call!.given[3]], [scene.plugin.id, 31_234])
      assert.deepInclude(call!.params, {
        driverKey: "fake-plugin",
        environmentId: scene.environment.id,
        providerLeaseId: reusableLeaseId
      })
      assert.deepStrictEqual(call!.params["config"], {
        image: "fake:test",
        timeoutMs: 1234,
        reuseLease: true
      })
      assert.deepInclude(yield* leaseNow(scene.lease), {
        status: "expired",
        cleanupStatus: "success",
        endedBy: "sweep"
      })
      assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
        swept: 0,
        destroyed: 0,
        capped: 0
      })
    }).pipe(onClone)
  )

  it.live(
    "RL-SWEEP-03 RL 6.4-4 a row whose worker is away goes behind the others, without a claim or a try",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ lease: pending })
        yield* sql("update environment_leases set cleanup_due_at = now() - interval '1 hour'")
        const away = scriptedWorkers({ isRunning: () => false })
        assert.deepStrictEqual(yield* sweepIn({ workers: away.manager }), {
          swept: 0,
          destroyed: 0,
          capped: 0
        })
        const row = yield* leaseRow(scene.lease)
        assert.deepInclude(row, { cleanup_tries: 0, status: "pending_cleanup" })
        assert.notProperty(row.metadata, "pendingCleanupAttemptId")
        assert.isAbove((row["cleanup_due_at"] as Date).getTime(), Date.now() - 60_000)
      }).pipe(onClone)
  )

  it.live(
    "FC-09 RL 6.1-2 a row that nothing may be sent for counts its tries, whether its owner is there or not",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ lease: pending, metadata: { sandboxStopAndRetain: null } })
        const away = scriptedWorkers({ isRunning: () => false })
        assert.deepInclude(yield* sweepIn({ workers: away.manager }), { swept: 1, destroyed: 0 })
        assert.deepInclude(yield* leaseNow(scene.lease), { status: "pending_cleanup", cleanupTries: 1 })
      }).pipe(onClone)
  )

  it.live("RL-SWEEP-05 back-off: a row that just failed waits, with none it is due at once", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const workers = failing()
      const sweepWith = (backoffMillis: number) =>
        sweepPendingCleanupLeases({ backoffMillis }).pipe(inDaemon({ workers: workers.manager }))
      assert.deepInclude(yield* sweepWith(0), { swept: 1, destroyed: 0 })
      assert.deepInclude(yield* sweepWith(60_000), { swept: 0 })
      assert.deepInclude(yield* sweepWith(0), { swept: 1 })
      assert.isTrue(yield* EnvironmentLeaseStore.use((store) => store.makeDue(scene.lease)))
      assert.deepInclude(yield* sweepWith(60_000), { swept: 1 })
    }).pipe(onClone)
  )

  it.live("RL-SWEEP-07 a sweep starts with a flush of deferred orphans", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: { status: "expired" } })
      const lease = yield* leaseNow(scene.lease)
      const record = { ...lease, provider: "fake-plugin", failureReason: "acquire_rejected_teardown_failed" }
      yield* sql("delete from environment_leases")
      const workers = destroying()
      const spooled = Effect.succeed([{ ...record, providerLeaseId: "spooled-1" }])
      assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager, spooled }), {
        swept: 1,
        destroyed: 1,
        capped: 0
      })
      assert.strictEqual(workers.calls[0]?.params["providerLeaseId"], "spooled-1")
    }).pipe(onClone)
  )

  it.live(
    "RL 6.4-2 a spool that cannot be read is a failure of the pass, and the rows are swept all the same",
    () =>
      Effect.gen(function* () {
        yield* reuseFixture({ lease: pending })
        const count = yield* sweepCleanups(0).pipe(
          inDaemon({
            workers: destroying().manager,
            spooled: Effect.fail(new OrphanSpoolUnreadable({ why: "folder" }))
          })
        )
        assert.deepStrictEqual(count, { attempted: 2, done: 1, failed: 1 })
      }).pipe(onClone)
  )

  it.live("FC-05 a sweep in which every row fails says so", () =>
    Effect.gen(function* () {
      for (let rows = 0; rows < 3; rows += 1) yield* reuseFixture({ lease: pending })
      const count = yield* sweepCleanups(0).pipe(inDaemon({ workers: failing().manager }))
      assert.deepStrictEqual(count, { attempted: 3, done: 0, failed: 3 })
    }).pipe(onClone)
  )

  it.live("FC-09 after five failures one alert, then every 30 minutes, never given up", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const alerts: Array<unknown> = []
      const logger = Logger.make(({ fiber }) => {
        const { errorKind } = fiber.getRef(References.CurrentLogAnnotations)
        if (errorKind !== undefined) alerts.push(errorKind)
      })
      const workers = failing()
      const sweeps = (times: number) =>
        Effect.forEach(Array.from({ length: times }), () => sweepIn({ workers: workers.manager }), {
          discard: true
        }).pipe(Effect.provide(Logger.layer([logger])))
      yield* sweeps(cleanupUnattendedTriesMax - 1)
      assert.deepInclude(yield* leaseNow(scene.lease), { needsOperator: false })
      assert.isEmpty(alerts)
      yield* sweeps(1)
      assert.deepInclude(yield* leaseNow(scene.lease), { needsOperator: true, cleanupTries: 5 })
      assert.strictEqual(yield* needOperator, 1)
      assert.deepStrictEqual(alerts, ["lease_cleanup_needs_operator"])
      yield* sweeps(2)
      assert.lengthOf(workers.calls, 5)
      yield* sql("update environment_leases set cleanup_due_at = now() - interval '31 minutes'")
      yield* sweeps(1)
      assert.lengthOf(workers.calls, 6)
      assert.lengthOf(alerts, 1)
      assert.isTrue(yield* EnvironmentLeaseStore.use((store) => store.makeDue(scene.lease)))
      const healed = destroying()
      assert.deepInclude(yield* sweepIn({ workers: healed.manager }), { swept: 1, destroyed: 1, capped: 0 })
      assert.deepInclude(yield* leaseNow(scene.lease), { status: "expired", needsOperator: false })
    }).pipe(onClone)
  )

  it.live("FC-09 capped counts the rows that need an operator by now", () =>
    Effect.gen(function* () {
      yield* reuseFixture({ lease: { ...pending, cleanup_tries: 4 } })
      assert.deepStrictEqual(yield* sweepIn({ workers: failing().manager }), {
        swept: 1,
        destroyed: 0,
        capped: 1
      })
    }).pipe(onClone)
  )

  it.live("RL 6.4-4 malformed metadata never stops a page, and a person's retry skips no live owner", () =>
    Effect.gen(function* () {
      const scenes = [yield* reuseFixture({ lease: pending }), yield* reuseFixture({ lease: pending })]
      const [broken, whole] = scenes
      yield* setMetadata(broken!.lease, {
        pendingCleanupLeaseExpiresAtMs: 1e300,
        pendingCleanupInFlight: 7,
        pendingCleanupAttemptId: [],
        timeoutMs: 1e300,
        reusableSandboxLease: 1e300
      })
      assert.deepStrictEqual(yield* sweepIn({ workers: destroying().manager }), {
        swept: 2,
        destroyed: 2,
        capped: 0
      })
      yield* setLease(whole!.lease, pending)
      yield* setMetadata(whole!.lease, {
        pendingCleanupInFlight: true,
        pendingCleanupLeaseExpiresAtMs: Date.now() + 60_000
      })
      yield* EnvironmentLeaseStore.use((store) => store.makeDue(whole!.lease))
      assert.deepInclude(yield* sweepIn({ workers: destroying().manager }), { swept: 0 })
    }).pipe(onClone)
  )

  it.live("RL-SWEEP-01 more rows than a page are swept in one pass", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const { metadata } = yield* leaseNow(scene.lease)
      for (let row = 0; row < 24; row += 1)
        yield* newLease(scene.tenant, scene.environment.id, {
          ...pending,
          provider: "fake-plugin",
          provider_lease_id: `more-${row}`,
          metadata
        })
      const workers = destroying()
      assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
        swept: 25,
        destroyed: 25,
        capped: 0
      })
      assert.lengthOf(new Set(workers.calls.map(({ params }) => params["providerLeaseId"])), 25)
    }).pipe(onClone)
  )
})
