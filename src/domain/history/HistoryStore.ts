/**
 * Ports of the resource history. `HistoryStore` works inside a transaction: it prunes beside other passes, and takes a
 * deleted Project's history over. `HistoryReader` are standalone reads, which assign no transaction id. What comes into
 * the history comes with the samples: SampleStore.ts.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { ProjectId } from "../Identity.ts"
import type {
  OutsideTransaction,
  PluginTx,
  StorageFailure,
  TransactionEnded
} from "../persistence/PluginDb.ts"
import type { HistoryPoint, HistoryRange } from "./History.ts"

/** What one pass did. */
export interface Pruned {
  readonly removed: number
  /** Deleted Projects with no history left. */
  readonly forgotten: number
}

export class HistoryStore extends Context.Service<
  HistoryStore,
  {
    /**
     * Removes at most `historyPruneRowsMax` rows, expired ones and those of deleted Projects together, in the order
     * of their identity, past rows that another transaction holds; then forgets deleted Projects with none left, of
     * `historyDeletionsAtOnceMax` that a pass looks at.
     * Answers how many rows went and how many Projects were forgotten. Expiry is by the database's clock.
     * Source: SP-RES-08.
     */
    readonly prune: Effect.Effect<Pruned, StorageFailure | TransactionEnded, PluginTx>
    /** Hands a deleted Project's history to the prune passes. Repeatable. Source: SP-DEL-10. */
    readonly queueDeletion: (
      project: ProjectId
    ) => Effect.Effect<void, StorageFailure | TransactionEnded, PluginTx>
  }
>()("holdfast/domain/history/HistoryStore") {}

export class HistoryReader extends Context.Service<
  HistoryReader,
  {
    /** Points in the order of their buckets, the one that is being filled among them. The range was found readable before. */
    readonly read: (
      project: ProjectId,
      range: HistoryRange
    ) => Effect.Effect<ReadonlyArray<HistoryPoint>, StorageFailure>
    /** Whether there is an expired row or a deleted Project's history to remove. Source: SP-RES-07. */
    readonly pruneWorkExists: Effect.Effect<boolean, StorageFailure>
  }
>()("holdfast/domain/history/HistoryStore/HistoryReader") {
  declare readonly [OutsideTransaction]: true
}
