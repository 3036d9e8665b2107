/** Recording a sample: validation before, compare and set, history on the same handle, or nothing; on a clone. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Arbitrary from "effect/Arbitrary"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sampleFutureMillisMax } from "../../../src/domain/Bounds.ts"
import {
  bucketOf,
  mergeRollups,
  metrics,
  type Rollup,
  rollupOf
} from "../../../src/domain/history/History.ts"
import { HistoryStore } from "../../../src/domain/history/HistoryStore.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import { recordSample } from "../../../src/domain/sampling/refresh.ts"
import type { PluginDb, StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import type { MetricReading, SampleCandidate } from "../../../src/domain/sampling/Sample.ts"
import { SampleTargets } from "../../../src/domain/sampling/SnapshotStore.ts"
import { breakTable, countingFixture, fixture, onClone, seedRuntime, sql } from "../leases/fixture.ts"
import { baseMillis, candidate, everythingStored } from "./samples.ts"

describe("recordSample", () => {
  it.live("SP-RES-01 every bad sample is refused by what is bad about it and opens no transaction", () => {
    const { calls, layer: counting, reset } = countingFixture()
    const table: ReadonlyArray<readonly [string, Partial<SampleCandidate>]> = [
      ["pids", { values: { pids: Number.NaN } }],
      ["cpu_usec", { values: { cpu_usec: Number.POSITIVE_INFINITY } }],
      ["memory_bytes", { values: { memory_bytes: -1 } }],
      ["pids", { values: { pids: 1.5 } }],
      ["disk_bytes", { values: { disk_bytes: 2 ** 53 } }],
      ["metric", { values: { gpu_usec: 1 } }],
      ["startedAt", { startedAtMillis: Number.NaN }],
      ["startedAt", { startedAtMillis: baseMillis + 1_000 + sampleFutureMillisMax + 1 }],
      ["refreshEpoch", { refreshEpoch: 0.5 }]
    ]
    return Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      for (const [field, bad] of table) {
        reset()
        const refusal = yield* Effect.flip(recordSample(project, candidate(bad)))
        assert.deepInclude(refusal, { code: "sample_refused", field, project })
        assert.deepStrictEqual(calls, { queries: 0, transactions: 0 })
      }
    }).pipe(Effect.scoped, Effect.provide(counting))
  })

  it.live("a sample at the very edge of the future is taken", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      yield* recordSample(project, candidate({ startedAtMillis: baseMillis + 1_000 + sampleFutureMillisMax }))
      assert.lengthOf((yield* everythingStored).minutes, 2)
    }).pipe(onClone)
  )

  it.live("SP-RES-02 snapshot, minute and hour are written by one and the same transaction", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      yield* recordSample(project, candidate())
      const writers = yield* sql(`select xmin::text as writer from runtimes
        union select xmin::text from resource_samples union select xmin::text from resource_rollups`)
      assert.lengthOf(writers, 1)
      const { hours, minutes } = yield* everythingStored
      const row = (metric: string, value: number, bucket: number) => ({
        project,
        metric,
        bucket,
        minimum: value,
        maximum: value,
        total: value,
        samples: 1
      })
      const hour = Date.UTC(2026, 0, 15, 12)
      assert.deepStrictEqual(minutes, [row("cpu_usec", 100, baseMillis), row("pids", 3, baseMillis)])
      assert.deepStrictEqual(hours, [row("cpu_usec", 100, hour), row("pids", 3, hour)])
    }).pipe(onClone)
  )

  it.live(
    "SP-RES-04 a sample of another generation or epoch, or begun no later, is stale and writes nothing",
    () =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime()
        yield* sql("update runtimes set generation = 2, refresh_epoch = 7")
        const current = { generation: Generation.make(2), refreshEpoch: 7 }
        const later = { ...current, startedAtMillis: baseMillis + 500, values: { pids: 9 } }
        yield* recordSample(project, candidate(current))
        const before = yield* everythingStored
        const table: ReadonlyArray<Partial<SampleCandidate>> = [
          { generation: Generation.make(1) },
          { generation: Generation.make(3) },
          { refreshEpoch: 6 },
          { refreshEpoch: 8 },
          { startedAtMillis: baseMillis - 1 },
          { startedAtMillis: baseMillis }
        ]
        for (const stale of table) {
          const refusal = yield* Effect.flip(recordSample(project, candidate({ ...later, ...stale })))
          assert.deepInclude(refusal, { code: "sample_stale", project })
          assert.deepStrictEqual(yield* everythingStored, before)
        }
        yield* recordSample(project, candidate(later))
        assert.notDeepEqual(yield* everythingStored, before)
      }).pipe(onClone)
  )

  it.live.each(["resource_samples", "resource_rollups"])(
    "SP-RES-03 SP-TEST-03 a failure at %s leaves snapshot, minutes and hours as they were",
    (table) =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime()
        yield* recordSample(project, candidate())
        const before = yield* everythingStored
        const { mend } = yield* breakTable(table, "insert")
        const next = candidate({ startedAtMillis: baseMillis + 60_000 })
        assert.deepInclude(yield* Effect.flip(recordSample(project, next)), { code: "storage_failure" })
        yield* mend
        assert.deepStrictEqual(yield* everythingStored, before)
      }).pipe(onClone)
  )

  it.live("SP-RES-03 a callback that fails after its last append takes everything back", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      const before = yield* everythingStored
      const failing = Effect.updateService(HistoryStore, (store) => ({
        ...store,
        append: (...sample) => Effect.andThen(store.append(...sample), Effect.die("after the append"))
      }))
      yield* Effect.exit(recordSample(project, candidate()).pipe(failing))
      assert.deepStrictEqual(yield* everythingStored, before)
    }).pipe(onClone)
  )

  it.live(
    "a figure that was not measured stays null, and an older one stays and is marked stale: never 0",
    () =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime()
        const targets = yield* SampleTargets
        assert.deepStrictEqual(yield* targets.snapshot(project), Option.none())
        yield* recordSample(project, candidate({ values: { pids: 3, disk_bytes: null } }))
        const second = baseMillis + 10_000
        yield* recordSample(project, candidate({ startedAtMillis: second, values: { pids: null } }))
        const stored = Option.getOrThrow(yield* targets.snapshot(project))
        assert.strictEqual(stored.startedAtMillis, second)
        assert.deepStrictEqual(stored.readings.pids, {
          state: "stale",
          value: 3,
          measuredAtMillis: baseMillis
        })
        const never: MetricReading = { state: "unavailable", value: null, measuredAtMillis: null }
        assert.deepStrictEqual(stored.readings.disk_bytes, never)
        assert.deepStrictEqual(Object.keys(stored.readings).toSorted(), [...metrics].toSorted())
        assert.deepStrictEqual(
          (yield* everythingStored).minutes.map((row) => [row["metric"], row["samples"]]),
          [["pids", 1]]
        )
        yield* recordSample(project, candidate({ startedAtMillis: second + 1, values: { pids: 0 } }))
        const zero = Option.getOrThrow(yield* targets.snapshot(project)).readings.pids
        assert.deepStrictEqual(zero, { state: "ready", value: 0, measuredAtMillis: second + 1 })
      }).pipe(onClone)
  )
})

const Figure = Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 })))

/** A sample by its distance from the one that arrived before: most come in order, some too late, some in a new hour. */
const Arrival = Schema.Struct({
  stepSeconds: Schema.Union([
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 })),
    Schema.Int.check(Schema.isBetween({ minimum: -60, maximum: 60 })),
    Schema.Int.check(Schema.isBetween({ minimum: 600, maximum: 3_600 }))
  ]),
  values: Schema.Struct({ cpu_usec: Figure, pids: Figure, io_read_bytes: Figure })
})

