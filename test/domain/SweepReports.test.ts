import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as TestClock from "effect/testing/TestClock"
import {
  allDone,
  isWhollyFailed,
  reportSweep,
  reportText,
  type SweepCount,
  SweepReports
} from "../../src/domain/SweepReports.ts"

const reports = Effect.flatMap(SweepReports, ({ all }) => all)

/** The failed rows of the gauge, by sweep. */
const gauges = Effect.map(Metric.snapshot, (metrics) =>
  Object.fromEntries(
    metrics.flatMap(({ attributes, id, state }) =>
      id === "holdfast_sweep_failed" && "value" in state ? [[attributes?.["sweep"], Number(state.value)]] : []
    )
  )
)

const pass = (attempted: number, failed: number) =>
  Effect.succeed({ attempted, done: attempted - failed, failed })

describe("SweepReports", () => {
  it.effect("FC-05 the newest pass of each sweep is told with what it attempted, did and failed at", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* reports, [])
      yield* TestClock.adjust(5_000)
      assert.isTrue(yield* reportSweep("leases", pass(3, 3)))
      assert.isTrue(yield* reportSweep("runtimes", pass(2, 1)))
      yield* TestClock.adjust(5_000)
      yield* reportSweep("leases", Effect.succeed(allDone(4)))
      assert.deepStrictEqual(yield* reports, [
        { sweep: "leases", attempted: 4, done: 4, failed: 0, why: null, atMillis: 10_000 },
        { sweep: "runtimes", attempted: 2, done: 1, failed: 1, why: null, atMillis: 5_000 }
      ])
    }).pipe(Effect.provide(SweepReports.layer))
  )

  it.effect(
    "FC-05 a pass that fails, or dies of a mistake of ours, is a failed one, and the loop goes on",
    () =>
      Effect.gen(function* () {
        assert.isFalse(yield* reportSweep("leases", Effect.fail({ message: "the database is away" })))
        assert.isFalse(yield* reportSweep("runtimes", Effect.die(new Error("canary"))))
        const [leases, runtimes] = yield* reports
        assert.deepInclude(leases, { done: 0, failed: 1, why: "the database is away" })
        assert.deepInclude(runtimes, { done: 0, failed: 1 })
        assert.notInclude(JSON.stringify(yield* reports), "canary")
        assert.isTrue([leases, runtimes].every((report) => report !== undefined && isWhollyFailed(report)))
      }).pipe(Effect.provide(SweepReports.layer))
  )

  it.effect("FC-05 a failure that goes on is logged once, and again when it is another or is back", () =>
    Effect.gen(function* () {
      const logged: Array<string> = []
      const logger = Logger.make(({ message }) => void logged.push(String(message)))
      const run = (sweep: Effect.Effect<SweepCount, { readonly message: string }>) =>
        reportSweep("leases", sweep).pipe(Effect.provide(Logger.layer([logger])))
      const away = Effect.fail({ message: "the database is away" })
      for (const each of [away, away, pass(2, 2), pass(2, 2), away, pass(2, 0), away]) yield* run(each)
      assert.deepStrictEqual(logged, [
        "the sweep of leases failed and will be tried again: the database is away",
        "the sweep of leases: attempted 2, done 0, failed 2",
        "the sweep of leases failed and will be tried again: the database is away",
        "the sweep of leases failed and will be tried again: the database is away"
      ])
    }).pipe(Effect.provide(SweepReports.layer))
  )

  it.effect("a pass that was interrupted is not noted, and the interruption goes through", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(reportSweep("leases", Effect.never), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      assert.deepStrictEqual(yield* reports, [])
    }).pipe(Effect.provide(SweepReports.layer))
  )

  it.effect("FC-05 a metric says how many rows the newest pass failed at", () =>
    Effect.gen(function* () {
      yield* reportSweep("leases", pass(3, 3))
      yield* reportSweep("runtimes", pass(3, 1))
      assert.deepStrictEqual(yield* gauges, { leases: 3, runtimes: 1 })
      yield* reportSweep("leases", pass(3, 0))
      assert.deepStrictEqual(yield* gauges, { leases: 0, runtimes: 1 })
    }).pipe(Effect.provide(SweepReports.layer), Effect.provideService(Metric.MetricRegistry, new Map()))
  )

  it("FC-05 nothing attempted is no failure; one done is no whole failure", () => {
    assert.isFalse(isWhollyFailed(allDone(0)))
    assert.isFalse(isWhollyFailed({ attempted: 2, done: 1, failed: 1 }))
    assert.isTrue(isWhollyFailed({ attempted: 2, done: 0, failed: 2 }))
    const report = { sweep: "leases", attempted: 2, done: 0, failed: 2, why: null, atMillis: 0 }
    assert.strictEqual(reportText(report), "attempted 2, done 0, failed 2")
  })
})
