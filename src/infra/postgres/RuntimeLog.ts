/**
 * Adapter of RuntimeLog: appending, bounding and clearing are one function call each, serialized per Project by an
 * advisory lock (locks.ts).
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { runtimeLogRowsMax } from "../../domain/Bounds.ts"
import { type LogClaim, type LogEntry, RuntimeLog, storedLine } from "../../domain/history/RuntimeLog.ts"
import { OperationId, type ProjectId } from "../../domain/Identity.ts"
import { PluginDb } from "../../domain/persistence/PluginDb.ts"
import { lockKey } from "./locks.ts"
import { joinOrOwn } from "./rows.ts"

const appendText = "append_runtime_log($1::bigint, $2::uuid, $3::text[], $4::int, $5::bigint)"

/** The receipt is held first, so that nobody takes the claim between the look and the lines. */
const appendIfHeldText = `with held as materialized (
    select from runtime_operations
      where row_id = $6::bigint and state = 'claimed' and claimed_by = $7::text and claim_sequence = $8::bigint
      for share)
  select ${appendText} from held`

const appendParameters = (project: ProjectId, { lines, operation }: LogEntry): ReadonlyArray<unknown> => [
  project,
  operation,
  lines.map(storedLine),
  runtimeLogRowsMax,
  lockKey("runtime-log", project)
]

export const layer: Layer.Layer<RuntimeLog, never, PluginDb> = Layer.effect(
  RuntimeLog,
  Effect.map(PluginDb, (db) => {
    const run = joinOrOwn(db)
    return {
      append: (project, entry) =>
        entry.lines.length === 0
          ? Effect.void
          : Effect.asVoid(
              run({
                operation: "RuntimeLog.append",
                text: `select ${appendText}`,
                parameters: appendParameters(project, entry)
              })
            ),
      appendIfHeld: (project, entry, { claimedBy, claimSequence, rowId }: LogClaim) =>
        Effect.map(
          run({
            operation: "RuntimeLog.appendIfHeld",
            text: appendIfHeldText,
            parameters: [...appendParameters(project, entry), rowId, claimedBy, claimSequence]
          }),
          (rows) => rows.length > 0
        ),
      newest: (project, limit) =>
        Effect.map(
          run({
            operation: "RuntimeLog.newest",
            text: `select row_id, operation_id, at, line from runtime_logs where project_id = $1::bigint
              order by row_id desc limit $2::int`,
            parameters: [project, limit]
          }),
          (rows) =>
            rows.toReversed().map((row) => ({
              rowId: Number(row.row_id),
              operation: row.operation_id === null ? null : OperationId.make(row.operation_id as string),
              atMillis: (row.at as Date).getTime(),
              line: row.line as string
            }))
        ),
      clear: (project) =>
        Effect.map(
          run({
            operation: "RuntimeLog.clear",
            text: "select clear_runtime_log($1::bigint, $2::bigint) as cleared",
            parameters: [project, lockKey("runtime-log", project)]
          }),
          (rows) => Number(rows[0]?.cleared)
        )
    }
  })
)
