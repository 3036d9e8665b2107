/**
 * Sixty days of sampling, a day at a time. Expiry is by the database's clock, so it is not the clock that goes on: after
 * each day everything that is stored is moved a day into the past, which is the same to every statement. Source: FC-15.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { hourHistorySeconds, minuteHistorySeconds } from "../../../src/domain/Bounds.ts"
import { bucketOf, type Resolution } from "../../../src/domain/history/History.ts"
import { pruneHistory } from "../../../src/domain/history/maintenance.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { SampleStore } from "../../../src/domain/sampling/SampleStore.ts"
import { onClone, seedRuntime, sql } from "../leases/fixture.ts"
import { sampleOf } from "../sampling/samples.ts"

const dayMillis = 24 * 3_600_000
const hourMillis = 3_600_000
const days = 60

/** Moves the world a day back. By two steps, so that no bucket meets another one on its way. */
const nextDay = Effect.gen(function* () {
  for (const table of ["resource_samples", "resource_rollups"]) {
    yield* sql(`update ${table} set bucket = bucket - interval '100001 days'`)
    yield* sql(`update ${table} set bucket = bucket + interval '100000 days'`)
  }
  yield* sql(`update runtimes set sample_started_at = sample_started_at - interval '1 day',
    open_minute = open_minute - interval '1 day', open_hour = open_hour - interval '1 day',
    closed_minute = closed_minute - interval '1 day'`)
})

/** The edges of a day that ends now: its first minutes, ends and begins of hours and minutes, and its last moment. */
const edgesOf = (nowMillis: number): ReadonlyArray<number> => {
  const hour = bucketOf("hour", nowMillis)
  const around = [18, 12, 6].map((before) => hour - before * hourMillis)
  return [
    nowMillis - dayMillis + 3 * 60_000,
    ...around.flatMap((edge) => [edge - 1, edge, edge + 59_999, edge + 60_000]),
    nowMillis
  ]
}

const kept: Readonly<Record<Resolution, number>> = {
  minute: minuteHistorySeconds * 1_000,
  hour: hourHistorySeconds * 1_000
}

const storedBuckets = (table: string) =>
  Effect.map(
    sql(`select distinct (extract(epoch from bucket) * 1000)::float8 as bucket from ${table} order by 1`),
    (rows) => rows.map(({ bucket }) => Number(bucket))
  )

/** What is just at the edge of its time may be there or not, whatever second it is by now. */
const isClear = (resolution: Resolution, nowMillis: number) => (bucket: number) =>
  Math.abs(bucket - (nowMillis - kept[resolution])) > 60_000

/** Records a day's samples, those of its edges. */
const liveADay = Effect.fnUntraced(function* (project: ProjectId, nowMillis: number) {
  const { recordMany } = yield* SampleStore
  for (const startedAtMillis of edgesOf(nowMillis)) {
    const sample = yield* sampleOf(project, { startedAtMillis, nowMillis, values: { pids: 3, cpu_usec: 9 } })
    assert.isTrue((yield* recordMany([sample])).accepted.has(project))
  }
})

describe("sixty days", () => {
  it.live(
    "SP-RES-09 FC-15 sixty days leave a day of minutes and thirty of hours, no more, and lose none of them",
    () =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime()
        const [row] = yield* sql("select (extract(epoch from now()) * 1000)::float8 as millis")
        const nowMillis = Math.floor(Number(row?.["millis"]))
        const sampled: Array<number> = []
        const sizes: Array<ReadonlyArray<number>> = []
        for (let day = 0; day < days; day += 1) {
          if (day > 0) yield* nextDay
          yield* liveADay(project, nowMillis)
          sampled.splice(0, sampled.length, ...sampled.map((at) => at - dayMillis), ...edgesOf(nowMillis))
          yield* pruneHistory()
          for (const resolution of ["minute", "hour"] as const) {
            const wanted = new Set(sampled.map((at) => bucketOf(resolution, at)))
            const staying = [...wanted].filter((bucket) => bucket > nowMillis - kept[resolution])
            assert.deepStrictEqual(
              (yield* storedBuckets(`${resolution}_history`)).filter(isClear(resolution, nowMillis)),
              staying.filter(isClear(resolution, nowMillis)).toSorted((one, other) => one - other),
              `day ${day}`
            )
          }
          sizes.push([
            (yield* storedBuckets("resource_samples")).length,
            (yield* storedBuckets("resource_rollups")).length
          ])
        }
        const afterAMonth = sizes.slice(31)
        assert.isTrue(
          afterAMonth.every(
            ([minutes, hours]) =>
              Math.abs(minutes! - afterAMonth[0]![0]!) <= 1 && Math.abs(hours! - afterAMonth[0]![1]!) <= 1
          ),
          `rows by day: ${JSON.stringify(sizes)}`
        )
      }).pipe(onClone),
    60_000
  )
})
