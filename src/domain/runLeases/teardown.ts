/**
 * The one way in which a lease's resource is ended: readiness, claim, live verb, call, compare, write. The claim is renewed
 * while the call runs; a row that was taken over meanwhile is left as its new owner wrote it.
 * Source: RL 6.1 item 5, RL-FENCE-01 to -03, RL-STOP-08, FC-09.
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { cleanupClaimRenewMillis, cleanupUnattendedTriesMax } from "../Bounds.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import {
  type ClaimedCleanup,
  type CleanupClaim,
  type CleanupEnd,
  EnvironmentLeaseStore
} from "../environments/EnvironmentLeaseStore.ts"
import { stopOwnerOf } from "../environments/markers.ts"
import { provedState, terminationEvidence } from "../environments/receipts.ts"
import { Identifiers } from "../Identifiers.ts"
import type { JsonObject } from "../Json.ts"
import { keptSpan } from "../KeptSpan.ts"
import { observeStep } from "../registry/observeStep.ts"
import { TeardownUnconfirmed } from "./RunLeaseErrors.ts"
import { Attempt, attemptTeardown, type WhyUndone } from "./teardownAttempt.ts"
import { isPendingCleanupWorkerReady } from "./providerTargets.ts"
import { TraceParents } from "./TraceParents.ts"

const program = "runLeases.tearDown"

export interface TeardownRequest extends Omit<CleanupClaim, "attempt" | "lease"> {
  readonly lease: EnvironmentLease
  /** Leave the row alone, without a claim, while its owner is away. Without it the row owes its cleanup from then on. */
  readonly onlyIfReady?: boolean
  /** A reason that only a failure needs is taken back at the end; any other one stays. */
  readonly clearsReason?: boolean
}

export type TeardownOutcome = Data.TaggedEnum<{
  /** The owner is away and nothing was written. */
  NotReady: {}
  /** Somebody else is at it, the row is not in one of the states, or its run is live. */
  NotTaken: {}
  /** `released` after a stop, `expired` after a destruction. */
  Ended: { readonly lease: EnvironmentLease; readonly reply: unknown }
  Owed: { readonly lease: EnvironmentLease; readonly why: WhyUndone }
  /** Taken over during the call: nothing was written. */
  Moved: {}
}>
export const TeardownOutcome = Data.taggedEnum<TeardownOutcome>()

/** What a confirmed stop leaves in the place of the markers. Source: RL-STOP-04, RL-STOP-09, U24. */
const stopReceipt = (lease: EnvironmentLease): JsonObject => {
  const owner = stopOwnerOf(lease)
  return {
    sandboxStopAndRetainReceipt:
      owner?._tag === "Plugin"
        ? { method: "environmentStopLease", runId: lease.run, pluginId: owner.plugin }
        : { method: "builtin.stopLease", builtinProvider: lease.provider, runId: lease.run }
  }
}

/** A wish that the provider could not be told of, or that we took back ourselves, says nothing against the row. */
const isNoTry: ReadonlySet<WhyUndone> = new Set(["worker_offline", "interrupted"])

/** How the end is written. */
const endOf = (lease: EnvironmentLease, attempt: Attempt, clearsReason: boolean): CleanupEnd => {
  if (attempt._tag === "Undone") return { _tag: "Owed", isTry: !isNoTry.has(attempt.why) }
  const { knowledge, verb } = attempt
  const evidence = knowledge === "Matching" ? terminationEvidence(lease, provedState(verb)) : {}
  if (verb === "stop") {
    return {
      _tag: "Ended",
      status: "released",
      failureReason: null,
      metadata: { ...evidence, ...stopReceipt(lease) },
      removeKeys: ["nativeWorkspaceExportResume", "sandboxStopAndRetain"]
    }
  }
  const absence = knowledge === "Absent" ? { providerAbsence: "already_absent" } : {}
  return {
    _tag: "Ended",
    status: "expired",
    ...(clearsReason ? { failureReason: null } : {}),
    metadata: { ...evidence, ...absence },
    removeKeys: []
  }
}

