/**
 * Port of what is remembered between automatic recoveries of a runtime: how many there were, when the next one is due,
 * and since when the machine runs. All times are the database's; every write is conditional on the generation that its
 * caller saw. Source: SP figures (automatic recovery), FC-11.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Generation, NodeId, ProjectId } from "../Identity.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { RecoveryFacts } from "./autoRecoveryDecision.ts"

/** A runtime with a machine, of an active Project, about which something may have to be decided. */
export interface WatchedRuntime extends RecoveryFacts {
  readonly project: ProjectId
  readonly generation: Generation
  readonly refreshEpoch: number
}

/** The row that the caller saw. */
export type Watched = Pick<WatchedRuntime, "project" | "generation">

export class AutoRecoveryStore extends Context.Service<
  AutoRecoveryStore,
  {
    /**
     * Runtimes of the node after `after` in the order of their Projects, at most `limit`; none of those that have run
     * all the time and need nothing.
     */
    readonly watched: (walk: {
      readonly node: NodeId
      readonly after: number
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<WatchedRuntime>, StorageFailure>
    readonly noteRunning: (runtime: Watched) => Effect.Effect<void, StorageFailure>
    readonly reset: (runtime: Watched) => Effect.Effect<void, StorageFailure>
    readonly schedule: (runtime: Watched, delaySeconds: number) => Effect.Effect<void, StorageFailure>
    /** One more attempt has begun: none is due, and healthy time begins anew. */
    readonly count: (runtime: Watched) => Effect.Effect<void, StorageFailure>
  }
>()("holdfast/domain/operations/AutoRecoveryStore") {
  declare readonly [OutsideTransaction]: true
}
