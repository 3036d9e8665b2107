/**
 * Adapter of the resource history:
 *
 *     resource_samples    one row a Project, metric and minute    kept minuteHistorySeconds
 *     resource_rollups    one row a Project, metric and hour      kept hourHistorySeconds
 *     history_deletions   Projects whose rows are still to go, whatever their age
 *
 * The forms of the statements are chosen for plans that do not grow with the tables: the look asks `min(bucket)`
 * of an index, candidates come through the bucket's index or the natural key, and rows are locked by identity.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import {
  historyPointsMax,
  historyPruneCandidatesMax,
  historyPruneRowsMax,
  hourHistorySeconds,
  minuteHistorySeconds
} from "../../domain/Bounds.ts"
import { bucketOf, type HistoryPoint, type HistoryRange, Metric } from "../../domain/history/History.ts"
import { HistoryReader, HistoryStore } from "../../domain/history/HistoryStore.ts"
import type { ProjectId } from "../../domain/Identity.ts"
import { PluginDb, PluginTx, type SqlRow } from "../../domain/persistence/PluginDb.ts"

type Db = PluginDb["Service"]

const mergeInto = (table: string, bucket: string): string => `
insert into ${table} as h (project_id, metric, bucket, minimum, maximum, total, samples)
  select $1::bigint, key, to_timestamp(${bucket}::bigint / 1000.0), value::bigint, value::bigint, value::bigint, 1
  from jsonb_each_text($2::jsonb) order by key
on conflict (project_id, metric, bucket) do update set
  minimum = least(h.minimum, excluded.minimum),
  maximum = greatest(h.maximum, excluded.maximum),
  total = h.total + excluded.total,
  samples = h.samples + excluded.samples`

const appendText = `with minutes as (${mergeInto("resource_samples", "$3")})
${mergeInto("resource_rollups", "$4")}`

const append = (project: ProjectId, startedAtMillis: number, values: ReadonlyMap<Metric, number>) =>
  PluginTx.use((tx) =>
    tx.query({
      operation: "HistoryStore.append",
      text: appendText,
      parameters: [
        project,
        JSON.stringify(Object.fromEntries(values)),
        bucketOf("minute", startedAtMillis),
        bucketOf("hour", startedAtMillis)
      ]
    })
  ).pipe(Effect.asVoid)

/** `now()`, not `clock_timestamp()`: only a stable function may bound an index scan. */
const expiry = (seconds: number): string => `now() - make_interval(secs => ${seconds})`

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
        (select owed.id from history_deletions d
          cross join lateral (select h.id from ${table} h where h.project_id = d.project_id
            limit ${historyPruneCandidatesMax}) owed
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

/** Both tables share one budget. A deleted Project is forgotten when neither table has a row of it. */
const prune = Effect.gen(function* () {
  const minutes = yield* pruneTable("resource_samples", minuteHistorySeconds, historyPruneRowsMax)
  const hours = yield* pruneTable("resource_rollups", hourHistorySeconds, historyPruneRowsMax - minutes)
  const tx = yield* PluginTx
  yield* tx.query({
    operation: "HistoryStore.prune.deletions",
    text: `delete from history_deletions d
      where not exists (select from resource_samples h where h.project_id = d.project_id)
        and not exists (select from resource_rollups h where h.project_id = d.project_id)`
  })
  return minutes + hours
})

const queueDeletion = (project: ProjectId) =>
  PluginTx.use((tx) =>
    tx.query({
      operation: "HistoryStore.queueDeletion",
      text: "insert into history_deletions (project_id) values ($1::bigint) on conflict do nothing",
      parameters: [project]
    })
  ).pipe(Effect.asVoid)

const readText = (table: string): string => `
select metric, (extract(epoch from bucket) * 1000)::float8 as bucket_millis,
  minimum::text, maximum::text, total::text, samples
from ${table}
where project_id = $1::bigint and metric = any($2::text[])
  and bucket >= to_timestamp($3::bigint / 1000.0) and bucket < to_timestamp($4::bigint / 1000.0)
order by bucket, metric limit $5::bigint`

const tables = { minute: "resource_samples", hour: "resource_rollups" } as const
const decodeMetric = Schema.decodeUnknownSync(Metric)

const pointOf = (row: SqlRow): HistoryPoint => ({
  metric: decodeMetric(row["metric"]),
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
      text: readText(tables[range.resolution]),
      parameters: [
        project,
        range.metrics,
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
  Layer.succeed(HistoryStore, { append, prune, queueDeletion })
)
