/**
 * Releasing a sandbox lease: what its disposition and the requested status mean for the resource, and what the row says
 * when the provider does as it was asked and when it does not. Source: RL section 4.3, RL-REL-00, 5.2 #5 to #12.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { EnvironmentLease, EnvironmentLeaseStatus } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { isStopOnly } from "../environments/markers.ts"
import { judgeReply, provedState, terminationEvidence } from "../environments/receipts.ts"
import type { JsonObject } from "../Json.ts"
import { keptSpan } from "../KeptSpan.ts"
import { observeStep } from "../registry/observeStep.ts"
import { requireBackup } from "./backupGate.ts"
import type { Release } from "./EnvironmentDriver.ts"
import { findTarget } from "./providerTargets.ts"
import { callEnding } from "./providerVerbs.ts"
import { stopAndRetain } from "./stopAndRetain.ts"
import { tearDown } from "./teardown.ts"

const program = "runLeases.handBack"

/** Reason of a row whose release the provider did not carry out. Source: RL-REL-06. */
const releaseCleanupFailed = "release_cleanup_failed"

interface RowEnd extends Pick<Release, "ending"> {
  readonly status: Exclude<EnvironmentLeaseStatus, "active">
  readonly cleanupStatus: "success" | "failed"
  readonly metadata?: JsonObject
}

/** Ends the row if it is still this run's; null where it is not. */
const endRow = (lease: EnvironmentLease, { cleanupStatus, ending, metadata, status }: RowEnd) =>
  EnvironmentLeaseStore.use((store) =>
    store.releaseLease(lease.id, {
      status,
      failureReason: ending?.reason ?? (cleanupStatus === "failed" ? releaseCleanupFailed : null),
      cleanupStatus,
      actor: ending?.actor ?? "run",
      ...(metadata === undefined ? {} : { metadata }),
      ...(lease.run === null ? {} : { run: lease.run })
    })
  ).pipe(Effect.map(Option.getOrNull))

/** What a release proved: the evidence that it left, or none where it was not carried out. */
const releaseAtProvider = Effect.fnUntraced(function* (lease: EnvironmentLease) {
  const target = yield* findTarget(lease, "by_key")
  if (Option.isNone(target)) return Option.none<JsonObject>()
  const answer = yield* callEnding({ verb: "release", lease, target: target.value })
  if (answer._tag !== "Replied") return Option.none<JsonObject>()
  const verdict = judgeReply("release", lease.providerLeaseId ?? "", answer.reply)
  if (verdict === "Unconfirmed") return Option.none<JsonObject>()
  return Option.some(verdict === "Matching" ? terminationEvidence(lease, provedState("release")) : {})
})

/**
 * The default: the resource is handed back. A row that hid a living resource would keep the sweep from it, so one that was
 * not handed back owes its cleanup, or is kept where its policy says so. Source: RL-REL-04 to -07, U17.
 */
const handBack = Effect.fnUntraced(function* ({ ending, lease, status }: Release) {
  const by = ending === undefined ? {} : { ending }
  const evidence = yield* observeStep(program, "call", releaseAtProvider(lease))
  if (Option.isSome(evidence)) {
    const end = endRow(lease, { status, cleanupStatus: "success", metadata: evidence.value, ...by })
    return yield* observeStep(program, "row", end)
  }
  const isKept = lease.policy === "retain_on_failure" && status === "failed"
  return yield* endRow(lease, {
    status: isKept ? "retained" : "pending_cleanup",
    cleanupStatus: "failed",
    ...by
  })
})

/** Refused while a native runner's backup is not proved: then the row is as it was. Source: RL-REL-03, RL-BACKUP-01. */
const destroy = Effect.fnUntraced(function* ({ ending, lease }: Release) {
  yield* requireBackup(lease)
  const outcome = yield* tearDown({
    lease,
    from: ["active"],
    refuseLiveRun: false,
    failureReason: ending?.reason ?? releaseCleanupFailed,
    clearsReason: ending === undefined,
    actor: ending?.actor ?? "run"
  })
  return outcome._tag === "Ended" || outcome._tag === "Owed" ? outcome.lease : null
})

/**
 * Carries a release of a sandbox lease out. Answers the row as it is afterwards, or null where it was not this caller's to
 * end. Refuses with `RunnerHarnessBackupUnavailable` before anything is destroyed or written.
 */
export const releaseSandboxLease = Effect.fnUntraced(function* (asked: Release) {
  const { cancelActiveWork = false, disposition, lease, status } = asked
  if (disposition === "keep_running")
    return yield* endRow(lease, { status: "retained", cleanupStatus: "success" })
  if (disposition === "stop_and_retain" || isStopOnly(lease))
    return yield* stopAndRetain(lease, cancelActiveWork)
  return yield* disposition === "destroy" || status === "expired" ? destroy(asked) : handBack(asked)
}, keptSpan("runLeases.releaseSandboxLease"))
