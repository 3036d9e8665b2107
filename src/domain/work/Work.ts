/**
 * What a tenant works with: agents, their runs, tasks and execution workspaces. Only what leases need of them is here.
 * Source: RL section 2.1.
 */
import * as Schema from "effect/Schema"
import { AgentId, ExecutionWorkspaceId, ProjectId, RunId, TaskId, TenantId } from "../Identity.ts"

/** Statuses in which a run may still use what it leased. Every other one is terminal. Source: RL section 2.1. */
export const liveRunStatuses = ["queued", "scheduled_retry", "running"] as const

export const RunStatus = Schema.Literals([...liveRunStatuses, "succeeded", "failed", "cancelled"])
export type RunStatus = typeof RunStatus.Type

/** Anything but the three live statuses is an end, also a status that this version does not know. */
export const isRunLive = (status: string): boolean => liveRunStatuses.some((live) => live === status)

/** The adapter of an agent whose runs keep a session of their own in the sandbox. */
export const nativeRunnerAdapter = "native_runner"

export class Agent extends Schema.Class<Agent>("holdfast/Agent")({
  id: AgentId,
  tenant: TenantId,
  name: Schema.String,
  adapterType: Schema.String
}) {}

export class Run extends Schema.Class<Run>("holdfast/Run")({
  id: RunId,
  tenant: TenantId,
  agent: AgentId,
  status: Schema.String,
  invocationSource: Schema.String,
  errorCode: Schema.NullOr(Schema.String),
  /** For people and diagnostics; holds `execution` with the phase of a failed acquisition. Source: RL section 2.3. */
  result: Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown)),
  finishedAtMillis: Schema.NullOr(Schema.Int)
}) {}

export class Task extends Schema.Class<Task>("holdfast/Task")({
  id: TaskId,
  tenant: TenantId,
  title: Schema.String,
  status: Schema.String
}) {}

export class ExecutionWorkspace extends Schema.Class<ExecutionWorkspace>("holdfast/ExecutionWorkspace")({
  id: ExecutionWorkspaceId,
  tenant: TenantId,
  project: ProjectId,
  mode: Schema.String,
  name: Schema.String,
  status: Schema.String
}) {}
