/**
 * Port of what the removal of a Project's runtime clears in the caller's transaction and no other port does.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { ProjectId } from "../Identity.ts"
import type { PluginTx, StorageFailure, TransactionEnded } from "../persistence/PluginDb.ts"

export class RemovalRecords extends Context.Service<
  RemovalRecords,
  {
    /** Removes every lease of the Project, tombstones and claims of repositories too: their guests are proved absent. */
    readonly clearLeases: (
      project: ProjectId
    ) => Effect.Effect<void, StorageFailure | TransactionEnded, PluginTx>
    /**
     * Keeps the receipts of the newest `removedProjectsKeptMax` Projects that were removed; at most
     * `receiptsTrimmedMax` older receipts go at once, none that still owes a machine. Source: FC-15, SP-DEL-10.
     */
    readonly trimReceipts: Effect.Effect<void, StorageFailure | TransactionEnded, PluginTx>
  }
>()("holdfast/domain/removal/RemovalRecords") {}
