/** What the end of an attempt, or a release, may write and what it may not, whoever comes late; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { leaseMetadataBytesMax } from "../../../src/domain/Bounds.ts"
import type { CleanupEnd } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLeaseStatus } from "../../../src/domain/environments/EnvironmentLease.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { bothOrders } from "../../support/sideBySide.ts"
import { onClone, reusableLeaseId, reuseFixture } from "../../domain/runLeases/fixture.ts"
import { leaseRow, type RawLease, setLease, setMetadata } from "../../domain/runLeases/rawRows.ts"
import { acquisition, claimed, claimedOf, claimOf, insideHeld, statementHeld } from "./leaseRequests.ts"

const evidence = { remoteExecutionTermination: { state: "stopped", providerLeaseId: reusableLeaseId } }
const expired: CleanupEnd = { _tag: "Ended", status: "expired", metadata: {}, removeKeys: [] }
const released: CleanupEnd = {
  _tag: "Ended",
  status: "released",
  failureReason: null,
  metadata: evidence,
  removeKeys: []
}

/** F-REUSE with a stop that is asked for and claimed. */
const stopping = Effect.gen(function* () {
  const scene = yield* reuseFixture({ runStatus: "failed" })
  const lease = yield* claimed(scene.lease, {
    failureReason: "asked_for",
    marker: { sandboxStopAndRetain: { providerLeaseId: reusableLeaseId } },
    actor: "run"
  })
  return { ...scene, claim: claimedOf(lease) }
})

const takenOver: ReadonlyArray<readonly [what: string, change: RawLease, keys?: JsonObject]> = [
  ["status", { status: "active" }],
  [
    "status, and all of it",
    { status: "active", run_id: null, cleanup_status: null, metadata: { newOwner: true } }
  ],
  ["an end by somebody else", { status: "expired" }],
  ["run", { run_id: null }],
  ["provider lease id", { provider_lease_id: "sandbox-2" }],
  ["no provider lease id", { provider_lease_id: null }],
  ["attempt", {}, { pendingCleanupAttemptId: "another" }],
  ["no attempt", {}, { pendingCleanupAttemptId: undefined }],
  ["an attempt that is a number", {}, { pendingCleanupAttemptId: 1e300 }]
]

describe("a late end of an attempt", () => {
  it.live(
    "RL-STOP-08 RL-FENCE-03 transition 25: writes nothing when anything that it claimed has moved",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const ends: ReadonlyArray<CleanupEnd> = [released, expired, { _tag: "Owed" }]
        for (const [what, change, keys] of takenOver) {
          const scene = yield* stopping
          yield* setMetadata(scene.lease, { sandboxStopAndRetain: undefined })
          if (Object.keys(change).length > 0) yield* setLease(scene.lease, change)
          if (keys !== undefined) yield* setMetadata(scene.lease, keys)
          const before = yield* leaseRow(scene.lease)
          for (const end of ends) {
            assert.isTrue(
              Option.isNone(yield* leases.settleCleanup(scene.claim, end)),
              `${what}: ${end._tag}`
            )
          }
          assert.deepStrictEqual(yield* leaseRow(scene.lease), before, what)
        }
      }).pipe(onClone)
  )

  it.live(
    "RL-STOP-08 RL-FENCE-03 beside the takeover itself, in both orders, the one that came first is written",
    () =>
      Effect.gen(function* () {
        const both = yield* bothOrders(
          stopping,
          ({ lease }, held) =>
            statementHeld(
              `update environment_leases set status = 'active', run_id = null, cleanup_status = null, released_at = null,
              cleanup_due_at = null, metadata = '{"newOwner": true}' where id = $1::uuid and status = 'pending_cleanup'`,
              [lease],
              held
            ),
          ({ claim }, held) =>
            insideHeld((leases) => Effect.map(leases.settleCleanup(claim, released), Option.isSome), held)
        )
        assert.deepStrictEqual(both.firstHolds.contender, Exit.succeed(false))
        assert.isTrue(both.firstHolds.waited)
        assert.deepStrictEqual(both.secondHolds.holder, Exit.succeed(true))
        assert.isTrue(both.secondHolds.waited)
      }).pipe(onClone)
  )

  it.live("RL-FENCE-02 beside an expired claim's successor one end is written, in both orders", () =>
    Effect.gen(function* () {
      const fresh = Effect.tap(stopping, ({ lease }) =>
        setMetadata(lease, { pendingCleanupLeaseExpiresAtMs: 1 })
      )
      const both = yield* bothOrders(
        fresh,
        ({ lease }, held) =>
          insideHeld((leases) => Effect.map(leases.claimCleanup(claimOf(lease)), Option.isSome), held),
        ({ claim }, held) =>
          insideHeld((leases) => Effect.map(leases.settleCleanup(claim, released), Option.isSome), held)
      )
      assert.deepStrictEqual(both.firstHolds, {
        holder: Exit.succeed(true),
        contender: Exit.succeed(false),
        waited: true
      })
      // The settled row is released by then: a sweep's claim, which takes pending rows only, would get nothing.
      assert.deepStrictEqual(both.secondHolds.holder, Exit.succeed(true))
    }).pipe(onClone)
  )
})

