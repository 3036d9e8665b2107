/**
 * One attempt to end what a lease has at its provider: what may be done is decided on the row, the owner is looked for, the
 * call is made, and what came back is judged. It writes nothing but the observation of an uncertain creation; who has
 * claimed the row writes the end. Source: RL 6.1 item 5, RL section 5.3, FC-07, FC-24, FC-25.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { CreationEvidence } from "../environments/creationEvidence.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import type { StopMarker } from "../environments/markers.ts"
import { type JudgedVerb, judgeReply } from "../environments/receipts.ts"
import { decideVerb } from "../environments/verb.ts"
import { isJsonObject } from "../Json.ts"
import { faultOf, saysAbsent } from "../providers/ProviderFault.ts"
import { destroyByEvidence } from "./creationHandshake.ts"
import { findTarget, type ProviderTarget, searchFor } from "./providerTargets.ts"
import { callEnding, hasListing, lookUp, type ProviderReply } from "./providerVerbs.ts"
import type { TeardownUnconfirmed } from "./RunLeaseErrors.ts"

export type WhyUndone = TeardownUnconfirmed["why"]

/** How an end is known: by a matching receipt, by an answer that says nothing against it, or by the resource's absence. */
export type Knowledge = "Matching" | "Silent" | "Absent"

export type Attempt = Data.TaggedEnum<{
  Done: { readonly verb: JudgedVerb; readonly knowledge: Knowledge; readonly reply: unknown }
  Undone: { readonly why: WhyUndone }
}>
export const Attempt = Data.taggedEnum<Attempt>()

/** A 400 to a later destroy may mean that there is nothing left to destroy, so it is looked for. Source: FC-25. */
const badRequestStatus = 400

const isWorthALook = (lease: EnvironmentLease, error: Error): boolean =>
  saysAbsent(error, lease.providerLeaseId ?? "") ||
  (lease.cleanupTries > 0 && Option.exists(faultOf(error), ({ status }) => status === badRequestStatus))

/** Told once for a row, not at every try. Source: FC-25. */
const noteFailedState = (lease: EnvironmentLease, reply: unknown) =>
  lease.cleanupTries === 0 && isJsonObject(reply) && reply["state"] === "failed"
    ? Effect.logWarning("a provider says that the end of a resource failed; it stays owed").pipe(
        Effect.annotateLogs({ leaseId: lease.id, provider: lease.provider })
      )
    : Effect.void

const undoneBy = (reply: ProviderReply): Attempt =>
  Attempt.Undone({ why: reply._tag === "NotSent" ? reply.why : "provider_failed" })

/** What a reply proves about one verb. */
const judge = Effect.fnUntraced(function* (verb: JudgedVerb, lease: EnvironmentLease, answer: ProviderReply) {
  if (answer._tag !== "Replied") return undoneBy(answer)
  const { reply } = answer
  const knowledge = judgeReply(verb, lease.providerLeaseId ?? "", reply)
  if (knowledge !== "Unconfirmed") return Attempt.Done({ verb, knowledge, reply })
  yield* noteFailedState(lease, reply)
  return Attempt.Undone({ why: "not_confirmed" })
})

/** An accepted destroy whose resource is listed on is not done; one that is said to be absent has to be missing there. */
const checkAbsence = Effect.fnUntraced(function* (
  lease: EnvironmentLease,
  target: ProviderTarget,
  answer: ProviderReply
) {
  const judged = yield* judge("destroy", lease, answer)
  const mayBeAbsent = answer._tag === "Failed" && isWorthALook(lease, answer.error)
  if (judged._tag === "Undone" && !mayBeAbsent) return judged
  if (judged._tag === "Done" && !hasListing(target)) return judged
  const listing = yield* lookUp(lease, target)
  if (judged._tag === "Done") {
    const isBelieved = listing === "absent" || (listing === "unknown" && judged.knowledge === "Matching")
    return isBelieved ? judged : Attempt.Undone({ why: "not_confirmed" })
  }
  return listing === "absent"
    ? Attempt.Done({ verb: "destroy", knowledge: "Absent", reply: undefined })
    : judged
})

const destroy = Effect.fnUntraced(function* (lease: EnvironmentLease, target: ProviderTarget) {
  const answer = yield* callEnding({ verb: "destroy", lease, target })
  return yield* checkAbsence(lease, target, answer)
})

const stop = Effect.fnUntraced(function* (
  lease: EnvironmentLease,
  target: ProviderTarget,
  { cancelActiveWork }: StopMarker
) {
  return yield* judge("stop", lease, yield* callEnding({ verb: "stop", lease, target, cancelActiveWork }))
})

const destroyUncertain = Effect.fnUntraced(function* (
  lease: EnvironmentLease,
  target: ProviderTarget,
  evidence: CreationEvidence
) {
  return yield* judge("destroy_uncertain", lease, yield* destroyByEvidence(lease, target, evidence))
})

/** A row that somebody else holds the resource by forbids the end of it. Source: RL-STOP-07, RL 6.4 item 3. */
const isOwnedByOther = (lease: EnvironmentLease) =>
  EnvironmentLeaseStore.use((store) => store.hasOtherOwner(lease)).pipe(Effect.orElseSucceed(() => true))

/**
 * Attempts the end that the lease, as it is given, may have. Never fails; nothing is sent that the row does not allow, nor
 * to anybody but its owner.
 */
export const attemptTeardown = Effect.fnUntraced(function* (lease: EnvironmentLease) {
  const verb = decideVerb(lease)
  if (verb._tag === "Hold") return Attempt.Undone({ why: "held" })
  const found = yield* Effect.orElseSucceed(findTarget(lease, searchFor(lease)), Option.none<ProviderTarget>)
  if (Option.isNone(found)) return Attempt.Undone({ why: "worker_offline" })
  const target = found.value
  switch (verb._tag) {
    case "DestroyUncertain":
      return yield* destroyUncertain(lease, target, verb.evidence)
    case "Stop":
      if (yield* isOwnedByOther(lease)) return Attempt.Undone({ why: "other_owner" })
      return yield* stop(lease, target, verb.marker)
    case "Destroy":
      if (yield* isOwnedByOther(lease)) return Attempt.Undone({ why: "other_owner" })
      return yield* destroy(lease, target)
  }
})
