/**
 * What counts as proof of the end of a resource, verb by verb, and the evidence that a matching receipt leaves in the
 * lease. Source: RL section 5.3, RL-DESTROY-05, U5, U6, U27.
 */
import * as Schema from "effect/Schema"
import { EnvironmentLeaseId, RunId, TenantId } from "../Identity.ts"
import { isJsonObject, type JsonObject } from "../Json.ts"
import type { EnvironmentLease } from "./EnvironmentLease.ts"

export type JudgedVerb = "release" | "stop" | "destroy" | "destroy_uncertain"

/**
 * - `Matching`: the receipt names the resource and the state that was asked for.
 * - `Silent`: no receipt, which this verb takes for a success without evidence.
 * - `Unconfirmed`: anything else; the duty stays owed.
 */
export type ReplyVerdict = "Matching" | "Silent" | "Unconfirmed"

const stateOf: Readonly<Record<JudgedVerb, TerminatedState>> = {
  release: "stopped",
  stop: "stopped",
  destroy: "destroyed",
  destroy_uncertain: "destroyed"
}

/** Verbs that are believed without a receipt. */
const believedSilently: ReadonlySet<JudgedVerb> = new Set(["release", "destroy"])

const isSilent = (reply: unknown): boolean =>
  reply === undefined || reply === null || (isJsonObject(reply) && Object.keys(reply).length === 0)

/** Judges a provider's reply to a verb about one resource. */
export const judgeReply = (verb: JudgedVerb, providerLeaseId: string, reply: unknown): ReplyVerdict => {
  if (isSilent(reply)) return believedSilently.has(verb) ? "Silent" : "Unconfirmed"
  return isJsonObject(reply) &&
    reply["providerLeaseId"] === providerLeaseId &&
    reply["state"] === stateOf[verb]
    ? "Matching"
    : "Unconfirmed"
}

export type TerminatedState = "stopped" | "destroyed"

const TerminationEvidence = Schema.Struct({
  schema: Schema.Literal("holdfast.remote-termination.v1"),
  tenantId: TenantId,
  runId: Schema.NullOr(RunId),
  leaseId: EnvironmentLeaseId,
  providerLeaseId: Schema.String,
  state: Schema.Literals(["stopped", "destroyed"])
})
const isTerminationEvidence = Schema.is(TerminationEvidence)

/** What a matching receipt leaves; it takes the place of what was there. Source: RL 6.1 item 13. */
export const terminationEvidence = (lease: EnvironmentLease, state: TerminatedState): JsonObject => ({
  remoteExecutionTermination: {
    schema: "holdfast.remote-termination.v1",
    tenantId: lease.tenant,
    runId: lease.run,
    leaseId: lease.id,
    providerLeaseId: lease.providerLeaseId,
    state
  }
})

/** The state that the verb proves when its receipt matches. */
export const provedState = (verb: JudgedVerb): TerminatedState => stateOf[verb]

/** Whether the lease carries evidence that is its own, and nothing is owed about it any more. Source: RL-STOP-03. */
export const hasTerminationEvidence = (lease: EnvironmentLease): boolean => {
  const evidence = lease.metadata["remoteExecutionTermination"]
  return (
    lease.status !== "pending_cleanup" &&
    lease.status !== "active" &&
    isTerminationEvidence(evidence) &&
    evidence.tenantId === lease.tenant &&
    evidence.runId === lease.run &&
    evidence.leaseId === lease.id &&
    evidence.providerLeaseId === lease.providerLeaseId
  )
}

/**
 * Whether what a run leased from providers has all stopped, by evidence. A run without such a lease has none that it could
 * be told by, so it has not. Source: U27.
 */
export const haveAllStopped = (leases: ReadonlyArray<EnvironmentLease>): boolean => {
  const providerBacked = leases.filter(({ providerLeaseId }) => providerLeaseId !== null)
  return providerBacked.length > 0 && providerBacked.every(hasTerminationEvidence)
}
