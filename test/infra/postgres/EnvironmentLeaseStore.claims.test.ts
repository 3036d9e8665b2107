/** Claims on cleanups, their renewal and their ends, beside everything that may happen meanwhile; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import {
  cleanupClaimAheadMillisMax,
  cleanupClaimMillis,
  cleanupUnattendedTriesMax
} from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { RunId } from "../../../src/domain/Identity.ts"
import { bothOrders, sideBySide } from "../../support/sideBySide.ts"
import {
  newEnvironment,
  newTenant,
  onClone,
  reusableLeaseId,
  reuseFixture
} from "../../domain/runLeases/fixture.ts"
import { leaseRow, newLease, setLease, setMetadata, setRun, value } from "../../domain/runLeases/rawRows.ts"
import { claimed, claimedOf, claimOf, insideHeld, statementHeld, store } from "./leaseRequests.ts"

const nowMillis = Effect.map(value("select extract(epoch from clock_timestamp()) * 1000 as now"), Number)

/** A failed lease of a run that has failed. */
const failed = Effect.gen(function* () {
  return yield* reuseFixture({ runStatus: "failed", lease: { status: "failed" } })
})

const guarded = {
  refuseLiveRun: true,
  failureReason: "execution_workspace_closed",
  actor: "agent_stop"
} as const

const setRunText = "update core.runs set status = $2::text where id = $1::uuid"