const addTo = (buckets: Map<string, Rollup>, key: string, value: number): void => {
  const known = buckets.get(key)
  buckets.set(key, known === undefined ? rollupOf(value) : mergeRollups(known, rollupOf(value)))
}

const storedBuckets = (
  table: string,
  project: number
): Effect.Effect<Map<string, unknown>, StorageFailure, PluginDb> =>
  Effect.map(
    sql(
      `select metric || ' ' || (extract(epoch from bucket) * 1000)::bigint as key,
        minimum::int, maximum::int, total, samples from ${table} where project_id = $1::bigint`,
      [project]
    ),
    (rows) => new Map(rows.map(({ key, ...rollup }) => [String(key), rollup]))
  )

layer(fixture, { excludeTestServices: true, timeout: 30_000 })("rollups", (suite) => {
  let runs = 0
  suite.effect.prop(
    "SP-RES-06 minutes and hours equal what a recomputation from all accepted samples gives",
    { arrivals: Arbitrary.array(Arbitrary.schema(Arrival), { minLength: 1, maxLength: 14 }) },
    ({ arrivals }) =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime(`run-${(runs += 1)}`)
        const minutes = new Map<string, Rollup>()
        const hours = new Map<string, Rollup>()
        let startedAtMillis = baseMillis
        for (const { stepSeconds, values } of arrivals) {
          startedAtMillis += stepSeconds * 1_000
          const recorded = yield* recordSample(
            project,
            candidate({ startedAtMillis, nowMillis: startedAtMillis, values })
          ).pipe(Effect.result)
          if (Result.isFailure(recorded)) {
            assert.strictEqual(recorded.failure._tag, "SampleStale")
            continue
          }
          for (const [metric, value] of Object.entries(values)) {
            if (value === null) continue
            addTo(minutes, `${metric} ${bucketOf("minute", startedAtMillis)}`, value)
            addTo(hours, `${metric} ${bucketOf("hour", startedAtMillis)}`, value)
          }
        }
        assert.deepStrictEqual(
          yield* storedBuckets("resource_samples", project),
          new Map<string, unknown>(minutes)
        )
        assert.deepStrictEqual(
          yield* storedBuckets("resource_rollups", project),
          new Map<string, unknown>(hours)
        )
      }),
    { arbitrary: { runs: 25 }, timeout: 30_000 }
  )
})