/** One alert when a row has failed too often, not one at each try. Source: FC-09. */
const alertOnce = ({ cleanupTries, environment, id, needsOperator, provider }: EnvironmentLease) =>
  needsOperator && cleanupTries === cleanupUnattendedTriesMax
    ? Effect.logWarning(
        "the cleanup of a lease has failed too often: it needs an operator, and is tried on more seldom"
      ).pipe(
        Effect.annotateLogs({
          errorKind: "lease_cleanup_needs_operator",
          leaseId: id,
          environmentId: environment,
          provider
        })
      )
    : Effect.void

const settle = Effect.fnUntraced(function* (
  lease: EnvironmentLease,
  claimed: ClaimedCleanup,
  attempt: Attempt,
  clearsReason: boolean
) {
  const store = yield* EnvironmentLeaseStore
  const written = Option.getOrUndefined(
    yield* observeStep(program, "settle", store.settleCleanup(claimed, endOf(lease, attempt, clearsReason)))
  )
  if (written === undefined) return TeardownOutcome.Moved()
  if (attempt._tag === "Done") {
    yield* TraceParents.use((parents) => parents.forget(lease.id))
    return TeardownOutcome.Ended({ lease: written, reply: attempt.reply })
  }
  if (!isNoTry.has(attempt.why)) yield* alertOnce(written)
  return TeardownOutcome.Owed({ lease: written, why: attempt.why })
})

/** Renews the claim for as long as the effect runs. A renewal that fails is made up for by the next one. */
const whileRenewed =
  (claimed: ClaimedCleanup) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const store = yield* EnvironmentLeaseStore
      const renewal = Effect.ignore(store.renewCleanup(claimed)).pipe(
        Effect.delay(cleanupClaimRenewMillis),
        Effect.forever
      )
      yield* Effect.forkScoped(renewal)
      return yield* effect
    }).pipe(Effect.scoped)

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/**
 * Attempts the end of a row that the caller has claimed, and writes what came of it. Only the attempt can be cut off: then
 * the claim is given back, and the row stays owed.
 */
const runClaimed = Effect.fnUntraced(function* (
  lease: EnvironmentLease,
  attempt: string,
  clearsReason: boolean,
  restore: Restore
) {
  const { id, providerLeaseId, run } = lease
  const claimed: ClaimedCleanup = { lease: id, attempt, run, providerLeaseId }
  const attempting = observeStep(program, "call", attemptTeardown(lease))
  const exit = yield* Effect.exit(restore(whileRenewed(claimed)(attempting)))
  if (Exit.isSuccess(exit)) return yield* settle(lease, claimed, exit.value, clearsReason)
  const isCutOff = Cause.hasInterrupts(exit.cause)
  const undone = Attempt.Undone({ why: isCutOff ? "interrupted" : "provider_failed" })
  yield* Effect.ignore(settle(lease, claimed, undone, clearsReason))
  return yield* Effect.failCause(exit.cause)
})

/** Tears one lease down. Fails only where the database does. */
export const tearDown = Effect.fnUntraced(
  function* ({ lease, clearsReason = false, onlyIfReady = false, ...claim }: TeardownRequest) {
    if (onlyIfReady && !(yield* isPendingCleanupWorkerReady(lease))) return TeardownOutcome.NotReady()
    const store = yield* EnvironmentLeaseStore
    const attempt = yield* Identifiers.use(({ uuid }) => uuid)
    return yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const claiming = store.claimCleanup({ ...claim, lease: lease.id, attempt })
        const taken = yield* observeStep(program, "claim", claiming)
        return Option.isNone(taken)
          ? TeardownOutcome.NotTaken()
          : yield* runClaimed(taken.value, attempt, clearsReason, restore)
      })
    )
  },
  (torn, { lease }) =>
    keptSpan("runLeases.tearDown", { tenant: lease.tenant, environment: lease.environment, lease: lease.id })(
      torn
    )
)

/**
 * Asks the provider once more for what a pending row owes, and answers its reply. It claims nothing and writes no status:
 * who asked for it does. Fails with `TeardownUnconfirmed`, and then nothing has changed. Source: RL-ORPHAN-12 to -15.
 */
export const retryPendingSandboxTeardown = Effect.fn("runLeases.retryPendingSandboxTeardown")(function* (
  lease: EnvironmentLease
) {
  const attempt = yield* attemptTeardown(lease)
  if (attempt._tag === "Done") return attempt.reply
  return yield* new TeardownUnconfirmed({ lease: lease.id, why: attempt.why })
})
