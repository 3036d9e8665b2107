/**
 * Adapter of the stored sample, which lives in the runtime's row together with the minute and the hour that are being
 * filled: 0021_history.ts draws the columns. `refresh_epoch` grows whenever samples under way have to become stale,
 * and a trigger closes what is open then; `sample_started_at` only ever grows.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sampleBatchMax, sampleTargetsMax } from "../../domain/Bounds.ts"
import { type Metric, metrics } from "../../domain/history/History.ts"
import { Generation, type NodeId, type ProjectId, SandboxId } from "../../domain/Identity.ts"
import { PluginDb, type Query, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import { RuntimeObserved } from "../../domain/runtimes/Runtime.ts"
import { type LatestSample, stateOf } from "../../domain/sampling/MetricReading.ts"
import type { Sample } from "../../domain/sampling/Sample.ts"
import { SampleStore, SampleTargets } from "../../domain/sampling/SampleStore.ts"
import { insertClosedText, mergeClosedText } from "./closedBuckets.ts"

type Db = PluginDb["Service"]

/** The figures come as an array a metric: as one a sample they would have to be taken apart, half of the statement's time. */
const figures = metrics.map((_, at) => `figure_${at + 1}`)
const figureArrays = metrics.map((_, at) => `$${at + 6}::bigint[]`)

/** The bucket of one sample. */
const bucketOfOne = ["1", ...figures.map((each) => `${each}, ${each}, ${each}, null`)]

/**
 * One statement for a batch. Rows that nobody holds are locked and read as they are then; what follows is decided by
 * them alone, also where the statement's own snapshot is older. The minute that a sample leaves goes to the history, is
 * added to its hour, and takes the hour before that one with it. Nothing waits, but for a prune pass that is just
 * removing the very bucket that is closed.
 *
 * A minute can be in the history already only where a new epoch has closed it and samples have opened it again. All
 * others are inserted without a look. $1 has every one of them looked for: so a batch of one is recorded, which is what
 * a batch that failed is repeated as.
 */
const recordManyText = `
with given as materialized (
  select project_id, generation, refresh_epoch,
    (timestamptz 'epoch' + started * interval '1 millisecond')::timestamptz(3) as started_at,
    array[${figures.join(", ")}] as figures, array[${bucketOfOne.join(", ")}] as sample
  from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], ${figureArrays.join(", ")})
    as given (project_id, generation, refresh_epoch, started, ${figures.join(", ")})
), locked as materialized (
  select r.project_id, given.started_at, given.refresh_epoch, given.figures, given.sample,
    r.generation = given.generation and r.refresh_epoch = given.refresh_epoch and r.observed <> 'deleted'
      and (r.sample_started_at is null or r.sample_started_at < given.started_at) as is_fresh,
    date_bin('1 minute', given.started_at, timestamptz 'epoch') as next_minute,
    coalesce(r.open_minute = date_bin('1 minute', given.started_at, timestamptz 'epoch'), false) as stays,
    coalesce(r.open_minute < date_bin('1 minute', given.started_at, timestamptz 'epoch'), false) as closes,
    date_bin('1 hour', r.open_minute, timestamptz 'epoch') as closed_hour,
    $1::boolean or coalesce(r.open_minute = r.closed_minute, false) as reopened,
    (extract(epoch from r.sample_started_at) * 1000)::bigint as sampled, r.readings, r.measured,
    r.open_minute, r.minute, r.open_hour, r.hour
  from given join runtimes r on r.project_id = given.project_id
  order by r.project_id for no key update of r skip locked
), minutes as (${insertClosedText(
  "resource_samples",
  "select project_id, open_minute, minute from locked where is_fresh and closes and not reopened"
)}
), minutes_again as (${mergeClosedText(
  "resource_samples",
  "select project_id, open_minute, minute from locked where is_fresh and closes and reopened"
)}
), hours as (${mergeClosedText(
  "resource_rollups",
  "select project_id, open_hour, hour from locked where is_fresh and closes and open_hour < closed_hour"
)}
), recorded as (
  update runtimes r set
    sample_epoch = l.refresh_epoch,
    sample_started_at = l.started_at,
    readings = first_of(l.figures, l.readings),
    measured = nullif(measured_before(l.figures, l.readings, l.measured, l.sampled),
      array_fill(null::bigint, array[${metrics.length}])),
    open_minute = l.next_minute,
    minute = case when l.stays then merged_buckets(l.minute, l.sample) else l.sample end,
    open_hour = case when l.closes then l.closed_hour else l.open_hour end,
    hour = case when not l.closes then l.hour
      when l.open_hour = l.closed_hour then merged_buckets(l.hour, l.minute) else l.minute end
  from locked l where r.project_id = l.project_id and l.is_fresh
)
select array_agg(given.project_id) filter (where l.is_fresh) as accepted,
  array_agg(given.project_id) filter (where l.project_id is null
    and exists (select from runtimes r where r.project_id = given.project_id)) as busy
from given left join locked l on l.project_id = given.project_id`

