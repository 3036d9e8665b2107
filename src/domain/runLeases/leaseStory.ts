/**
 * What became of a lease, from its acquisition to the proof of its end, in steps that people read: each with what is known
 * of who did it and why. Pure. Source: FC-22.
 */
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { isJsonObject } from "../Json.ts"
import type { Run } from "../work/Work.ts"

export const leaseStorySteps = ["acquired", "run", "ended", "cleanup", "proof"] as const

export interface StoryStep {
  readonly step: (typeof leaseStorySteps)[number]
  readonly text: string
  readonly actor: string | null
  readonly reason: string | null
  readonly atMillis: number | null
}

const stringIn = (value: unknown, key: string): string | null =>
  isJsonObject(value) && typeof value[key] === "string" ? value[key] : null

const acquired = (lease: EnvironmentLease): StoryStep => {
  const { createdAtMillis, metadata, provider, providerLeaseId, run } = lease
  const outcome = stringIn(metadata["sandboxLeaseAcquisition"], "outcome") ?? "created"
  const what = provider === null ? "the machine itself" : `${providerLeaseId ?? "a resource"} of ${provider}`
  return {
    step: "acquired",
    text: `${outcome} by driver ${String(metadata["driver"] ?? "unknown")}: ${what}`,
    actor: run === null ? null : `run ${run}`,
    reason: stringIn(metadata["sandboxLeaseAcquisition"], "reason"),
    atMillis: createdAtMillis
  }
}

const runStep = (run: Run): StoryStep => ({
  step: "run",
  text: `the run is ${run.status}`,
  actor: run.invocationSource.split(":")[0] ?? null,
  reason: run.errorCode,
  atMillis: run.finishedAtMillis
})

const ended = ({ endedBy, failureReason, releasedAtMillis, status }: EnvironmentLease): StoryStep => ({
  step: "ended",
  text: `the lease is ${status}`,
  actor: endedBy,
  reason: failureReason,
  atMillis: releasedAtMillis
})

const cleanup = ({ cleanupStatus, cleanupTries, needsOperator, status }: EnvironmentLease): StoryStep => ({
  step: "cleanup",
  text:
    status === "pending_cleanup"
      ? `its end is owed, after ${cleanupTries} tries${needsOperator ? ", and needs an operator" : ""}`
      : `its cleanup was a ${cleanupStatus}${cleanupTries === 0 ? "" : ` after ${cleanupTries} failed tries`}`,
  actor: null,
  reason: null,
  atMillis: null
})

/** What was believed, and of whom. Nothing of it: the end is not proved. */
const proofOf = ({ metadata, provider, status }: EnvironmentLease): string | null => {
  const state = stringIn(metadata["remoteExecutionTermination"], "state")
  if (state !== null) return `the provider's receipt names this resource as ${state}`
  const method = stringIn(metadata["sandboxStopAndRetainReceipt"], "method")
  if (method !== null) return `${method} was confirmed`
  if (metadata["providerAbsence"] === "already_absent")
    return "the provider does not know it, and does not list it under our label"
  if (provider === null && status !== "pending_cleanup") return "no process of it was left"
  return null
}

/** The steps in their order; what has not happened yet is not among them. */
export const leaseStory = (lease: EnvironmentLease, run: Run | undefined): ReadonlyArray<StoryStep> => {
  const proof = lease.status === "active" ? null : proofOf(lease)
  return [
    acquired(lease),
    ...(run === undefined ? [] : [runStep(run)]),
    ...(lease.status === "active" ? [] : [ended(lease)]),
    ...(lease.cleanupStatus === null ? [] : [cleanup(lease)]),
    ...(proof === null
      ? []
      : [{ step: "proof" as const, text: proof, actor: null, reason: null, atMillis: null }])
  ]
}
