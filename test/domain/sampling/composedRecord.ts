/**
 * The reference of sampling: one sample in one transaction, step by step, with the arithmetic of History.ts. The
 * product has one statement for many samples; tests hold the two to the same answers and the same rows.
 */
import * as Effect from "effect/Effect"
import {
  bucketOf,
  mergeRollups,
  type Metric,
  metrics,
  type Rollup,
  rollupOf
} from "../../../src/domain/history/History.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import type { Sample } from "../../../src/domain/sampling/Sample.ts"
import { sqlInside } from "../leases/fixture.ts"

/** How many samples it has, and what those of them that have a figure come to. */
interface Bucket {
  readonly samples: number
  readonly rollups: ReadonlyMap<Metric, Rollup>
}

const merge = (one: Bucket, other: Bucket): Bucket => {
  const rollups = new Map(one.rollups)
  for (const [metric, rollup] of other.rollups) {
    const known = rollups.get(metric)
    rollups.set(metric, known === undefined ? rollup : mergeRollups(known, rollup))
  }
  return { samples: one.samples + other.samples, rollups }
}

/** A bucket from its array: the samples, then minimum, maximum, total and missed samples of each metric. */
const bucketFrom = (stored: unknown): Bucket => {
  const [samples, ...all] = stored as ReadonlyArray<bigint | null>
  const rollups = new Map<Metric, Rollup>()
  for (const [at, metric] of metrics.entries()) {
    const [minimum, maximum, total, missed] = all.slice(4 * at, 4 * at + 4)
    if (minimum === null || minimum === undefined) continue
    rollups.set(metric, {
      minimum: Number(minimum),
      maximum: Number(maximum),
      total: total ?? 0n,
      samples: Number(samples) - Number(missed ?? 0)
    })
  }
  return { samples: Number(samples), rollups }
}

const arrayText = (elements: ReadonlyArray<unknown>): string =>
  `{${elements.map((element) => element ?? "NULL").join(",")}}`

const bucketText = ({ rollups, samples }: Bucket): string =>
  arrayText([
    samples,
    ...metrics.flatMap((metric) => {
      const rollup = rollups.get(metric)
      return rollup === undefined
        ? [null, null, null, null]
        : [rollup.minimum, rollup.maximum, rollup.total, samples - rollup.samples || null]
    })
  ])

/** Puts a closed bucket into the history, row by row, and adds it to what is there. */
const close = (table: string, project: number, startMillis: number, bucket: Bucket) =>
  Effect.forEach(
    bucket.rollups,
    ([metric, { maximum, minimum, samples, total }]) =>
      sqlInside(
        `insert into ${table} as h (project_id, metric, bucket, minimum, maximum, total, samples)
          values ($1::bigint, $2::int, to_timestamp($3::bigint / 1000.0), $4::bigint, $5::bigint, $6::bigint, $7::int)
          on conflict (project_id, metric, bucket) do update set minimum = least(h.minimum, excluded.minimum),
            maximum = greatest(h.maximum, excluded.maximum), total = h.total + excluded.total,
            samples = h.samples + excluded.samples`,
        [project, metrics.indexOf(metric) + 1, startMillis, minimum, maximum, total, samples]
      ),
    { discard: true }
  )

const millisOf = (value: unknown): number | null => (value === null ? null : (value as Date).getTime())

const record = Effect.fnUntraced(function* (sample: Sample) {
  const { measured, project, startedAtMillis } = sample
  const [row] = yield* sqlInside("select * from runtimes where project_id = $1::bigint for update", [project])
  const sampledAt = row === undefined ? null : millisOf(row["sample_started_at"])
  if (
    row === undefined ||
    Number(row["generation"]) !== sample.generation ||
    Number(row["refresh_epoch"]) !== sample.refreshEpoch ||
    row["observed"] === "deleted" ||
    (sampledAt !== null && sampledAt >= startedAtMillis)
  ) {
    return false
  }
  const readings = (row["readings"] ?? []) as ReadonlyArray<bigint | null>
  const dates = (row["measured"] ?? []) as ReadonlyArray<bigint | null>
  const openMinute = millisOf(row["open_minute"])
  const minute = bucketOf("minute", startedAtMillis)
  const rollups = new Map([...measured].map(([metric, value]) => [metric, rollupOf(value)] as const))
  let filling: Bucket = { samples: 1, rollups }
  let openHour = millisOf(row["open_hour"])
  let hour = openHour === null ? null : bucketFrom(row["hour"])
  if (openMinute === minute) filling = merge(bucketFrom(row["minute"]), filling)
  else if (openMinute !== null) {
    const closed = bucketFrom(row["minute"])
    yield* close("resource_samples", project, openMinute, closed)
    const closedHour = bucketOf("hour", openMinute)
    if (openHour !== null && hour !== null && openHour < closedHour) {
      yield* close("resource_rollups", project, openHour, hour)
      hour = null
    }
    hour = hour === null ? closed : merge(hour, closed)
    openHour = closedHour
  }
  const before = metrics.map((metric, at) =>
    measured.has(metric) || (readings[at] ?? null) === null ? null : (dates[at] ?? sampledAt)
  )
  yield* sqlInside(
    `update runtimes set sample_epoch = $2::bigint, sample_started_at = to_timestamp($3::bigint / 1000.0),
      readings = $4::text::bigint[], measured = $5::text::bigint[], open_minute = to_timestamp($6::bigint / 1000.0),
      minute = $7::text::bigint[], open_hour = to_timestamp($8::bigint / 1000.0), hour = $9::text::bigint[]
      where project_id = $1::bigint`,
    [
      project,
      sample.refreshEpoch,
      startedAtMillis,
      arrayText(metrics.map((metric, at) => measured.get(metric) ?? readings[at])),
      before.every((date) => date === null) ? null : arrayText(before),
      minute,
      bucketText(filling),
      openHour,
      hour === null ? null : bucketText(hour)
    ]
  )
  return true
})

/** Records one sample in a transaction of several statements; answers whether it was accepted. */
export const composedRecord = (sample: Sample) =>
  PluginDb.use((db) => db.transaction("test.composedRecord", record(sample)))
