/** The queue of the sweep, with whatever metadata its rows have; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { cleanupOperatorRetryMillis, cleanupSweepPageMax } from "../../../src/domain/Bounds.ts"
import {
  type DueCleanups,
  EnvironmentLeaseStore
} from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { newAgent, newEnvironment, newTenant, onClone } from "../../domain/runLeases/fixture.ts"
import { newLease, type RawLease, setLease, sql } from "../../domain/runLeases/rawRows.ts"
import { claimed, claimedOf } from "./leaseRequests.ts"

const waitingFor = (lease: EnvironmentLeaseId, millis: number) =>
  sql(
    `update environment_leases set cleanup_due_at = now() - make_interval(secs => $2::float8 / 1000)
      where id = $1::uuid`,
    [lease, millis]
  )

const owing = (given: RawLease = {}) =>
  Effect.gen(function* () {
    const tenant = yield* newTenant
    const environment = yield* newEnvironment("sandbox")
    return yield* newLease(tenant, environment.id, { status: "pending_cleanup", ...given })
  })

const pageOf = (backoffMillis: number, after?: DueCleanups) =>
  EnvironmentLeaseStore.use((store) =>
    store.dueCleanups({ backoffMillis, ...(after === undefined ? {} : { after }) })
  )

const idsOf = ({ leases }: DueCleanups) => leases.map(({ id }) => id)

const due = (backoffMillis: number) => Effect.map(pageOf(backoffMillis), idsOf)

const dueSince = (lease: EnvironmentLeaseId) =>
  Effect.map(
    sql(
      "select extract(epoch from cleanup_due_at) * 1000 as due from environment_leases where id = $1::uuid",
      [lease]
    ),
    ([row]) => Number(row?.["due"])
  )

describe("the queue of the sweep", () => {
  it.live("RL-SWEEP-05 a row is due after its back-off, at once without one, the longest waiting first", () =>
    Effect.gen(function* () {
      const [older, newer] = [yield* owing(), yield* owing()]
      yield* waitingFor(older, 20_000)
      yield* waitingFor(newer, 10_000)
      assert.deepStrictEqual(yield* due(0), [older, newer])
      assert.deepStrictEqual(yield* due(15_000), [older])
      assert.deepStrictEqual(yield* due(25_000), [])
      yield* setLease(newer, { status: "released" })
      assert.deepStrictEqual(yield* due(0), [older])
    }).pipe(onClone)
  )

  it.live("FC-09 a row that needs an operator is due every half hour, or when a person says so", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const lease = yield* owing({ needs_operator: true, cleanup_tries: 5 })
      yield* waitingFor(lease, cleanupOperatorRetryMillis - 60_000)
      assert.deepStrictEqual(yield* due(0), [])
      yield* waitingFor(lease, cleanupOperatorRetryMillis + 1_000)
      assert.deepStrictEqual(yield* due(0), [lease])
      const taken = yield* claimed(lease)
      yield* leases.settleCleanup(claimedOf(taken), { _tag: "Owed" })
      assert.deepStrictEqual(yield* due(0), [])
      assert.isTrue(yield* leases.makeDue(lease))
      assert.deepStrictEqual(yield* due(10 ** 9), [lease])
      yield* claimed(lease)
      assert.deepStrictEqual(yield* due(0), [], "a live owner is left alone all the same")
    }).pipe(onClone)
  )

  it.live("RL 6.4 a row whose worker is away goes behind the others and keeps its tries", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const [first, second] = [yield* owing({ cleanup_tries: 2 }), yield* owing()]
      yield* waitingFor(first, 20_000)
      yield* waitingFor(second, 10_000)
      yield* leases.postponeCleanup(first)
      assert.deepStrictEqual(yield* due(0), [second, first])
      assert.deepInclude(Option.getOrThrow(yield* leases.getLeaseById(first)), {
        status: "pending_cleanup",
        cleanupTries: 2
      })
    }).pipe(onClone)
  )

  it.live("RL 6.4 metadata that cannot be read stops no page: its row is one of it", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const odd: ReadonlyArray<unknown> = [1e300, -1e300, "soon", "", {}, [], null, true, 5]
      const ids: Array<EnvironmentLeaseId> = []
      for (const each of odd) {
        const lease = yield* owing({
          provider_lease_id: "s",
          metadata: {
            agentId: each,
            pluginId: each,
            pendingCleanupAttemptId: each,
            pendingCleanupInFlight: each,
            pendingCleanupLeaseExpiresAtMs: each,
            reusableSandboxLease: each,
            remoteExecutionTermination: each
          }
        })
        yield* waitingFor(lease, 100_000 - ids.length * 1_000)
        ids.push(lease)
      }
      assert.deepStrictEqual(yield* due(0), ids)
      const agent = yield* newAgent(yield* newTenant)
      assert.deepStrictEqual(yield* leases.ofAgent(agent.id), [])
      for (const id of ids) {
        const lease = yield* claimed(id)
        const end = { _tag: "Ended", status: "expired", metadata: {}, removeKeys: [] } as const
        assert.isTrue(yield* leases.renewCleanup(claimedOf(lease)))
        assert.isTrue(Option.isSome(yield* leases.settleCleanup(claimedOf(lease), end)))
        assert.isFalse(yield* leases.hasOtherOwner(lease))
      }
    }).pipe(onClone)
  )

  it.live("U1 a page has as many rows as its bound", () =>
    Effect.gen(function* () {
      const tenant = yield* newTenant
      yield* sql(
        `insert into environment_leases (id, tenant_id, status, released_at, cleanup_due_at)
          select gen_random_uuid(), $1::uuid, 'pending_cleanup', now(), now() from generate_series(1, 30)`,
        [tenant]
      )
      const first = yield* pageOf(0)
      assert.strictEqual(first.leases.length, cleanupSweepPageMax)
      const second = yield* pageOf(0, first)
      assert.strictEqual(second.leases.length, 30 - cleanupSweepPageMax)
      assert.strictEqual(new Set([...idsOf(first), ...idsOf(second)]).size, 30)
      assert.deepStrictEqual(idsOf(yield* pageOf(0, second)), [])
    }).pipe(onClone)
  )

  it.live("RL-SWEEP-05 what comes into the queue after a pass began is not of its later pages", () =>
    Effect.gen(function* () {
      const [first, second] = [yield* owing(), yield* owing()]
      yield* waitingFor(first, 20_000)
      yield* waitingFor(second, 10_000)
      const page = yield* pageOf(0)
      assert.deepStrictEqual(idsOf(page), [first, second])
      const failed = yield* claimed(first)
      yield* EnvironmentLeaseStore.use((store) => store.settleCleanup(claimedOf(failed), { _tag: "Owed" }))
      yield* owing()
      assert.deepStrictEqual(idsOf(yield* pageOf(0, page)), [])
      assert.strictEqual((yield* due(0)).length, 3)
    }).pipe(onClone)
  )

  it.live(
    "RL-SWEEP-05 a page goes on behind the last row of the one before, also where that row is over",
    () =>
      Effect.gen(function* () {
        const [first, second, third] = [yield* owing(), yield* owing(), yield* owing()]
        for (const [place, lease] of [first, second, third].entries())
          yield* waitingFor(lease, 30_000 - place * 10_000)
        const page = yield* pageOf(0)
        const behindFirst = {
          ...page,
          leases: page.leases.slice(0, 1),
          lastDueAtMillis: yield* dueSince(first)
        }
        yield* setLease(first, { status: "expired" })
        assert.deepStrictEqual(idsOf(yield* pageOf(0, behindFirst)), [second, third])
      }).pipe(onClone)
  )
})