describe("forbidden transitions", () => {
  it.live("RL-STOP-04 released without evidence of a stop of exactly this resource is refused", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const scene = yield* stopping
      const before = yield* leaseRow(scene.lease)
      const termination = evidence.remoteExecutionTermination
      for (const metadata of [
        {},
        { remoteExecutionTermination: { ...termination, state: "destroyed" } },
        { remoteExecutionTermination: { ...termination, providerLeaseId: "other-sandbox" } },
        { remoteExecutionTermination: "stopped" },
        { remoteExecutionTermination: 1e300 }
      ]) {
        assert.isTrue(Option.isNone(yield* leases.settleCleanup(scene.claim, { ...released, metadata })))
      }
      assert.deepStrictEqual(yield* leaseRow(scene.lease), before)
      const end = Option.getOrThrow(yield* leases.settleCleanup(scene.claim, released))
      assert.deepInclude(end, {
        status: "released",
        cleanupStatus: "success",
        failureReason: null,
        endedBy: "run"
      })
      assert.deepInclude(end.metadata, evidence)
    }).pipe(onClone)
  )

  it.live("RL-SWEEP-04 a row that may only be stopped does not expire, however its marker can be read", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      for (const marker of [
        { sandboxStopAndRetain: {} },
        { sandboxStopAndRetain: null },
        { nativeWorkspaceExportResume: "unreadable" },
        { nativeWorkspaceExportResume: 1e300, sandboxStopAndRetainReceipt: {} }
      ]) {
        const scene = yield* reuseFixture()
        const lease = yield* claimed(scene.lease, { marker })
        assert.isTrue(Option.isNone(yield* leases.settleCleanup(claimedOf(lease), expired)))
        assert.strictEqual((yield* leaseRow(scene.lease))["status"], "pending_cleanup")
      }
      const done = yield* reuseFixture()
      const marker = {
        sandboxStopAndRetain: {},
        sandboxStopAndRetainReceipt: { method: "environmentStopLease" }
      }
      const lease = yield* claimed(done.lease, { marker })
      assert.isTrue(
        Option.isSome(yield* leases.settleCleanup(claimedOf(lease), expired)),
        "its stop was proved"
      )
    }).pipe(onClone)
  )

  it.live("RL 5.2 nothing leaves expired, and what owes its cleanup becomes neither active nor nothing", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const end = { failureReason: null, cleanupStatus: "success", actor: "run" } as const
      for (const status of ["expired", "pending_cleanup", "released", "retained", "failed"] as const) {
        const scene = yield* reuseFixture({ lease: { status } })
        const before = yield* leaseRow(scene.lease)
        for (const to of ["released", "retained", "failed", "expired", "pending_cleanup"] as const) {
          assert.isTrue(Option.isNone(yield* leases.releaseLease(scene.lease, { ...end, status: to })))
        }
        assert.isTrue(Option.isNone(yield* leases.refreshLease(scene.lease, scene.run, {})))
        assert.strictEqual(yield* leases.makeDue(scene.lease), status === "pending_cleanup")
        if (status === "expired") {
          const taken = yield* leases.claimCleanup(claimOf(scene.lease, { from: ["expired"] }))
          assert.isTrue(Option.isNone(taken))
        }
        const after = yield* leaseRow(scene.lease)
        assert.deepStrictEqual({ ...after, cleanup_due_at: null }, { ...before, cleanup_due_at: null })
        const again = acquisition(scene, { id: scene.lease, providerLeaseId: reusableLeaseId })
        assert.strictEqual(
          (yield* leases.acquireLease(again)).status,
          status,
          "an insert makes no row active"
        )
        assert.strictEqual(yield* leases.pruneEnded, 0)
      }
    }).pipe(onClone)
  )
})

