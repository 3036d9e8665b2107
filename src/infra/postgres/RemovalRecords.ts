/** Adapter of the removal's own records. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { receiptsTrimmedMax, removedProjectsKeptMax } from "../../domain/Bounds.ts"
import { PluginTx } from "../../domain/persistence/PluginDb.ts"
import { RemovalRecords } from "../../domain/removal/RemovalRecords.ts"

/**
 * A removed Project has one receipt of its deletion, the last of its receipts: so that one goes last, and what a pass
 * leaves is found by the next one. What others hold waits for it too.
 */
const trimText = `with boundary as (
    select row_id from runtime_operations where action = 'delete' order by row_id desc offset $1::int limit 1),
  removed as (
    select d.project_id from runtime_operations d
      where d.action = 'delete' and d.state = 'succeeded' and d.row_id <= (select row_id from boundary)
        and not exists (select from runtime_operations o where o.project_id = d.project_id and o.owed <> '{}')
      order by d.row_id limit $2::int)
  delete from runtime_operations where row_id = any (array(
    select o.row_id from runtime_operations o join removed using (project_id)
      where o.settled_at is not null order by o.row_id limit $2::int for update of o skip locked))`

export const layer: Layer.Layer<RemovalRecords> = Layer.succeed(
  RemovalRecords,
  RemovalRecords.of({
    clearLeases: (project) =>
      Effect.flatMap(PluginTx, (tx) =>
        tx.query({
          operation: "RemovalRecords.clearLeases",
          text: `with claims as (delete from repository_claims where project_id = $1)
            delete from execution_leases where project_id = $1`,
          parameters: [BigInt(project)]
        })
      ).pipe(Effect.asVoid),
    trimReceipts: Effect.flatMap(PluginTx, (tx) =>
      tx.query({
        operation: "RemovalRecords.trimReceipts",
        text: trimText,
        parameters: [removedProjectsKeptMax, receiptsTrimmedMax]
      })
    ).pipe(Effect.asVoid)
  })
)
