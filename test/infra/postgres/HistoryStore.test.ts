/** The history's tables and views: natural keys, buckets that are closed twice, and reads of a range; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Metric } from "../../../src/domain/history/History.ts"
import { HistoryReader } from "../../../src/domain/history/HistoryStore.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { recordSample } from "../../../src/domain/sampling/refresh.ts"
import { onClone, seedRuntime, sql } from "../../domain/leases/fixture.ts"
import { baseMillis, candidate, everythingStored } from "../../domain/sampling/samples.ts"

/** Records a sample under the epoch that the runtime has by now. */
const append = Effect.fnUntraced(function* (
  project: ProjectId,
  startedAtMillis: number,
  values: ReadonlyArray<[Metric, number]>
) {
  const [row] = yield* sql("select refresh_epoch::int as epoch from runtimes where project_id = $1::bigint", [
    project
  ])
  yield* recordSample(
    project,
    candidate({
      refreshEpoch: Number(row?.["epoch"]),
      startedAtMillis,
      nowMillis: startedAtMillis,
      values: Object.fromEntries(values)
    })
  )
})

/** What stops, starts or replaces a machine does this in its statement. */
const closeBuckets = sql("update runtimes set refresh_epoch = refresh_epoch + 1")

describe("HistoryStore", () => {
  it.live("SP-RES-05 a bucket that is closed again is merged into its row, in minutes and in hours", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      yield* append(project, baseMillis, [["pids", 5]])
      yield* closeBuckets
      yield* append(project, baseMillis + 59_999, [["pids", 2]])
      assert.lengthOf((yield* everythingStored).closed, 2)
      yield* append(project, baseMillis + 60_000, [["pids", 9]])
      assert.lengthOf((yield* everythingStored).closed, 2, "the minute went into the row that was there")
      yield* closeBuckets
      const { closed, hours, minutes } = yield* everythingStored
      assert.lengthOf(closed, minutes.length + hours.length, "nothing is open")
      const row = { project, metric: "pids" }
      assert.deepStrictEqual(minutes, [
        { ...row, bucket: baseMillis, minimum: 2, maximum: 5, total: 7, samples: 2 },
        { ...row, bucket: baseMillis + 60_000, minimum: 9, maximum: 9, total: 9, samples: 1 }
      ])
      assert.deepStrictEqual(hours, [
        { ...row, bucket: baseMillis - 30 * 60_000, minimum: 2, maximum: 9, total: 16, samples: 3 }
      ])
    }).pipe(onClone)
  )

  it.live.each(["resource_samples", "resource_rollups"])(
    "SP-RES-05 %s are unique on Project, metric and bucket, and have a unique identity",
    (table) =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime()
        yield* append(project, baseMillis, [["pids", 5]])
        yield* closeBuckets
        const doubled = (identity: string, metric: number) =>
          Effect.flip(
            sql(`insert into ${table} (id, project_id, metric, bucket, minimum, maximum, total, samples)
              overriding system value
              select ${identity}, project_id, ${metric}, bucket, 1, 1, 1, 1 from ${table}`)
          )
        assert.deepInclude(yield* doubled("id + 1000", 9), { state: "23505" })
        assert.deepInclude(yield* doubled("id", 1), { state: "23505" })
      }).pipe(onClone)
  )

  it.live("reads the points of a range in the order of their buckets, with exact totals", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime("one")
      const other = yield* seedRuntime("other")
      const large = Number.MAX_SAFE_INTEGER
      yield* append(project, baseMillis, [["cpu_usec", large]])
      yield* append(project, baseMillis + 1, [
        ["cpu_usec", large],
        ["pids", 1]
      ])
      yield* append(project, baseMillis + 60_000, [
        ["cpu_usec", 1],
        ["disk_bytes", 7]
      ])
      yield* append(other.project, baseMillis, [["cpu_usec", 4]])
      const reader = yield* HistoryReader
      const range = { metrics: ["cpu_usec", "pids"], resolution: "minute", fromMillis: baseMillis } as const
      const first = yield* reader.read(project, { ...range, toMillis: baseMillis + 60_000 })
      assert.deepStrictEqual(first, [
        {
          metric: "cpu_usec",
          bucketMillis: baseMillis,
          minimum: large,
          maximum: large,
          total: 2n * BigInt(large),
          samples: 2
        },
        { metric: "pids", bucketMillis: baseMillis, minimum: 1, maximum: 1, total: 1n, samples: 1 }
      ])
      const both = yield* reader.read(project, { ...range, toMillis: baseMillis + 60_001 })
      assert.deepStrictEqual(
        both.map((point) => point.bucketMillis),
        [baseMillis, baseMillis, baseMillis + 60_000]
      )
    }).pipe(onClone)
  )
})
