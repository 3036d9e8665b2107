/**
 * The names by which Holdfast tells things apart. Each is a branded schema, so that one id cannot be handed
 * in where another is meant, and each refuses what is not canonical. What the named things are is told by the
 * module that owns them.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

const Uuid = Schema.String.check(Schema.isPattern(uuidPattern))

/** A Project's id: a positive safe integer, given by the host's identity column. Source: SP-HTTP-02. */
export const ProjectId = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
).pipe(Schema.brand("ProjectId"))
export type ProjectId = typeof ProjectId.Type

export const TenantId = Uuid.pipe(Schema.brand("TenantId"))
export type TenantId = typeof TenantId.Type

export const AccountId = Uuid.pipe(Schema.brand("AccountId"))
export type AccountId = typeof AccountId.Type

export const OperationId = Uuid.pipe(Schema.brand("OperationId"))
export type OperationId = typeof OperationId.Type

export const LeaseId = Uuid.pipe(Schema.brand("LeaseId"))
export type LeaseId = typeof LeaseId.Type

/** Owner of one node registry: written once into its header, its metadata and every record. Source: RG-LAY-04. */
export const NodeId = Uuid.pipe(Schema.brand("NodeId"))
export type NodeId = typeof NodeId.Type
/** What `NodeId` accepts, told without the schema: an open asks it of every record. */
export const isNodeId = (value: unknown): value is NodeId =>
  typeof value === "string" && uuidPattern.test(value)

export const AgentId = Uuid.pipe(Schema.brand("AgentId"))
export type AgentId = typeof AgentId.Type

export const RunId = Uuid.pipe(Schema.brand("RunId"))
export type RunId = typeof RunId.Type

export const TaskId = Uuid.pipe(Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type

export const EnvironmentId = Uuid.pipe(Schema.brand("EnvironmentId"))
export type EnvironmentId = typeof EnvironmentId.Type

export const ExecutionWorkspaceId = Uuid.pipe(Schema.brand("ExecutionWorkspaceId"))
export type ExecutionWorkspaceId = typeof ExecutionWorkspaceId.Type

/** A row of `environment_leases`; an execution lease of a Project's machine is a `LeaseId`. */
export const EnvironmentLeaseId = Uuid.pipe(Schema.brand("EnvironmentLeaseId"))
export type EnvironmentLeaseId = typeof EnvironmentLeaseId.Type

export const ProviderPluginId = Uuid.pipe(Schema.brand("ProviderPluginId"))
export type ProviderPluginId = typeof ProviderPluginId.Type

export const SecretId = Uuid.pipe(Schema.brand("SecretId"))
export type SecretId = typeof SecretId.Type

const sandboxPattern = /^sb-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** A sandbox of a node: `sb-` and a lower-case uuid. It is also a file name, so nothing else is accepted. */
export const SandboxId = Schema.String.check(Schema.isPattern(sandboxPattern)).pipe(Schema.brand("SandboxId"))
export type SandboxId = typeof SandboxId.Type
/** What `SandboxId` accepts, told without the schema: an open asks it of every record and of every name. */
export const isSandboxId = (value: unknown): value is SandboxId =>
  typeof value === "string" && sandboxPattern.test(value)

/** Grows by one whenever a machine is replaced; it fences late writers. Starts at 1. */
export const Generation = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
).pipe(Schema.brand("Generation"))
export type Generation = typeof Generation.Type

/** Key under which a request may be repeated without being done twice. Source: SP figures. */
export const RequestKey = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_.:-]{1,160}$/)).pipe(
  Schema.brand("RequestKey")
)
export type RequestKey = typeof RequestKey.Type

/** A workspace snapshot's name within its Project, its caller's choice; never part of a path. Source: SP figures. */
export const SnapshotId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_.:-]{1,160}$/)).pipe(
  Schema.brand("SnapshotId")
)
export type SnapshotId = typeof SnapshotId.Type

/**
 * Who is writing: one value for each running daemon process. `bootId` and `startTicks` tell a process from a
 * later one with the same pid; `node` tells whose pids are meant at all.
 * Written into rows as `daemon/node/bootId/pid/startTicks`.
 */
export class ProcessIdentity extends Schema.Class<ProcessIdentity>("holdfast/ProcessIdentity")({
  daemon: Uuid,
  node: NodeId,
  bootId: Uuid,
  pid: Schema.Int.check(Schema.isGreaterThan(0)),
  /** Start time of the process in clock ticks after boot: field 22 of its stat line. */
  startTicks: Schema.String.check(Schema.isPattern(/^\d{1,20}$/))
}) {
  /** The one written form, compared byte by byte in conditional statements. */
  override toString(): string {
    return [this.daemon, this.node, this.bootId, this.pid, this.startTicks].join("/")
  }
}

/** Reads the written form of a process identity. Anything else is a defect: only this product writes it. */
export const parseProcessIdentity = (written: string): ProcessIdentity => {
  const [daemon, node, bootId, pid, startTicks, ...rest] = written.split("/")
  const decoded = Schema.decodeUnknownResult(ProcessIdentity)({
    daemon,
    node,
    bootId,
    pid: Number(pid),
    startTicks
  })
  if (Result.isFailure(decoded) || rest.length > 0) {
    return Effect.runSync(
      Effect.die(new Error("a stored process identity cannot be read: it has another form"))
    )
  }
  return decoded.success
}
