import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { leaseMetadataBytesMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { leaseNow, sweepIn } from "./daemons.ts"
import { onClone, reuseFixture } from "./fixture.ts"
import { newLease } from "./rawRows.ts"
import { receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const pending = { status: "pending_cleanup", cleanup_status: "failed" }
const numbers = (length: number) => Array.from({ length }, (_, at) => at)

const claimOf = (lease: EnvironmentLeaseId, attempt: string) => ({
  lease,
  attempt,
  from: ["pending_cleanup" as const],
  refuseLiveRun: false,
  failureReason: null,
  actor: "test"
})

describe("runLeases: many claims at once", () => {
  it.live("FC-10 RL-FENCE-02 of 50 claims on 10 rows ten distinct ones win", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const store = yield* EnvironmentLeaseStore
      const leases = yield* Effect.forEach(numbers(10), (at) =>
        newLease(scene.tenant, scene.environment.id, { ...pending, provider_lease_id: `resource-${at}` })
      )
      const answers = yield* Effect.forEach(
        numbers(50),
        (at) => store.claimCleanup(claimOf(leases[at % 10]!, `attempt-${at}`)),
        { concurrency: "unbounded" }
      )
      const winners = answers.flatMap((answer, at) =>
        Option.isSome(answer) ? [[at, answer.value] as const] : []
      )
      assert.lengthOf(winners, 10)
      assert.lengthOf(new Set(winners.map(([, { id }]) => id)), 10)
      for (const [at, lease] of winners)
        assert.strictEqual((yield* leaseNow(lease.id)).metadata["pendingCleanupAttemptId"], `attempt-${at}`)
      const ends = yield* Effect.forEach(
        winners,
        ([at, { id, providerLeaseId, run }]) =>
          Effect.all(
            ["stale", `attempt-${at}`].map((attempt) =>
              store.settleCleanup({ lease: id, attempt, run, providerLeaseId }, { _tag: "Owed" })
            ),
            { concurrency: 2 }
          ),
        { concurrency: "unbounded" }
      )
      assert.isTrue(ends.every(([stale, own]) => Option.isNone(stale!) && Option.isSome(own!)))
    }).pipe(onClone)
  )

  it.live("RL 6.4-4 a row that the claim cannot be written into does not hold up its page", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: pending })
      const { metadata } = yield* leaseNow(scene.lease)
      // So full that the keys of a claim do not fit any more.
      const room = leaseMetadataBytesMax - JSON.stringify(metadata).length - 200
      const full = yield* newLease(scene.tenant, scene.environment.id, {
        ...pending,
        provider: "fake-plugin",
        provider_lease_id: "full",
        metadata: { ...metadata, image: "x".repeat(room) }
      })
      const workers = scriptedWorkers({ call: (call) => Effect.sync(() => receiptOf("destroyed")(call)) })
      assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
        swept: 2,
        destroyed: 1,
        capped: 0
      })
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "expired")
      assert.strictEqual((yield* leaseNow(full)).status, "pending_cleanup")
    }).pipe(onClone)
  )
})
