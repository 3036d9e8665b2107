/** Adapter of SnapshotRows: one statement a method, in the caller's transaction where there is one. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import {
  PluginDb,
  type SqlRow,
  type StorageFailure,
  type TransactionEnded
} from "../../domain/persistence/PluginDb.ts"
import { MachineRecipe } from "../../domain/runtimes/Runtime.ts"
import { Snapshot, SnapshotRows } from "../../domain/runtimes/SnapshotRows.ts"
import { firstOf, joinOrOwn, recipeText } from "./rows.ts"

const decodeRecipe = Schema.decodeUnknownSync(MachineRecipe)

/** Validated by the schema when it was written, but for the recipe, which it does not look into. */
const snapshotOf = (row: SqlRow): Snapshot =>
  new Snapshot({
    rowId: Number(row.row_id),
    project: Number(row.project_id) as Snapshot["project"],
    id: row.id as Snapshot["id"],
    path: row.path as string,
    bytes: row.bytes === null ? null : Number(row.bytes),
    generation: Number(row.generation) as Snapshot["generation"],
    recipe: decodeRecipe(row.recipe),
    state: row.state as Snapshot["state"],
    operation: row.operation_id as Snapshot["operation"],
    account: row.account_id as Snapshot["account"],
    pausedBy: row.paused_by as string | null,
    removedBy: row.removed_by as string | null,
    reason: row.reason as string | null,
    createdAtMillis: (row.created_at as Date).getTime()
  })

const insertText = `insert into runtime_snapshots
    (project_id, id, path, generation, recipe, operation_id, account_id)
  values ($1::bigint, $2::text, $3::text, $4::bigint, $5::text::jsonb, $6::uuid, $7::uuid)
  on conflict (project_id, id) do nothing returning row_id`

const isLive = "exists (select from live_operations l where l.row_id = o.row_id)"

const unfinishedText = `select s.*, coalesce(${isLive}, false) as is_live,
    coalesce(o.state = 'claimed', false) as is_claimed
  from runtime_snapshots s left join runtime_operations o on o.id = s.operation_id
  where (s.state <> 'ready' or s.paused_by is not null) and s.row_id > $2::bigint
    and s.recipe ->> 'node' = $1::text
  order by s.row_id limit $3::int`

const abandonText = `update runtime_snapshots s set state = 'removing', removed_by = $2::text, reason = $3::text
  where s.row_id = $1::bigint and s.state = 'capturing'
    and not exists (select from runtime_operations o where o.id = s.operation_id and ${isLive})
  returning row_id`

type Service = SnapshotRows["Service"]
type Ask = (
  operation: string,
  text: string,
  parameters: ReadonlyArray<unknown>
) => Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure | TransactionEnded>

const makeReads = (ask: Ask): Pick<Service, "ofProject" | "byId" | "unfinished"> => ({
  ofProject: (project) =>
    Effect.map(
      ask("ofProject", "select * from runtime_snapshots where project_id = $1::bigint order by row_id", [
        project
      ]),
      (rows) => rows.map(snapshotOf)
    ),
  byId: (project, id) =>
    Effect.map(
      ask("byId", "select * from runtime_snapshots where project_id = $1::bigint and id = $2::text", [
        project,
        id
      ]),
      (rows) => firstOf(rows, snapshotOf)
    ),
  unfinished: ({ after, limit, node }) =>
    Effect.map(ask("unfinished", unfinishedText, [node, after, limit]), (rows) =>
      rows.map((row) => ({
        snapshot: snapshotOf(row),
        isLive: row.is_live as boolean,
        isClaimed: row.is_claimed as boolean
      }))
    )
})

const change = (what: string): string => `update runtime_snapshots set ${what} returning row_id`

const markPausedText = change(
  "paused_by = $2::text where row_id = $1::bigint and state = 'capturing' and paused_by is null"
)
const clearPausedText = change("paused_by = null where row_id = $1::bigint and paused_by = $2::text")
const markReadyText = change(`state = 'ready', bytes = $3::bigint
  where row_id = $1::bigint and operation_id = $2::uuid and state = 'capturing'`)
const markRemovingText = change(`state = 'removing', removed_by = $3::text, reason = $4::text
  where row_id = $1::bigint and state = $2::text`)
const removeText =
  "delete from runtime_snapshots where row_id = $1::bigint and state = 'removing' returning row_id"

const makeWrites = (ask: Ask): Omit<Service, keyof ReturnType<typeof makeReads>> => {
  const moved = (...given: Parameters<Ask>) => Effect.map(ask(...given), (rows) => rows.length > 0)
  return {
    insert: ({ account, generation, id, operation, path, project, recipe }) =>
      moved("insert", insertText, [project, id, path, generation, recipeText(recipe), operation, account]),
    markPaused: (rowId, by) => moved("markPaused", markPausedText, [rowId, by]),
    clearPaused: (rowId, by) => moved("clearPaused", clearPausedText, [rowId, by]),
    markReady: (rowId, { bytes, operation }) => moved("markReady", markReadyText, [rowId, operation, bytes]),
    markRemoving: (rowId, from, { by, reason }) =>
      moved("markRemoving", markRemovingText, [rowId, from, by, reason]),
    markAbandoned: (rowId, { by, reason }) => moved("markAbandoned", abandonText, [rowId, by, reason]),
    remove: (rowId) => moved("remove", removeText, [rowId]),
    clear: (project) =>
      Effect.asVoid(ask("clear", "delete from runtime_snapshots where project_id = $1::bigint", [project]))
  }
}

export const layer: Layer.Layer<SnapshotRows, never, PluginDb> = Layer.effect(
  SnapshotRows,
  Effect.map(PluginDb, (db) => {
    const run = joinOrOwn(db)
    const ask: Ask = (operation, text, parameters) =>
      run({ operation: `SnapshotRows.${operation}`, text, parameters })
    return SnapshotRows.of({ ...makeReads(ask), ...makeWrites(ask) })
  })
)
