/**
 * Which lease a run may come back to. Three questions in this order: is it in the run's scope, does somebody else hold
 * it, was it made from the same config; each has an answer of its own. Source: RL-REUSE-01 to -05, RL 6.1 item 9.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AgentId, EnvironmentId, ExecutionWorkspaceId, type RunId, TaskId, TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import type { EnvironmentLease } from "./EnvironmentLease.ts"
import { configFits, type LeaseFingerprint } from "./fingerprint.ts"
import { isStopOnly } from "./markers.ts"

/** A lease as the matching by config sees it. */
export interface RecordedLease {
  readonly providerLeaseId: string | null
  readonly metadata: JsonObject
}

/**
 * The first lease whose recorded config is the one that is asked for, or null. `streamRunLogs` takes no part and a null
 * value constrains nothing. Source: RL-REUSE-01 to -03.
 */
export const findReusableSandboxLeaseId = (asked: {
  readonly config: JsonObject
  readonly leases: ReadonlyArray<RecordedLease>
}): string | null =>
  asked.leases.find(
    ({ metadata, providerLeaseId }) => providerLeaseId !== null && configFits(asked.config, metadata)
  )?.providerLeaseId ?? null

const Hex64 = Schema.String.check(Schema.isPattern(/^[a-f0-9]{64}$/))

/** `metadata.reusableSandboxLease`: whose the resource is, and what it was made from. */
const ReuseStamp = Schema.Struct({
  version: Schema.Literal(1),
  tenantId: TenantId,
  environmentId: EnvironmentId,
  executionWorkspaceId: Schema.NullOr(ExecutionWorkspaceId),
  projectlessTaskId: Schema.optionalKey(TaskId),
  agentId: AgentId,
  adapterType: Schema.NullOr(Schema.String),
  provider: Schema.String,
  runtimeFingerprint: Schema.optionalKey(Hex64),
  leaseFingerprint: Schema.optionalKey(
    Schema.Struct({
      category: Schema.Literal("lease"),
      fingerprint: Schema.String.check(Schema.isPattern(/^v1:sha256:[a-f0-9]{64}$/))
    })
  )
})
export type ReuseStamp = typeof ReuseStamp.Type

const decodeStamp = Schema.decodeUnknownOption(ReuseStamp)

/** The stamp of a lease; none where there is none or it cannot be read, and then nobody comes back to it. */
export const reuseStampOf = ({ metadata }: { readonly metadata: JsonObject }): Option.Option<ReuseStamp> =>
  decodeStamp(metadata["reusableSandboxLease"])

/** Who may come back to a lease. */
export interface ReuseOwner {
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly agent: AgentId
  readonly adapterType: string | null
  readonly place: { readonly executionWorkspace: ExecutionWorkspaceId } | { readonly projectlessTask: TaskId }
}

/** None without an agent, or with neither a workspace nor a task: such a lease is nobody's to come back to. Source: U7. */
export const reuseOwnerOf = (asked: {
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly agent: AgentId | undefined
  readonly adapterType: string | undefined
  readonly executionWorkspace: ExecutionWorkspaceId | null
  readonly task: TaskId | null
}): Option.Option<ReuseOwner> => {
  const { agent, environment, executionWorkspace, task, tenant } = asked
  const place =
    executionWorkspace !== null
      ? { executionWorkspace }
      : task !== null
        ? { projectlessTask: task }
        : undefined
  return agent === undefined || place === undefined
    ? Option.none()
    : Option.some({ tenant, environment, agent, adapterType: asked.adapterType ?? null, place })
}

/** The stamp of a new lease of this owner. Source: RL-REUSE-05, RL-REUSE-20. */
export const reuseStamp = (
  { adapterType, agent, environment, place, tenant }: ReuseOwner,
  provider: string,
  fingerprint: LeaseFingerprint
): ReuseStamp => ({
  version: 1,
  tenantId: tenant,
  environmentId: environment,
  ...("executionWorkspace" in place
    ? { executionWorkspaceId: place.executionWorkspace }
    : { executionWorkspaceId: null, projectlessTaskId: place.projectlessTask }),
  agentId: agent,
  adapterType,
  provider,
  leaseFingerprint: fingerprint
})

/** Whether the stamp names exactly this owner. Source: RL-REUSE-04. */
export const isStampOf = (stamp: ReuseStamp, owner: ReuseOwner): boolean =>
  stamp.tenantId === owner.tenant &&
  stamp.environmentId === owner.environment &&
  stamp.agentId === owner.agent &&
  stamp.adapterType === owner.adapterType &&
  ("executionWorkspace" in owner.place
    ? stamp.executionWorkspaceId === owner.place.executionWorkspace
    : stamp.executionWorkspaceId === null && stamp.projectlessTaskId === owner.place.projectlessTask)

/**
 * What an acquisition does about one lease: nothing, since it is another's (`OutOfScope`), in use (`Held`) or not to be
 * come back to (`Unusable`); go on with it (`Resume`); or destroy it, since it was made from another config (`Drifted`).
 */
export type CandidateDecision = "OutOfScope" | "Held" | "Unusable" | "Resume" | "Drifted"

export interface Candidate {
  readonly lease: EnvironmentLease
  readonly owner: ReuseOwner
  readonly provider: string
  readonly run: RunId
  /** Whether the run that the row names is still live. */
  readonly isHolderLive: boolean
  /** `fingerprintFits` for the row's stamp. */
  readonly fits: (stamp: ReuseStamp) => boolean
}

const idleDecision = (lease: EnvironmentLease, fits: boolean): CandidateDecision => {
  const { cleanupStatus, status } = lease
  if (isStopOnly(lease)) return "Unusable"
  if (status === "released") return fits ? "Resume" : "Drifted"
  return status === "retained" && cleanupStatus === "success" && fits ? "Resume" : "Unusable"
}

/**
 * An active row is come back to by its own run only; one whose run is over, a failed, owed or ended one, or one of which only
 * a stop is owed by nobody. Only a row that was handed back is destroyed for drift. Source: RL-REUSE-11, -14, -16, U12; section 5.1.
 */
export const decideCandidate = ({
  fits,
  isHolderLive,
  lease,
  owner,
  provider,
  run
}: Candidate): CandidateDecision => {
  const stamp = Option.getOrUndefined(reuseStampOf(lease))
  if (stamp === undefined || stamp.provider !== provider || !isStampOf(stamp, owner)) return "OutOfScope"
  if (lease.policy !== "reuse_by_environment" || lease.providerLeaseId === null) return "Unusable"
  if (lease.status === "active") {
    if (lease.run === run) return fits(stamp) ? "Resume" : "Held"
    return isHolderLive ? "Held" : "Unusable"
  }
  return idleDecision(lease, fits(stamp))
}
