/**
 * Port of agents, runs, tasks and execution workspaces. Every method is one standalone statement.
 * Source: RL section 2.1.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { AgentId, ProjectId, RunId, TaskId, TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { Agent, ExecutionWorkspace, Run, RunStatus, Task } from "./Work.ts"

/** The tenant has as many of them as it may: something has to end or be removed first. Source: FC-15. */
export class WorkTableFull extends Schema.TaggedError<WorkTableFull>()("WorkTableFull", {
  table: Schema.Literals(["agents", "runs", "tasks", "execution_workspaces"])
}) {
  readonly code = "work_table_full"
  override get message(): string {
    return `the tenant has as many ${this.table.replace("_", " ")} as it may: remove one first`
  }
}

/** What the row was to name is not the tenant's, or is not there. It does not tell which. */
export class WorkReferenceRefused extends Schema.TaggedError<WorkReferenceRefused>()("WorkReferenceRefused", {
  what: Schema.Literals(["tenant", "agent", "run", "task", "project"])
}) {
  readonly code = "work_reference_refused"
  override get message(): string {
    return `the tenant has no such ${this.what}: look at its id`
  }
}

type Creation<A> = Effect.Effect<A, WorkTableFull | WorkReferenceRefused | StorageFailure>

export class WorkStore extends Context.Service<
  WorkStore,
  {
    readonly createAgent: (agent: {
      readonly tenant: TenantId
      readonly name: string
      readonly adapterType: string
    }) => Creation<Agent>
    readonly createTask: (task: {
      readonly tenant: TenantId
      readonly title: string
      readonly assignee: AgentId | null
    }) => Creation<Task>
    readonly createWorkspace: (workspace: {
      readonly tenant: TenantId
      readonly project: ProjectId
      readonly name: string
      readonly mode: string
    }) => Creation<ExecutionWorkspace>
    readonly createRun: (run: {
      readonly tenant: TenantId
      readonly agent: AgentId
      readonly status: RunStatus
      /** Who began it; `manual` unless given. */
      readonly invocationSource?: string
    }) => Creation<Run>
    readonly runById: (tenant: TenantId, run: RunId) => Effect.Effect<Option.Option<Run>, StorageFailure>
    readonly agentById: (
      tenant: TenantId,
      agent: AgentId
    ) => Effect.Effect<Option.Option<Agent>, StorageFailure>
    readonly setTaskStatus: (
      tenant: TenantId,
      task: TaskId,
      status: string
    ) => Effect.Effect<boolean, StorageFailure>
    /**
     * Moves the run; a terminal status stamps its end. `result` and `errorCode` are kept where they are not given. A run
     * that has ended does not come back: answers whether the row moved.
     */
    readonly setRunStatus: (
      run: RunId,
      change: {
        readonly status: RunStatus
        readonly errorCode?: string
        readonly result?: JsonObject
      }
    ) => Effect.Effect<boolean, StorageFailure>
    /** Live runs of the agent, the oldest first, at most `agentRunsStoppedMax`. */
    readonly liveRunsOf: (agent: AgentId) => Effect.Effect<ReadonlyArray<Run>, StorageFailure>
  }
>()("holdfast/domain/work/WorkStore") {
  declare readonly [OutsideTransaction]: true
}