describe("a claim on a cleanup", () => {
  it.live(
    "RL-DESTROY-04 is written in one piece: status, reason, actor, attempt and an end by the database's clock",
    () =>
      Effect.gen(function* () {
        const scene = yield* failed
        const before = yield* nowMillis
        const lease = yield* claimed(scene.lease, {
          ...guarded,
          attempt: "attempt-1",
          marker: { marked: { a: 1 } }
        })
        const after = yield* nowMillis
        assert.deepInclude(lease, {
          status: "pending_cleanup",
          cleanupStatus: "failed",
          failureReason: "execution_workspace_closed",
          endedBy: "agent_stop",
          tenant: scene.tenant,
          providerLeaseId: reusableLeaseId
        })
        assert.deepInclude(lease.metadata, {
          driver: "sandbox",
          marked: { a: 1 },
          pendingCleanupAttemptId: "attempt-1",
          pendingCleanupInFlight: true
        })
        const end = lease.metadata["pendingCleanupLeaseExpiresAtMs"] as number
        assert.isAtLeast(end, Math.floor(before) + cleanupClaimMillis)
        assert.isAtMost(end, after + cleanupClaimMillis)
      }).pipe(onClone)
  )

  it.live("RL-FENCE-02 is refused from a status that was not asked for, and from expired always", () =>
    Effect.gen(function* () {
      const scene = yield* failed
      const take = (from: ReturnType<typeof claimOf>["from"]) =>
        Effect.map(
          store((leases) => leases.claimCleanup(claimOf(scene.lease, { from }))),
          Option.isSome
        )
      assert.isFalse(yield* take(["active", "pending_cleanup"]))
      yield* setLease(scene.lease, { status: "expired" })
      assert.isFalse(yield* take(["expired", "failed"]))
      yield* setLease(scene.lease, { status: "failed" })
      assert.isTrue(yield* take(["failed"]))
    }).pipe(onClone)
  )

  const ends: ReadonlyArray<readonly [row: string, keys: (now: number) => object, free: boolean]> = [
    ["in flight and not over", (now) => ({ flight: true, end: now + 60_000 }), false],
    ["over", (now) => ({ flight: true, end: now - 1 }), true],
    ["not in flight", (now) => ({ flight: false, end: now + 60_000 }), true],
    [
      "as far ahead as may be",
      (now) => ({ flight: true, end: now + cleanupClaimAheadMillisMax - 5_000 }),
      false
    ],
    [
      "disbelieved, too far ahead",
      (now) => ({ flight: true, end: now + cleanupClaimAheadMillisMax + 60_000 }),
      true
    ],
    ["1e300", () => ({ flight: true, end: 1e300 }), true],
    ["-1e300", () => ({ flight: true, end: -1e300 }), true],
    ["a bare number", () => ({ flight: true, end: 5 }), true],
    ["a fraction ahead", (now) => ({ flight: true, end: now + 60_000.5 }), false],
    ["a text where a number belongs", (now) => ({ flight: true, end: String(now + 60_000) }), true],
    ["an object", () => ({ flight: true, end: {} }), true],
    ["a list", () => ({ flight: true, end: [1] }), true],
    ["null", () => ({ flight: true, end: null }), true],
    ["true", () => ({ flight: true, end: true }), true],
    ["absent", () => ({ flight: true }), true],
    ["in flight as a text", (now) => ({ flight: "true", end: now + 60_000 }), true],
    ["in flight as a number", (now) => ({ flight: 1, end: now + 60_000 }), true],
    ["nothing of a claim", () => ({}), true]
  ]
  it.live(
    "RL-FENCE-02 RL-SWEEP-05 keeps others off while it is in flight and not over, whatever stands there",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* failed
        yield* setLease(scene.lease, { status: "pending_cleanup" })
        const due = Effect.map(leases.dueCleanups({ backoffMillis: 0 }), (page) => page.leases.length)
        for (const [row, keys, free] of ends) {
          const { end, flight } = keys(Math.floor(yield* nowMillis)) as { end?: unknown; flight?: unknown }
          yield* setMetadata(scene.lease, {
            pendingCleanupAttemptId: "former",
            pendingCleanupInFlight: flight,
            pendingCleanupLeaseExpiresAtMs: end
          })
          assert.strictEqual(yield* due, free ? 1 : 0, `due: ${row}`)
          const taken = yield* leases.claimCleanup(claimOf(scene.lease))
          assert.strictEqual(Option.isSome(taken), free, `claim: ${row}`)
          if (!free)
            assert.strictEqual((yield* leaseRow(scene.lease)).metadata["pendingCleanupAttemptId"], "former")
        }
      }).pipe(onClone)
  )

  it.live.each(["queued", "scheduled_retry", "running"])(
    "RL-FENCE-01 a run that became %s is seen by the claim, committed or about to be, and the row is unchanged",
    (status) =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* failed
        const before = yield* leaseRow(scene.lease)
        const seen = yield* sideBySide(
          (held) => statementHeld(setRunText, [scene.run, status], held),
          leases.claimCleanup(claimOf(scene.lease, guarded))
        )
        assert.isTrue(seen.waited, "the claim waits for the run")
        assert.deepStrictEqual(seen.contender, Exit.succeed(Option.none()))
        assert.deepStrictEqual(yield* leases.claimCleanup(claimOf(scene.lease, guarded)), Option.none())
        assert.deepStrictEqual(yield* leaseRow(scene.lease), before)
        assert.isTrue(
          Option.isSome(yield* leases.claimCleanup(claimOf(scene.lease))),
          "a sweep ignores the run"
        )
      }).pipe(onClone)
  )

  it.live("RL-FENCE-01 in the other order the run waits for the claim, and comes to life behind it", () =>
    Effect.gen(function* () {
      const scene = yield* failed
      const seen = yield* sideBySide(
        (held) => insideHeld((leases) => leases.claimCleanup(claimOf(scene.lease, guarded)), held),
        setRun(scene.run, "running")
      )
      assert.isTrue(seen.waited)
      assert.isTrue(Exit.isSuccess(seen.holder) && Option.isSome(seen.holder.value))
      assert.strictEqual((yield* leaseRow(scene.lease))["status"], "pending_cleanup")
    }).pipe(onClone)
  )

  it.live("RL-FENCE-01 a run of an unknown status, and one that is gone, are over", () =>
    Effect.gen(function* () {
      for (const end of ["cancelled", "gone"] as const) {
        const scene = yield* failed
        yield* end === "cancelled"
          ? setRun(scene.run, "some_later_status")
          : value("delete from core.runs where id = $1::uuid returning id", [scene.run])
        const taken = yield* store((leases) => leases.claimCleanup(claimOf(scene.lease, guarded)))
        assert.isTrue(Option.isSome(taken), end)
      }
    }).pipe(onClone)
  )

  it.live(
    "FC-10 RL-DESTROY-04 of fifty claims on ten leases ten are had, one a lease, in a swarm and side by side",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const tenant = yield* newTenant
        const environment = yield* newEnvironment("sandbox")
        const ids = yield* Effect.forEach(Array.from({ length: 10 }), () =>
          newLease(tenant, environment.id, { status: "pending_cleanup", provider_lease_id: "s" })
        )
        const claims = Array.from({ length: 50 }, (_, place) =>
          claimOf(ids[place % 10] as (typeof ids)[number], { refuseLiveRun: place % 2 === 0 })
        )
        const answers = yield* Effect.forEach(claims, leases.claimCleanup, { concurrency: "unbounded" })
        const winners = answers.flatMap((answer) => (Option.isSome(answer) ? [answer.value] : []))
        assert.strictEqual(new Set(winners.map(({ id }) => id)).size, 10)
        assert.strictEqual(winners.length, 10)
        for (const winner of winners) {
          const row = yield* leaseRow(winner.id)
          assert.strictEqual(
            row.metadata["pendingCleanupAttemptId"],
            winner.metadata["pendingCleanupAttemptId"]
          )
        }
        const fresh = newLease(tenant, environment.id, { status: "pending_cleanup" })
        const take = (lease: Effect.Success<typeof fresh>, held: Effect.Effect<void>) =>
          insideHeld((joined) => Effect.map(joined.claimCleanup(claimOf(lease)), Option.isSome), held)
        const both = yield* bothOrders(fresh, take, take)
        const expected = { holder: Exit.succeed(true), contender: Exit.succeed(false), waited: true }
        assert.deepStrictEqual(both, { firstHolds: expected, secondHolds: expected })
      }).pipe(onClone)
  )
})