describe("a release", () => {
  const rows: ReadonlyArray<readonly [to: Exclude<EnvironmentLeaseStatus, "active">, reason: string | null]> =
    [
      ["released", null],
      ["failed", null],
      ["expired", "lease_fingerprint_mismatch"],
      ["retained", null],
      ["pending_cleanup", "release_cleanup_failed"]
    ]
  it.live.each(rows)("FC-22 to %s says when, why and by whom", ([status, failureReason]) =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const scene = yield* reuseFixture()
      const end = {
        status,
        failureReason,
        cleanupStatus: "failed",
        actor: "run",
        metadata: { added: 1 }
      } as const
      const other = yield* reuseFixture()
      assert.isTrue(Option.isNone(yield* leases.releaseLease(scene.lease, { ...end, run: other.run })))
      const lease = Option.getOrThrow(yield* leases.releaseLease(scene.lease, { ...end, run: scene.run }))
      assert.deepInclude(lease, { status, failureReason, cleanupStatus: "failed", endedBy: "run" })
      assert.deepInclude(lease.metadata, { added: 1, driver: "sandbox" })
      assert.isAtLeast(lease.releasedAtMillis ?? 0, lease.createdAtMillis)
    }).pipe(onClone)
  )

  it.live("FC-22 the newest reason and who gave it go together, and a sweep has none of its own", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const scene = yield* reuseFixture({ runStatus: "failed" })
      const first = yield* claimed(scene.lease, {
        failureReason: "execution_workspace_closed",
        actor: "user"
      })
      yield* leases.settleCleanup(claimedOf(first), { _tag: "Owed" })
      const swept = yield* claimed(scene.lease)
      assert.deepInclude(swept, { failureReason: "execution_workspace_closed", endedBy: "user" })
      yield* leases.settleCleanup(claimedOf(swept), { _tag: "Owed" })
      const closed = yield* claimed(scene.lease, { failureReason: "cleanup_retry", actor: "operator" })
      assert.deepInclude(closed, { failureReason: "cleanup_retry", endedBy: "operator", cleanupTries: 2 })
    }).pipe(onClone)
  )

  it.live(
    "RL 6.4 what jsonb cannot hold is replaced, and metadata beyond its bound fails the write and not the row",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* reuseFixture()
        const odd = {
          zero: "a\0b",
          half: "\ud800x",
          pair: "\u{1f600}",
          "k\0": [{ "\udc00": "\0" }],
          big: 1e300
        }
        const lease = yield* leases.acquireLease(acquisition(scene, { metadata: odd }))
        assert.deepStrictEqual(lease.metadata, {
          zero: "a\ufffdb",
          half: "\ufffdx",
          pair: "\u{1f600}",
          "k\ufffd": [{ "\ufffd": "\ufffd" }],
          big: 1e300
        })
        const full = { full: "x".repeat(leaseMetadataBytesMax) }
        const refused = yield* Effect.flip(leases.updateLeaseMetadata(lease.id, full))
        assert.deepInclude(refused, { fault: "constraint", constraint: "environment_leases_metadata" })
        const changed = yield* leases.updateLeaseMetadata(lease.id, { small: true })
        assert.deepStrictEqual(Option.getOrThrow(changed).metadata, { small: true })
      }).pipe(onClone)
  )
})
