/**
 * Adapter of the resource history:
 *
 *     resource_samples    one row a Project, metric and closed minute    kept minuteHistorySeconds
 *     resource_rollups    one row a Project, metric and closed hour      kept hourHistorySeconds
 *     minute_history      the closed ones, and the one that is being filled in the runtime's row
 *     hour_history        the same of hours
 *     history_deletions   Projects whose rows are still to go, whatever their age
 *
 * The forms of the statements are chosen for plans that do not grow with the tables: the look asks `min(bucket)`
 * of an index, candidates come through the bucket's index or the natural key, and rows are locked by identity.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  historyDeletionsAtOnceMax,
  historyPointsMax,
  historyPruneCandidatesMax,
  historyPruneRowsMax,
  hourHistorySeconds,
  minuteHistorySeconds
} from "../../domain/Bounds.ts"
import { type HistoryPoint, type HistoryRange, type Metric, metrics } from "../../domain/history/History.ts"
import { HistoryReader, HistoryStore } from "../../domain/history/HistoryStore.ts"
import type { ProjectId } from "../../domain/Identity.ts"
import { PluginDb, PluginTx, type SqlRow } from "../../domain/persistence/PluginDb.ts"

type Db = PluginDb["Service"]

/** `now()`, not `clock_timestamp()`: only a stable function may bound an index scan. */
const expiry = (seconds: number): string => `now() - make_interval(secs => ${seconds})`

/** The deleted Projects that a pass looks at: those that are done make room for others. */
const oldestDeletions = `(select project_id from history_deletions order by project_id limit ${historyDeletionsAtOnceMax})`

/**
 * At most $1 rows of one table. The candidates are a window of the oldest expired rows and of deleted Projects'
 * rows, twice as wide as a pass, so that rows locked by another transaction leave enough others.
 */
const pruneText = (table: string, keptSeconds: number): string => `
with gone as (
  delete from ${table} where id = any(array(
    select id from ${table} where id = any(array(
        (select id from ${table} where bucket < ${expiry(keptSeconds)}
          order by bucket limit ${historyPruneCandidatesMax})
        union all
        (select owed.id from ${oldestDeletions} d
          cross join lateral (select h.id from ${table} h where h.project_id = d.project_id
            order by h.project_id, h.metric, h.bucket limit ${historyPruneCandidatesMax}) owed
          limit ${historyPruneCandidatesMax})))
      order by id limit $1::bigint for update skip locked))
  returning 1)
select count(*)::int as removed from gone`

const pruneTable = (table: string, keptSeconds: number, rowsMax: number) =>
  PluginTx.use((tx) =>
    tx.query({
      operation: `HistoryStore.prune.${table}`,
      text: pruneText(table, keptSeconds),
      parameters: [rowsMax]
    })
  ).pipe(Effect.map(([row]) => Number(row?.["removed"])))

const forgetText = `
delete from history_deletions where project_id = any(array(
  select d.project_id from ${oldestDeletions} d
  where not exists (select from resource_samples h where h.project_id = d.project_id)
    and not exists (select from resource_rollups h where h.project_id = d.project_id)))
returning project_id`

/** Both tables share one budget. A deleted Project is forgotten when neither table has a row of it. */
const prune = Effect.gen(function* () {
  const minutes = yield* pruneTable("resource_samples", minuteHistorySeconds, historyPruneRowsMax)
  const hours = yield* pruneTable("resource_rollups", hourHistorySeconds, historyPruneRowsMax - minutes)
  const tx = yield* PluginTx
  const forgotten = yield* tx.query({ operation: "HistoryStore.prune.deletions", text: forgetText })
  return { removed: minutes + hours, forgotten: forgotten.length }
})

const queueDeletion = (project: ProjectId) =>
  PluginTx.use((tx) =>
    tx.query({
      operation: "HistoryStore.queueDeletion",
      text: "insert into history_deletions (project_id) values ($1::bigint) on conflict do nothing",
      parameters: [project]
    })
  ).pipe(Effect.asVoid)

const readText = (view: string): string => `
select place, (extract(epoch from bucket) * 1000)::float8 as bucket_millis,
  minimum::text, maximum::text, total::text, samples
from ${view}
where project_id = $1::bigint and place = any($2::smallint[])
  and bucket >= to_timestamp($3::bigint / 1000.0) and bucket < to_timestamp($4::bigint / 1000.0)
order by bucket, place limit $5::bigint`

const views = { minute: "minute_history", hour: "hour_history" } as const

/** Metrics are stored by their places in the list, from 1. */
const placesOf = (asked: ReadonlyArray<Metric>) => asked.map((metric) => metrics.indexOf(metric) + 1)

const pointOf = (row: SqlRow): HistoryPoint => ({
  // The schema keeps the place within the list.
  metric: metrics[Number(row["place"]) - 1]!,
  bucketMillis: Number(row["bucket_millis"]),
  minimum: Number(row["minimum"]),
  maximum: Number(row["maximum"]),
  total: BigInt(String(row["total"])),
  samples: Number(row["samples"])
})

const read = (db: Db) => (project: ProjectId, range: HistoryRange) =>
  db
    .query({
      operation: "HistoryReader.read",
      text: readText(views[range.resolution]),
      parameters: [
        project,
        placesOf(range.metrics),
        range.fromMillis,
        range.toMillis,
        historyPointsMax * range.metrics.length
      ]
    })
    .pipe(Effect.map((rows) => rows.map(pointOf)))

const pruneWorkExists = (db: Db) =>
  db
    .query({
      operation: "HistoryReader.pruneWorkExists",
      text: `select coalesce((select min(bucket) from resource_samples) < ${expiry(minuteHistorySeconds)}, false)
        or coalesce((select min(bucket) from resource_rollups) < ${expiry(hourHistorySeconds)}, false)
        or exists (select from history_deletions) as work`
    })
    .pipe(Effect.map(([row]) => row?.["work"] === true))

const reader = Layer.effect(
  HistoryReader,
  PluginDb.use((db) =>
    Effect.sync(() => HistoryReader.of({ read: read(db), pruneWorkExists: pruneWorkExists(db) }))
  )
)

/** Both history ports on the plugin's schema. */
export const layer: Layer.Layer<HistoryStore | HistoryReader, never, PluginDb> = Layer.merge(
  reader,
  Layer.succeed(HistoryStore, { prune, queueDeletion })
)
