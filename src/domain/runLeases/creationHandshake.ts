/**
 * Observe, journal, then delete: how the leftovers of an uncertain creation are destroyed. The provider may answer the
 * first call with what it observed; that becomes durable before the call that deletes, so that a lost receipt is asked for
 * again with the same evidence. At most one observation in one attempt. Source: RL-CREATE-10, RL-CREATE-11, U25.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type CreationEvidence, observationIn, storedEvidence } from "../environments/creationEvidence.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import type { ProviderTarget } from "./providerTargets.ts"
import { callEnding } from "./providerVerbs.ts"

/**
 * Stores the observation if the row is still this attempt's, and as it was read; none where it is not, or could not be
 * written. Then nothing is deleted.
 */
const journal = Effect.fnUntraced(
  function* (lease: EnvironmentLease, observed: CreationEvidence) {
    const store = yield* EnvironmentLeaseStore
    const present = Option.filter(
      yield* store.getLeaseById(lease.id),
      ({ metadata, status }) =>
        status === "pending_cleanup" &&
        metadata["pendingCleanupAttemptId"] === lease.metadata["pendingCleanupAttemptId"]
    )
    if (Option.isNone(present)) return Option.none<EnvironmentLease>()
    const { metadata } = present.value
    return yield* store.updateLeaseMetadata(lease.id, { ...metadata, ...storedEvidence(observed) }, metadata)
  },
  Effect.orElseSucceed(() => Option.none<EnvironmentLease>())
)

/** Destroys by evidence; what comes back is the answer of the last call. */
export const destroyByEvidence = Effect.fn("runLeases.destroyByEvidence")(function* (
  lease: EnvironmentLease,
  target: ProviderTarget,
  evidence: CreationEvidence
) {
  const call = (about: EnvironmentLease) =>
    callEnding({ verb: "destroy", lease: about, target, environment: evidence.environmentId })
  const first = yield* call(lease)
  const observed =
    first._tag === "Failed" ? observationIn(first.error, evidence) : Option.none<CreationEvidence>()
  if (Option.isNone(observed)) return first
  const journaled = yield* journal(lease, observed.value)
  return Option.isNone(journaled) ? first : yield* call(journaled.value)
})
