/** Recording a sample: validation before, then all of it in one statement, or nothing; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sampleFutureMillisMax } from "../../../src/domain/Bounds.ts"
import { metrics } from "../../../src/domain/history/History.ts"
import { Generation, type ProjectId } from "../../../src/domain/Identity.ts"
import { recordSample } from "../../../src/domain/sampling/refresh.ts"
import type { MetricReading } from "../../../src/domain/sampling/MetricReading.ts"
import type { SampleCandidate } from "../../../src/domain/sampling/Sample.ts"
import { SampleTargets } from "../../../src/domain/sampling/SampleStore.ts"
import { breakTable, countingFixture, onClone, seedRuntime, sql } from "../leases/fixture.ts"
import { baseMillis, candidate, everythingStored } from "./samples.ts"

/** A minute of one hour, and one that is open in the next: the sample after closes both the second minute and the hour. */
const fillAnHour = Effect.fnUntraced(function* (project: ProjectId) {
  for (const startedAtMillis of [baseMillis, baseMillis + 30 * 60_000]) {
    yield* recordSample(project, candidate({ startedAtMillis, nowMillis: startedAtMillis }))
  }
})

const closing = candidate({ startedAtMillis: baseMillis + 31 * 60_000, nowMillis: baseMillis + 31 * 60_000 })

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

  it.live("SP-RES-02 the sample, the minute and the hour that it closes are written by one transaction", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      yield* fillAnHour(project)
      assert.lengthOf((yield* everythingStored).closed, 2, "a minute was closed, and no hour")
      yield* recordSample(project, closing)
      const writers = yield* sql(`select xmin::text as writer from runtimes
        union select xmin::text from resource_samples where bucket = '2026-01-15 13:00+00'
        union select xmin::text from resource_rollups`)
      assert.lengthOf(writers, 1)
      assert.lengthOf((yield* everythingStored).closed, 6)
    }).pipe(onClone)
  )

  it.live("SP-RES-02 readers see the minute and the hour that are being filled", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      yield* recordSample(project, candidate())
      const { closed, hours, minutes } = yield* everythingStored
      assert.lengthOf(closed, 0)
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
    "SP-RES-03 SP-TEST-03 a failure at %s leaves sample, minutes and hours as they were",
    (table) =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime()
        yield* fillAnHour(project)
        const before = yield* everythingStored
        const { mend } = yield* breakTable(table, "insert")
        assert.deepInclude(yield* Effect.flip(recordSample(project, closing)), { code: "storage_failure" })
        yield* mend
        assert.deepStrictEqual(yield* everythingStored, before)
        yield* recordSample(project, closing)
        assert.notDeepEqual(yield* everythingStored, before)
      }).pipe(onClone)
  )

  it.live(
    "a figure that was not measured stays null, and an older one stays and is marked stale: never 0",
    () =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime()
        const targets = yield* SampleTargets
        assert.deepStrictEqual(yield* targets.latest(project), Option.none())
        yield* recordSample(project, candidate({ values: { pids: 3, disk_bytes: null } }))
        const second = baseMillis + 10_000
        yield* recordSample(project, candidate({ startedAtMillis: second, values: { pids: null } }))
        const stored = Option.getOrThrow(yield* targets.latest(project))
        assert.strictEqual(stored.startedAtMillis, second)
        assert.deepStrictEqual(stored.readings.pids, {
          state: "ready",
          isStale: true,
          value: 3,
          measuredAtMillis: baseMillis
        })
        const never: MetricReading = {
          state: "unavailable",
          isStale: false,
          value: null,
          measuredAtMillis: null
        }
        assert.deepStrictEqual(stored.readings.disk_bytes, never)
        assert.deepStrictEqual(Object.keys(stored.readings).toSorted(), [...metrics].toSorted())
        assert.deepStrictEqual(
          (yield* everythingStored).minutes.map((row) => [row["metric"], row["samples"]]),
          [["pids", 1]]
        )
        yield* recordSample(project, candidate({ startedAtMillis: second + 1, values: { pids: 0 } }))
        const zero = Option.getOrThrow(yield* targets.latest(project)).readings.pids
        assert.deepStrictEqual(zero, {
          state: "ready",
          isStale: false,
          value: 0,
          measuredAtMillis: second + 1
        })
      }).pipe(onClone)
  )

  it.live(
    "figures of a machine that is gone are stopped and stale, and those of the next run are its own",
    () =>
      Effect.gen(function* () {
        const { project } = yield* seedRuntime()
        const { latest } = yield* SampleTargets
        const pids = Effect.map(latest(project), (sample) => Option.getOrThrow(sample).readings.pids)
        const figure = { value: 3, measuredAtMillis: baseMillis }
        yield* recordSample(project, candidate({ values: { pids: 3 } }))
        assert.deepStrictEqual(yield* pids, { state: "ready", isStale: false, ...figure })
        yield* sql("update runtimes set observed = 'stopped', refresh_epoch = 1")
        assert.deepStrictEqual(yield* pids, { state: "stopped", isStale: true, ...figure })
        yield* sql("update runtimes set observed = 'running', refresh_epoch = 2")
        assert.deepStrictEqual(yield* pids, { state: "sampling", isStale: true, ...figure })
        const next = candidate({ refreshEpoch: 2, startedAtMillis: baseMillis + 1, values: { pids: 4 } })
        yield* recordSample(project, next)
        assert.deepStrictEqual(yield* pids, {
          state: "ready",
          isStale: false,
          value: 4,
          measuredAtMillis: baseMillis + 1
        })
      }).pipe(onClone)
  )
})
