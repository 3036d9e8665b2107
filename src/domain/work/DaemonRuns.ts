/**
 * Port of the runs that daemons begin themselves, for somebody who waits at their API. Each says which process began it,
 * so that the next daemon of the node can end what a dead one left. Source: SP-OPS-02, FC-02.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { AgentId, TenantId } from "../Identity.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { Run } from "./Work.ts"
import type { WorkReferenceRefused, WorkTableFull } from "./WorkStore.ts"

/** What stands before the written form of a process in a run's invocation source. */
export const daemonSourcePrefix = "daemon:"

export class DaemonRuns extends Context.Service<
  DaemonRuns,
  {
    /** The agent that stands for people at the API of this tenant; made when there is none. */
    readonly agentOf: (
      tenant: TenantId
    ) => Effect.Effect<AgentId, WorkTableFull | WorkReferenceRefused | StorageFailure>
    /** Runs that a daemon began and that are live yet, the oldest first, at most `daemonRunsPageMax`. */
    readonly live: Effect.Effect<ReadonlyArray<Run>, StorageFailure>
  }
>()("holdfast/domain/work/DaemonRuns") {
  declare readonly [OutsideTransaction]: true
}
