/** What runs, agents, scopes and the sweep look for among leases, and what is pruned; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  abandonedLeaseGraceSeconds,
  endedLeaseKeptSeconds,
  endedLeasesPrunedMax
} from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import {
  newAgent,
  newRun,
  newTenant,
  onClone,
  reusableLeaseId,
  reuseFixture
} from "../../domain/runLeases/fixture.ts"
import {
  newLease,
  type RawLease,
  setLease,
  setMetadata,
  setRun,
  sql,
  value
} from "../../domain/runLeases/rawRows.ts"

describe("what others look for", () => {
  it.live(
    "RL-STOP-07 another active or retained row of the same resource is an owner, and no other row is",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* reuseFixture()
        const mine = Option.getOrThrow(yield* leases.getLeaseById(scene.lease))
        assert.isFalse(yield* leases.hasOtherOwner(mine))
        const other = yield* newLease(scene.tenant, scene.environment.id, {
          provider: "fake-plugin",
          provider_lease_id: reusableLeaseId
        })
        const owned: ReadonlyArray<readonly [RawLease, boolean]> = [
          [{ status: "active" }, true],
          [{ status: "retained" }, true],
          [{ status: "released" }, false],
          [{ status: "failed" }, false],
          [{ status: "expired" }, false],
          [{ status: "pending_cleanup" }, false],
          [{ status: "active", provider: "other" }, false],
          [{ provider: "fake-plugin", provider_lease_id: `${reusableLeaseId}-2` }, false],
          [{ provider_lease_id: reusableLeaseId, environment_id: null }, false]
        ]
        for (const [change, expected] of owned) {
          yield* setLease(other, change)
          assert.strictEqual(yield* leases.hasOtherOwner(mine), expected, JSON.stringify(change))
        }
        const long = "x".repeat(5_000)
        yield* setLease(scene.lease, { provider_lease_id: long })
        yield* setLease(other, { provider_lease_id: `${long}y`, environment_id: scene.environment.id })
        assert.isFalse(yield* leases.hasOtherOwner({ ...mine, providerLeaseId: long }))
      }).pipe(onClone)
  )

  it.live(
    "RL-DESTROY-01 RL-DESTROY-02 a scope has its unfinished reusable and retained rows, within the tenant",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* reuseFixture({ withTask: true })
        const byTask = { tenant: scene.tenant, task: scene.task }
        const byWorkspace = { tenant: scene.tenant, executionWorkspace: scene.workspace }
        const found = (scope: typeof byTask | typeof byWorkspace) =>
          Effect.map(leases.destroyable(scope), (rows) => rows.map(({ id }) => id))
        const rows: ReadonlyArray<readonly [RawLease, boolean]> = [
          [{ status: "active" }, true],
          [{ status: "failed" }, true],
          [{ status: "released" }, true],
          [{ status: "retained" }, true],
          [{ status: "pending_cleanup" }, true],
          [{ status: "expired" }, false],
          [{ status: "retained", lease_policy: "retain_on_failure" }, true],
          [{ status: "active", lease_policy: "ephemeral" }, false]
        ]
        for (const [change, expected] of rows) {
          yield* setLease(scene.lease, change)
          for (const scope of [byTask, byWorkspace]) {
            assert.deepStrictEqual(yield* found(scope), expected ? [scene.lease] : [], JSON.stringify(change))
          }
        }
        yield* setLease(scene.lease, { status: "failed", lease_policy: "reuse_by_environment" })
        const tenant = yield* newTenant
        assert.deepStrictEqual(yield* found({ ...byTask, tenant }), [])
        assert.deepStrictEqual(yield* found({ ...byWorkspace, tenant }), [])
        const unfinished = Effect.map(leases.unfinishedOf(scene.environment.id), (all) => all.length)
        assert.strictEqual(yield* unfinished, 1)
        yield* setLease(scene.lease, { lease_policy: "ephemeral", cleanup_status: "success" })
        assert.strictEqual(yield* unfinished, 0, "an ephemeral one that failed and was released is over")
        yield* setLease(scene.lease, { cleanup_status: null })
        assert.strictEqual(yield* unfinished, 1)
        yield* setLease(scene.lease, { provider_lease_id: null })
        assert.strictEqual(yield* unfinished, 0)
      }).pipe(onClone)
  )

  it.live("RL-DESTROY-09 an agent's leases are found by their metadata or by the agent of their run", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const scene = yield* reuseFixture({ runStatus: "failed" })
      const ids = Effect.map(leases.ofAgent(scene.agent), (rows) => rows.map(({ id }) => id))
      assert.deepStrictEqual(yield* ids, [], "an active one is its run's")
      yield* setLease(scene.lease, { status: "retained", cleanup_status: "failed" })
      assert.deepStrictEqual(yield* ids, [scene.lease], "found twice and answered once")
      yield* setMetadata(scene.lease, { agentId: undefined })
      assert.deepStrictEqual(yield* ids, [scene.lease])
      yield* setLease(scene.lease, { run_id: null })
      assert.deepStrictEqual(yield* ids, [])
      yield* setMetadata(scene.lease, { agentId: scene.agent })
      yield* setLease(scene.lease, { status: "pending_cleanup" })
      assert.deepStrictEqual(yield* ids, [scene.lease])
      assert.deepStrictEqual(yield* leases.ofAgent((yield* newAgent(scene.tenant)).id), [])
    }).pipe(onClone)
  )

  it.live("RL 6.4 an active row is abandoned when its expiry has passed or its run ended a while ago", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const scene = yield* reuseFixture()
      const abandoned = Effect.map(leases.abandoned, (rows) => rows.map(({ id }) => id))
      const now = Date.now()
      yield* setLease(scene.lease, { expires_at: new Date(now + 60_000) })
      assert.deepStrictEqual(yield* abandoned, [])
      yield* setLease(scene.lease, { expires_at: new Date(now - 60_000) })
      assert.deepStrictEqual(yield* abandoned, [scene.lease])
      yield* setLease(scene.lease, { expires_at: null })
      yield* setRun(scene.run, "failed")
      assert.deepStrictEqual(yield* abandoned, [], "it releases its leases itself")
      yield* sql(
        "update core.runs set finished_at = now() - make_interval(secs => $2::int) where id = $1::uuid",
        [scene.run, abandonedLeaseGraceSeconds + 1]
      )
      assert.deepStrictEqual(yield* abandoned, [scene.lease])
      yield* setRun(scene.run, "queued")
      assert.deepStrictEqual(yield* abandoned, [])
      yield* sql("delete from core.runs where id = $1::uuid", [scene.run])
      assert.deepStrictEqual(yield* abandoned, [scene.lease])
      yield* setLease(scene.lease, { run_id: null })
      assert.deepStrictEqual(yield* abandoned, [])
      yield* setLease(scene.lease, {
        run_id: (yield* newRun(scene.tenant, scene.agent)).id,
        status: "retained"
      })
      assert.deepStrictEqual(yield* abandoned, [])
    }).pipe(onClone)
  )

  it.live("FC-15 FC-22 what is over stays readable for its time, and is pruned in bounded steps", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const tenant = yield* newTenant
      const fill = (status: string, policy: string, ageSeconds: number, count: number) =>
        sql(
          `insert into environment_leases (id, tenant_id, status, lease_policy, released_at, cleanup_due_at)
            select gen_random_uuid(), $1::uuid, $2::text, $3::text, now() - make_interval(secs => $4::int),
              case when $2::text = 'pending_cleanup' then now() end from generate_series(1, $5::int)`,
          [tenant, status, policy, ageSeconds, count]
        )
      const old = endedLeaseKeptSeconds + 60
      yield* fill("expired", "ephemeral", old, endedLeasesPrunedMax + 5)
      yield* fill("released", "ephemeral", old, 1)
      yield* fill("expired", "ephemeral", endedLeaseKeptSeconds - 60, 1)
      yield* fill("released", "reuse_by_environment", old, 1)
      yield* fill("pending_cleanup", "ephemeral", old, 1)
      yield* fill("retained", "ephemeral", old, 1)
      yield* fill("failed", "ephemeral", old, 1)
      assert.strictEqual(yield* leases.pruneEnded, endedLeasesPrunedMax)
      assert.strictEqual(yield* leases.pruneEnded, 6)
      assert.strictEqual(yield* leases.pruneEnded, 0)
      assert.strictEqual(yield* value("select count(*)::int from environment_leases"), 5)
    }).pipe(onClone)
  )
})
