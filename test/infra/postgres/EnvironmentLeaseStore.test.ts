/** Acquisitions and orphans at the store of environment leases; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { environmentIntentsMax, environmentLeasesLiveMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { sideBySide } from "../../support/sideBySide.ts"
import { newEnvironment, newTenant, onClone, reuseFixture } from "../../domain/runLeases/fixture.ts"
import { leaseRow, leaseRowsOf, newLease, sql, value } from "../../domain/runLeases/rawRows.ts"
import { acquisition, insideHeld, intention, leaseId, orphan, statementHeld, store } from "./leaseRequests.ts"

const place = Effect.gen(function* () {
  return { tenant: yield* newTenant, environment: yield* newEnvironment("sandbox", { provider: "fake" }) }
})

const bind = (tenant: string, environment: string) =>
  sql(
    `insert into managed_resource_bindings (tenant_id, resource_key, resource_id, stock_version, stock_hash)
      values ($1::uuid, 'managed-sandbox', $2::uuid, 1, 'hash')`,
    [tenant, environment]
  )

const intentsLeft = value("select count(*)::int from provider_intents")

describe("acquisition at the store", () => {
  it.live("RL-ACQ-10 the insert refuses an environment that is another tenant's, and writes nothing", () =>
    Effect.gen(function* () {
      const here = yield* place
      const leases = yield* EnvironmentLeaseStore
      const asked = acquisition(here, { assertTenantBinding: true })
      yield* leases.intend(intention(here, { id: asked.id }))
      yield* bind(yield* newTenant, here.environment.id)
      const refused = yield* Effect.flip(leases.acquireLease(asked))
      assert.deepInclude(refused, { status: 403, details: { code: "environment_tenant_mismatch" } })
      assert.deepStrictEqual(yield* leaseRowsOf(here.environment.id), [])
      assert.strictEqual(yield* intentsLeft, 1, "what was created is still intended, so it is found")
      yield* bind(here.tenant, here.environment.id)
      assert.strictEqual((yield* leases.acquireLease(asked)).status, "active")
      const unbound = { tenant: here.tenant, environment: yield* newEnvironment("sandbox") }
      assert.strictEqual(
        (yield* Effect.flip(leases.acquireLease(acquisition(unbound, { assertTenantBinding: true }))))._tag,
        "EnvironmentTenantMismatch"
      )
      assert.strictEqual((yield* leases.acquireLease(acquisition(unbound))).status, "active")
    }).pipe(onClone)
  )

  it.live("RL-ACQ-10 an insert beside the binding's way to another tenant waits for it and refuses", () =>
    Effect.gen(function* () {
      const here = yield* place
      yield* bind(here.tenant, here.environment.id)
      const seen = yield* sideBySide(
        (held) =>
          statementHeld(
            "delete from managed_resource_bindings where resource_id = $1::uuid",
            [here.environment.id],
            held
          ),
        Effect.flip(store((leases) => leases.acquireLease(acquisition(here, { assertTenantBinding: true }))))
      )
      assert.isTrue(seen.waited)
      assert.deepInclude(Exit.isSuccess(seen.contender) ? seen.contender.value : {}, { status: 403 })
    }).pipe(onClone)
  )

  it.live("RL-EXPIRY-01 RL-EXPIRY-02 an expiry is stored to the millisecond, and none as none", () =>
    Effect.gen(function* () {
      const here = yield* place
      for (const expiresAtMillis of [1, 1_799_999_999_999, 1_800_000_000_001, 4_102_444_800_123, null]) {
        const lease = yield* store((leases) => leases.acquireLease(acquisition(here, { expiresAtMillis })))
        assert.strictEqual(lease.expiresAtMillis, expiresAtMillis)
        const [row] = yield* sql(
          "select (extract(epoch from expires_at) * 1000)::text as at from environment_leases where id = $1::uuid",
          [lease.id]
        )
        assert.strictEqual(row?.["at"] === null ? null : Number(row?.["at"]), expiresAtMillis)
      }
    }).pipe(onClone)
  )

  it.live("BX-01 an intent is durable until its lease stands in its place, and repeats change nothing", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const leases = yield* EnvironmentLeaseStore
      const intent = intention(scene, { run: scene.run, plugin: scene.plugin.id, generation: 7 })
      yield* leases.intend(intent)
      yield* leases.intend({ ...intent, name: "another" })
      const [only, ...others] = yield* leases.intents
      assert.deepStrictEqual(others, [])
      assert.deepInclude(only, intent)
      assert.isAtLeast(only?.ageMillis ?? -1, 0)
      yield* sql("update provider_intents set created_at = created_at - interval '1 hour'")
      yield* leases.intend(intention(scene, { name: "younger" }))
      assert.deepStrictEqual(
        (yield* leases.intents).map(({ ageMillis, name }) => [name, ageMillis >= 3_600_000]),
        [
          [intent.name, true],
          ["younger", false]
        ]
      )
      const asked = acquisition(scene, {
        id: intent.id,
        run: scene.run,
        metadata: { nested: { b: 1, a: [null] } }
      })
      const lease = yield* leases.acquireLease(asked)
      assert.deepInclude(lease, { id: intent.id, run: scene.run, metadata: asked.metadata, endedBy: null })
      assert.deepStrictEqual(yield* leases.acquireLease(asked), lease, "the same id again is the same row")
      assert.deepStrictEqual(
        (yield* leases.intents).map(({ name }) => name),
        ["younger"]
      )
      const [younger] = yield* leases.intents
      yield* leases.dropIntent(younger?.id ?? leaseId())
      assert.deepStrictEqual(yield* leases.intents, [])
    }).pipe(onClone)
  )

  it.live("FC-15 a full environment refuses the intent already, and leases that are over do not count", () =>
    Effect.gen(function* () {
      const here = yield* place
      const leases = yield* EnvironmentLeaseStore
      const fill = (status: string, count: number) =>
        sql(
          `insert into environment_leases (id, tenant_id, environment_id, status, released_at, cleanup_due_at)
            select gen_random_uuid(), $1::uuid, $2::uuid, $3::text, case when $3::text <> 'active' then now() end,
              case when $3::text = 'pending_cleanup' then now() end from generate_series(1, $4::int)`,
          [here.tenant, here.environment.id, status, count]
        )
      yield* fill("expired", 50)
      yield* fill("released", 50)
      yield* fill("active", environmentLeasesLiveMax - 2)
      const intent = intention(here)
      yield* leases.intend(intent)
      yield* fill("pending_cleanup", 1)
      assert.strictEqual((yield* Effect.flip(leases.intend(intention(here))))._tag, "EnvironmentLeasesFull")
      yield* leases.intend(intent)
      yield* leases.acquireLease(acquisition(here, { id: intent.id }))
      assert.strictEqual(
        (yield* Effect.flip(leases.acquireLease(acquisition(here))))._tag,
        "EnvironmentLeasesFull"
      )
      assert.strictEqual(
        (yield* leases.insertPendingCleanupLease(orphan(here))).status,
        "pending_cleanup",
        "what is owed is recorded all the same"
      )
      const other = yield* place
      yield* sql(
        `insert into provider_intents (id, tenant_id, environment_id, provider, name, installation, generation, process)
          select gen_random_uuid(), $1::uuid, $2::uuid, 'p', 'n', 'i', 1, 'p' from generate_series(1, $3::int)`,
        [other.tenant, other.environment.id, environmentIntentsMax]
      )
      assert.strictEqual((yield* Effect.flip(leases.intend(intention(other))))._tag, "EnvironmentLeasesFull")
    }).pipe(onClone)
  )

  it.live("RL-REUSE-11 a run comes back to the row that it still holds, and to no other", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const other = yield* reuseFixture()
      const leases = yield* EnvironmentLeaseStore
      const refreshed = Option.getOrThrow(yield* leases.refreshLease(scene.lease, scene.run, { fresh: true }))
      assert.deepInclude(refreshed, { id: scene.lease, status: "active", metadata: { fresh: true } })
      assert.isTrue(Option.isNone(yield* leases.refreshLease(scene.lease, other.run, {})))
      yield* leases.releaseLease(scene.lease, {
        status: "released",
        failureReason: null,
        cleanupStatus: "success",
        actor: "run"
      })
      assert.isTrue(Option.isNone(yield* leases.refreshLease(scene.lease, scene.run, {})))
    }).pipe(onClone)
  )
})

describe("orphans at the store", () => {
  it.live("RL-ORPHAN-09 one insert makes a row that was never active", () =>
    Effect.gen(function* () {
      const here = yield* place
      const leases = yield* EnvironmentLeaseStore
      const asked = orphan(here)
      yield* leases.intend(intention(here, { id: asked.id }))
      const lease = yield* leases.insertPendingCleanupLease(asked)
      assert.deepInclude(lease, {
        id: asked.id,
        status: "pending_cleanup",
        cleanupStatus: "failed",
        policy: "ephemeral",
        failureReason: asked.failureReason,
        providerLeaseId: asked.providerLeaseId,
        endedBy: "acquisition",
        cleanupTries: 0
      })
      assert.strictEqual(lease.releasedAtMillis, lease.createdAtMillis)
      assert.strictEqual(yield* intentsLeft, 0)
      assert.deepStrictEqual(yield* leases.insertPendingCleanupLease(asked), lease)
      assert.strictEqual((yield* leaseRowsOf(here.environment.id)).length, 1)
    }).pipe(onClone)
  )

  it.live("BX-04 the orphan of an acquisition whose answer was lost is that acquisition's row", () =>
    Effect.gen(function* () {
      const here = yield* place
      const leases = yield* EnvironmentLeaseStore
      const lost = yield* leases.acquireLease(acquisition(here, { providerLeaseId: "sandbox-9" }))
      const asked = orphan(here, { id: lost.id, providerLeaseId: "sandbox-9" })
      assert.deepInclude(yield* leases.insertPendingCleanupLease(asked), {
        status: "pending_cleanup",
        failureReason: asked.failureReason
      })
      const held = yield* leases.acquireLease(acquisition(here))
      const other = orphan(here, { id: held.id, providerLeaseId: "another" })
      assert.strictEqual((yield* leases.insertPendingCleanupLease(other)).status, "active")
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-10 an environment that is gone is stored as none", () =>
    Effect.gen(function* () {
      const here = yield* place
      yield* EnvironmentStore.use((environments) => environments.remove(here.environment.id))
      const lease = yield* store((leases) => leases.insertPendingCleanupLease(orphan(here)))
      assert.deepInclude(lease, { environment: null, status: "pending_cleanup" })
    }).pipe(onClone)
  )

  it.live(
    "RL-ORPHAN-10 RL-ORPHAN-11 beside the environment's deletion an orphan is kept, in both orders",
    () =>
      Effect.gen(function* () {
        const one = yield* place
        const first = yield* sideBySide(
          (held) => statementHeld("delete from environments where id = $1::uuid", [one.environment.id], held),
          store((leases) => leases.insertPendingCleanupLease(orphan(one)))
        )
        assert.isTrue(first.waited)
        assert.isNull(Exit.isSuccess(first.contender) ? first.contender.value.environment : "failed")
        const two = yield* place
        const asked = orphan(two)
        const second = yield* sideBySide(
          (held) => insideHeld((leases) => leases.insertPendingCleanupLease(asked), held),
          EnvironmentStore.use((environments) => environments.remove(two.environment.id))
        )
        assert.isTrue(second.waited)
        assert.deepStrictEqual(second.contender, Exit.succeed(true))
        assert.deepInclude(yield* leaseRow(asked.id), { environment_id: null, status: "pending_cleanup" })
      }).pipe(onClone)
  )

  it.live("RL-ORPHAN-11 transition 24: a deleted environment leaves every lease in its status", () =>
    Effect.gen(function* () {
      const here = yield* place
      const statuses = ["active", "released", "retained", "expired", "failed", "pending_cleanup"]
      const ids = yield* Effect.forEach(statuses, (status) =>
        newLease(here.tenant, here.environment.id, { status, failure_reason: "kept" })
      )
      assert.isTrue(yield* EnvironmentStore.use((environments) => environments.remove(here.environment.id)))
      const rows = yield* Effect.forEach(ids, leaseRow)
      assert.deepStrictEqual(
        rows.map((row) => [row["status"], row["environment_id"], row["failure_reason"]]),
        statuses.map((status) => [status, null, "kept"])
      )
    }).pipe(onClone)
  )
})
