/**
 * Adapter of RuntimeLog: appending, bounding and clearing are one function call each, serialized per Project by an
 * advisory lock (locks.ts).
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { runtimeLogRowsMax } from "../../domain/Bounds.ts"
import { RuntimeLog, storedLine } from "../../domain/history/RuntimeLog.ts"
import { OperationId } from "../../domain/Identity.ts"
import { PluginDb } from "../../domain/persistence/PluginDb.ts"
import { lockKey } from "./locks.ts"
import { joinOrOwn } from "./rows.ts"

export const layer: Layer.Layer<RuntimeLog, never, PluginDb> = Layer.effect(
  RuntimeLog,
  Effect.map(PluginDb, (db) => {
    const run = joinOrOwn(db)
    return {
      append: (project, { operation, lines }) =>
        lines.length === 0
          ? Effect.void
          : Effect.asVoid(
              run({
                operation: "RuntimeLog.append",
                text: "select append_runtime_log($1::bigint, $2::uuid, $3::text[], $4::int, $5::bigint)",
                parameters: [
                  project,
                  operation,
                  lines.map(storedLine),
                  runtimeLogRowsMax,
                  lockKey("runtime-log", project)
                ]
              })
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
