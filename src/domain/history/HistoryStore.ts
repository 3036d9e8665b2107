/**
 * Ports of the resource history. `HistoryStore` works inside a transaction: it appends beside the snapshot and prunes
 * beside other passes. `HistoryReader` are standalone reads, which assign no transaction id.
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
import type { HistoryPoint, HistoryRange, Metric } from "./History.ts"

export class HistoryStore extends Context.Service<
  HistoryStore,
  {
    /**
     * Merges one sample into its minute and its hour, a bucket of each metric given. A bucket that is there is merged
     * into, never doubled. Source: SP-RES-05.
     */
    readonly append: (
      project: ProjectId,
      startedAtMillis: number,
      values: ReadonlyMap<Metric, number>
    ) => Effect.Effect<void, StorageFailure | TransactionEnded, PluginTx>
    /**
     * Removes at most `historyPruneRowsMax` rows, expired ones and those of deleted Projects together, in the order
     * of their identity, past rows that another transaction holds; then forgets deleted Projects with none left.
     * Answers how many rows went. Expiry is by the database's clock. Source: SP-RES-08.
     */
    readonly prune: Effect.Effect<number, StorageFailure | TransactionEnded, PluginTx>
    /** Hands a deleted Project's history to the prune passes. Repeatable. Source: SP-DEL-10. */
    readonly queueDeletion: (
      project: ProjectId
    ) => Effect.Effect<void, StorageFailure | TransactionEnded, PluginTx>
  }
>()("holdfast/domain/history/HistoryStore") {}

export class HistoryReader extends Context.Service<
  HistoryReader,
  {
    /** Points in the order of their buckets. The range was found readable before. */
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
