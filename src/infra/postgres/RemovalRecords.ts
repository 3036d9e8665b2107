/** Adapter of the removal's own records. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PluginTx } from "../../domain/persistence/PluginDb.ts"
import { RemovalRecords } from "../../domain/removal/RemovalRecords.ts"

export const layer: Layer.Layer<RemovalRecords> = Layer.succeed(
  RemovalRecords,
  RemovalRecords.of({
    clearLeases: (project) =>
      Effect.flatMap(PluginTx, (tx) =>
        tx.query({
          operation: "RemovalRecords.clearLeases",
          text: "delete from execution_leases where project_id = $1",
          parameters: [BigInt(project)]
        })
      ).pipe(Effect.asVoid)
  })
)