/** One metric of all samples. Null where none has a figure: the driver finds no type for nulls alone. */
const figuresOf = (samples: ReadonlyArray<Sample>, metric: Metric): ReadonlyArray<bigint | null> | null => {
  const measured = samples.map((sample) => sample.measured.get(metric))
  return measured.every((value) => value === undefined)
    ? null
    : measured.map((value) => (value === undefined ? null : BigInt(value)))
}

const recordManyQuery = (samples: ReadonlyArray<Sample>): Query => ({
  operation: "SampleStore.recordMany",
  text: recordManyText,
  parameters: [
    samples.length === 1,
    samples.map(({ project }) => BigInt(project)),
    samples.map(({ generation }) => BigInt(generation)),
    samples.map(({ refreshEpoch }) => BigInt(refreshEpoch)),
    samples.map(({ startedAtMillis }) => BigInt(startedAtMillis)),
    ...metrics.map((metric) => figuresOf(samples, metric))
  ]
})

// A stored id is one that ProjectId let in.
const projectsOf = (ids: unknown): ReadonlySet<ProjectId> =>
  new Set(((ids ?? []) as ReadonlyArray<bigint>).map((id) => Number(id) as ProjectId))

const recordMany = (db: Db) => (samples: ReadonlyArray<Sample>) =>
  samples.length > sampleBatchMax || new Set(samples.map(({ project }) => project)).size < samples.length
    ? Effect.die(new Error(`a batch is at most ${sampleBatchMax} samples of different projects`))
    : Effect.map(db.query(recordManyQuery(samples)), ([row]) => ({
        accepted: projectsOf(row?.["accepted"]),
        busy: projectsOf(row?.["busy"])
      }))

const decodeSandbox = Schema.decodeUnknownSync(SandboxId)
const decodeGeneration = Schema.decodeUnknownSync(Generation)
const decodeObserved = Schema.decodeUnknownSync(RuntimeObserved)

const targetOf = (row: SqlRow) => ({
  // A stored id is one that ProjectId let in.
  project: Number(row["project_id"]) as ProjectId,
  generation: decodeGeneration(Number(row["generation"])),
  refreshEpoch: Number(row["refresh_epoch"]),
  sandbox: decodeSandbox(row["sandbox_id"])
})

/** The clock is read with the targets; the left join answers it where there is no target. */
const runningText = `
select floor(extract(epoch from clock_timestamp()) * 1000)::float8 as now_millis,
  t.project_id, t.generation, t.refresh_epoch, t.sandbox_id
from (select) one left join (
  select project_id, generation, refresh_epoch, sandbox_id from runtimes
  where node_id = $1::uuid and observed = 'running' and sandbox_id is not null
  order by sample_started_at nulls first, project_id limit ${sampleTargetsMax}) t on true`

const running = (db: Db) => (node: NodeId) =>
  db.query({ operation: "SampleTargets.running", text: runningText, parameters: [node] }).pipe(
    Effect.map((rows) => ({
      nowMillis: Number(rows[0]?.["now_millis"]),
      targets: rows.filter((row) => row["project_id"] !== null).map(targetOf)
    }))
  )

const latestText = `
select observed, readings, measured, refresh_epoch = sample_epoch as is_of_this_run,
  (extract(epoch from sample_started_at) * 1000)::bigint as sampled
from runtimes where project_id = $1::bigint and sample_started_at is not null`

const numberAt = (array: unknown, at: number): number | null => {
  const element = (array as ReadonlyArray<bigint | null> | null)?.[at] ?? null
  return element === null ? null : Number(element)
}

const latestOf = (row: SqlRow): LatestSample => {
  const observed = decodeObserved(row["observed"])
  const startedAtMillis = Number(row["sampled"])
  const sampledAtMillis = row["is_of_this_run"] === true ? startedAtMillis : null
  const readings = metrics.map((metric, at) => {
    const value = numberAt(row["readings"], at)
    const measuredAtMillis = value === null ? null : (numberAt(row["measured"], at) ?? startedAtMillis)
    const state = stateOf({ observed, value, measuredAtMillis, sampledAtMillis })
    return [metric, { ...state, value, measuredAtMillis }] as const
  })
  // Every metric is among them.
  return { startedAtMillis, readings: Object.fromEntries(readings) as LatestSample["readings"] }
}

const latest = (db: Db) => (project: ProjectId) =>
  Effect.map(
    db.query({ operation: "SampleTargets.latest", text: latestText, parameters: [project] }),
    ([row]) => Option.map(Option.fromNullishOr(row), latestOf)
  )

const store = Layer.effect(
  SampleStore,
  PluginDb.use((db) => Effect.sync(() => SampleStore.of({ recordMany: recordMany(db) })))
)

const targets = Layer.effect(
  SampleTargets,
  PluginDb.use((db) => Effect.sync(() => SampleTargets.of({ running: running(db), latest: latest(db) })))
)

/** Both ports of the stored sample on the plugin's schema. */
export const layer: Layer.Layer<SampleStore | SampleTargets, never, PluginDb> = Layer.merge(store, targets)
