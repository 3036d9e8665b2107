import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { RunId } from "../../../src/domain/Identity.ts"
import { leaseNow, plainDriver, sweepIn } from "./daemons.ts"
import { newEnvironment, newTenant, onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { newLease, sql } from "./rawRows.ts"
import { receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const answering = () =>
  scriptedWorkers({
    call: (call) =>
      Effect.sync(() => receiptOf(call.method === "environmentStopLease" ? "stopped" : "destroyed")(call))
  })

/** The run ended so long ago that nobody is on the way to release what it holds. */
const endLongAgo = (run: RunId) =>
  sql("update core.runs set status = 'failed', finished_at = now() - interval '1 day' where id = $1::uuid", [
    run
  ])

describe("runLeases/sweep of abandoned leases", () => {
  it.live(
    "RL 6.4-3 an active lease whose run is over is found without an expiry, and its resource goes",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture()
        const workers = answering()
        assert.deepInclude(yield* sweepIn({ workers: workers.manager }), { swept: 0 })
        yield* endLongAgo(scene.run)
        assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
          swept: 1,
          destroyed: 1,
          capped: 0
        })
        assert.deepStrictEqual(workers.methods(), ["environmentDestroyLease"])
        assert.strictEqual((yield* leaseNow(scene.lease)).status, "expired")
      }).pipe(onClone)
  )

  it.live("RL 6.4-3 it is skipped while another live row owns the same resource", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      yield* endLongAgo(scene.run)
      yield* newLease(scene.tenant, scene.environment.id, {
        provider: "fake-plugin",
        provider_lease_id: reusableLeaseId
      })
      const workers = answering()
      assert.deepInclude(yield* sweepIn({ workers: workers.manager }), { swept: 0 })
      assert.isEmpty(workers.calls)
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "active")
    }).pipe(onClone)
  )

  it.live("RL 6.4-3 one whose expiry has passed is left while its run lives", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: { expires_at: new Date(Date.now() - 60_000) } })
      const nobodys = yield* newLease(scene.tenant, scene.environment.id, {
        expires_at: new Date(Date.now() - 60_000),
        provider: "fake-plugin",
        provider_lease_id: "nobodys",
        metadata: (yield* leaseNow(scene.lease)).metadata
      })
      const workers = answering()
      assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
        swept: 1,
        destroyed: 1,
        capped: 0
      })
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "active")
      assert.strictEqual((yield* leaseNow(nobodys)).status, "expired")
    }).pipe(onClone)
  )

  it.live("RL-BACKUP-01 RL 6.4-3 a native one without a proved backup is stopped, not destroyed", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ native: true })
      yield* endLongAgo(scene.run)
      const workers = answering()
      assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
        swept: 1,
        destroyed: 0,
        capped: 0
      })
      assert.deepStrictEqual(workers.methods(), ["environmentStopLease"])
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "released")
    }).pipe(onClone)
  )

  it.live("RL 6.4-3 a lease of another driver ends by that driver", () =>
    Effect.gen(function* () {
      const tenant = yield* newTenant
      const environment = yield* newEnvironment("local")
      const lease = yield* newLease(tenant, environment.id, {
        expires_at: new Date(Date.now() - 60_000),
        metadata: { driver: "local" }
      })
      const drivers = [plainDriver("local", yield* EnvironmentLeaseStore)]
      assert.deepInclude(yield* sweepIn({ drivers }), { swept: 1 })
      assert.strictEqual((yield* leaseNow(lease)).status, "expired")
    }).pipe(onClone)
  )
})