describe("the end of an attempt", () => {
  const owed = { _tag: "Owed" } as const

  it.live(
    "RL-SWEEP-05 FC-09 that failed gives the claim back, counts a try, and needs an operator from the fifth on",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* failed
        for (let tries = 1; tries <= cleanupUnattendedTriesMax + 1; tries += 1) {
          const lease = yield* claimed(scene.lease, tries === 1 ? guarded : {})
          const left = Option.getOrThrow(
            yield* leases.settleCleanup(claimedOf(lease), { ...owed, metadata: { seen: tries } })
          )
          assert.deepInclude(left, {
            status: "pending_cleanup",
            cleanupStatus: "failed",
            failureReason: guarded.failureReason,
            endedBy: guarded.actor,
            cleanupTries: tries,
            needsOperator: tries >= cleanupUnattendedTriesMax
          })
          assert.deepInclude(left.metadata, {
            seen: tries,
            pendingCleanupInFlight: false,
            pendingCleanupAttemptId: lease.metadata["pendingCleanupAttemptId"]
          })
        }
        const over = yield* claimed(scene.lease)
        const end = { _tag: "Ended", status: "expired", metadata: {}, removeKeys: ["seen"] } as const
        const ended = Option.getOrThrow(yield* leases.settleCleanup(claimedOf(over), end))
        assert.deepInclude(ended, { status: "expired", cleanupStatus: "success", needsOperator: false })
        assert.deepInclude(ended, { failureReason: guarded.failureReason, endedBy: guarded.actor })
        assert.notProperty(ended.metadata, "seen")
        assert.isTrue(
          Option.isNone(yield* leases.settleCleanup(claimedOf(over), end)),
          "nothing leaves expired"
        )
      }).pipe(onClone)
  )

  it.live(
    "RL 6.4 an end that was no try gives the claim back and counts nothing, also of one that needs an operator",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        for (const tries of [0, cleanupUnattendedTriesMax - 1, cleanupUnattendedTriesMax]) {
          const scene = yield* failed
          const needsOperator = tries >= cleanupUnattendedTriesMax
          const raw = { status: "pending_cleanup", cleanup_tries: tries, needs_operator: needsOperator }
          yield* setLease(scene.lease, raw)
          const lease = yield* claimed(scene.lease)
          const left = yield* leases.settleCleanup(claimedOf(lease), { ...owed, isTry: false })
          assert.deepInclude(Option.getOrThrow(left), { cleanupTries: tries, needsOperator })
          assert.isFalse(Option.getOrThrow(left).metadata["pendingCleanupInFlight"])
        }
      }).pipe(onClone)
  )

  it.live("RL-FENCE-02 a renewal moves the end of a claim that is still the attempt's, and of no other", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const scene = yield* failed
      const lease = yield* claimed(scene.lease)
      yield* setMetadata(scene.lease, { pendingCleanupLeaseExpiresAtMs: 1 })
      assert.isTrue(yield* leases.renewCleanup(claimedOf(lease)))
      const end = (yield* leaseRow(scene.lease)).metadata["pendingCleanupLeaseExpiresAtMs"] as number
      assert.isAtLeast(end, (yield* nowMillis) + cleanupClaimMillis - 60_000)
      assert.isFalse(yield* leases.renewCleanup({ ...claimedOf(lease), attempt: "another" }))
      assert.isFalse(yield* leases.renewCleanup({ ...claimedOf(lease), run: null as RunId | null }))
      assert.isFalse(yield* leases.renewCleanup({ ...claimedOf(lease), providerLeaseId: "another" }))
      yield* leases.settleCleanup(claimedOf(lease), owed)
      assert.isFalse(yield* leases.renewCleanup(claimedOf(lease)))
    }).pipe(onClone)
  )
})
