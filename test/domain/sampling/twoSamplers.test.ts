/**
 * Two samplers of one database at random, with machines that are stopped, restarted and replaced under them and rows
 * that others hold, against a recomputation from what they were told was recorded. The seed stands in every message.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import {
  bucketOf,
  mergeRollups,
  type Metric,
  metrics,
  type Resolution,
  type Rollup,
  rollupOf
} from "../../../src/domain/history/History.ts"
import { Generation, type ProjectId } from "../../../src/domain/Identity.ts"
import type { PluginDb, StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { recordSample } from "../../../src/domain/sampling/refresh.ts"
import type { SampleCandidate } from "../../../src/domain/sampling/Sample.ts"
import { SampleBatches } from "../../../src/domain/sampling/SampleBatches.ts"
import { SampleStore, SampleTargets } from "../../../src/domain/sampling/SampleStore.ts"
import { heldTransaction, onClone, seedRuntime, sql, sqlInside } from "../leases/fixture.ts"
import { makeSeededRandom, type SeededRandom } from "../../support/seededRandom.ts"
import { baseMillis, candidate } from "./samples.ts"

/** A real clock on which nobody waits for more than a millisecond: the batches' ticks pass quickly. */
const hurried = Effect.map(Clock.Clock, (real): Clock.Clock => ({
  currentTimeMillisUnsafe: () => real.currentTimeMillisUnsafe(),
  currentTimeMillis: real.currentTimeMillis,
  currentTimeNanosUnsafe: () => real.currentTimeNanosUnsafe(),
  currentTimeNanos: real.currentTimeNanos,
  monotonicTimeNanosUnsafe: () => real.monotonicTimeNanosUnsafe(),
  monotonicTimeNanos: real.monotonicTimeNanos,
  sleep: () => real.sleep(Duration.millis(1))
}))

/** A sampler with batches of its own, as another daemon has it. */
const makeSampler = Effect.gen(function* () {
  const store = Layer.succeed(SampleStore, yield* SampleStore)
  const context = yield* Layer.build(Layer.fresh(SampleBatches.layer).pipe(Layer.provide(store))).pipe(
    Effect.provideService(Clock.Clock, yield* hurried)
  )
  return Context.get(context, SampleBatches)
})

/** What the test knows of one machine and of its accepted samples. */
class Machine {
  generation = 1
  epoch = 0
  lastMillis = baseMillis
  readonly project: ProjectId
  readonly minutes = new Map<string, Rollup>()
  readonly hours = new Map<string, Rollup>()
  readonly readings = new Map<Metric, { readonly value: number; readonly at: number }>()
  constructor(project: ProjectId) {
    this.project = project
  }

  accept({ startedAtMillis, values }: SampleCandidate): void {
    this.lastMillis = Math.max(this.lastMillis, startedAtMillis)
    for (const metric of metrics) {
      const value = values[metric]
      if (typeof value !== "number") continue
      this.add(this.minutes, "minute", metric, { value, startedAtMillis })
      this.add(this.hours, "hour", metric, { value, startedAtMillis })
      const known = this.readings.get(metric)
      if (known === undefined || known.at < startedAtMillis)
        this.readings.set(metric, { value, at: startedAtMillis })
    }
  }

  private add(
    buckets: Map<string, Rollup>,
    resolution: Resolution,
    metric: Metric,
    { startedAtMillis, value }: { readonly startedAtMillis: number; readonly value: number }
  ): void {
    const key = `${metric} ${bucketOf(resolution, startedAtMillis)}`
    const known = buckets.get(key)
    buckets.set(key, known === undefined ? rollupOf(value) : mergeRollups(known, rollupOf(value)))
  }
}

const valuesBy = (random: SeededRandom): SampleCandidate["values"] =>
  random.percent(10)
    ? {}
    : Object.fromEntries(
        metrics.filter(() => random.percent(40)).map((metric) => [metric, random.below(1_000)])
      )

/** A sample that a sampler might hand in: most in order, some late, some of a machine that is no more. */
const candidateBy = (random: SeededRandom, machine: Machine): SampleCandidate => {
  const stepMillis = random.pick([1, 10_000, 10_000, 20_000, 61_000, 3_600_000, 0, -30_000])
  const startedAtMillis = machine.lastMillis + stepMillis + random.below(1_000)
  return candidate({
    generation: Generation.make(random.percent(4) ? Math.max(1, machine.generation - 1) : machine.generation),
    refreshEpoch: random.percent(4) ? machine.epoch - 1 : machine.epoch,
    startedAtMillis,
    nowMillis: startedAtMillis,
    values: valuesBy(random)
  })
}

const isOfNow = (machine: Machine, { generation, refreshEpoch, startedAtMillis }: SampleCandidate) =>
  generation === machine.generation && refreshEpoch === machine.epoch && startedAtMillis > machine.lastMillis

const end = Effect.fnUntraced(function* (machine: Machine, kind: "restart" | "replace") {
  machine.epoch += 1
  if (kind === "replace") machine.generation += 1
  yield* sql(
    "update runtimes set refresh_epoch = $2::bigint, generation = $3::bigint where project_id = $1::bigint",
    [machine.project, machine.epoch, machine.generation]
  )
})

/** Both samplers hand in what they have; answers whether each was recorded. */
const offerAll = (
  samplers: ReadonlyArray<SampleBatches["Service"]>,
  offers: ReadonlyArray<{ readonly machine: Machine; readonly asked: SampleCandidate; readonly by: number }>
) =>
  Effect.forEach(
    offers,
    ({ asked, by, machine }) =>
      recordSample(machine.project, asked).pipe(
        Effect.provideService(SampleBatches, samplers[by]!),
        Effect.as(true),
        Effect.catchTag("SampleStale", () => Effect.succeed(false))
      ),
    { concurrency: "unbounded" }
  )

const storedBuckets = (
  view: string,
  project: ProjectId
): Effect.Effect<Map<string, unknown>, StorageFailure, PluginDb> =>
  Effect.map(
    sql(
      `select metric || ' ' || (extract(epoch from bucket) * 1000)::bigint as key, minimum::int, maximum::int,
        total::bigint, samples from ${view} where project_id = $1::bigint`,
      [project]
    ),
    (rows) => new Map(rows.map(({ key, ...rollup }) => [String(key), rollup]))
  )

const compare = Effect.fnUntraced(function* (machine: Machine, why: string) {
  const { project } = machine
  assert.deepStrictEqual(
    yield* storedBuckets("minute_history", project),
    new Map<string, unknown>(machine.minutes),
    why
  )
  assert.deepStrictEqual(
    yield* storedBuckets("hour_history", project),
    new Map<string, unknown>(machine.hours),
    why
  )
  const latest = Option.getOrUndefined(yield* (yield* SampleTargets).latest(project))
  if (latest === undefined) return
  assert.strictEqual(latest.startedAtMillis, machine.lastMillis, why)
  for (const metric of metrics) {
    const { measuredAtMillis, value } = latest.readings[metric]
    const known = machine.readings.get(metric)
    assert.deepStrictEqual([value, measuredAtMillis], [known?.value ?? null, known?.at ?? null], why)
  }
})

const rounds = 150

/** One round; machines may end before it, in the middle of it, or be held by somebody at its beginning. */
const playRound = Effect.fnUntraced(function* (
  random: SeededRandom,
  machines: ReadonlyArray<Machine>,
  samplers: ReadonlyArray<SampleBatches["Service"]>,
  why: string
) {
  const offers = machines.flatMap((machine) =>
    Array.from({ length: random.below(4) }, () => ({
      machine,
      asked: candidateBy(random, machine),
      by: random.below(2)
    }))
  )
  const held = random.percent(15)
    ? yield* heldTransaction(
        sqlInside("select 1 from runtimes where project_id = $1::bigint for update", [
          random.pick(machines).project
        ])
      )
    : undefined
  const ending = random.percent(15) && held === undefined ? random.pick(machines) : undefined
  const wasOfNow = offers.map(({ asked, machine }) => isOfNow(machine, asked))
  const offering = yield* Effect.forkChild(offerAll(samplers, offers))
  if (ending !== undefined) yield* end(ending, random.percent(50) ? "restart" : "replace")
  if (held !== undefined) yield* held.release
  const accepted = yield* Fiber.join(offering)
  for (const [at, { asked, machine }] of offers.entries()) {
    if (accepted[at] === true) {
      assert.isTrue(wasOfNow[at], `${why}: a stale sample was recorded`)
      machine.accept(asked)
    } else if (wasOfNow[at] === true && machine !== ending) {
      const later = offers.some(
        (other, place) =>
          other.machine === machine &&
          place !== at &&
          accepted[place] === true &&
          other.asked.startedAtMillis >= asked.startedAtMillis
      )
      assert.isTrue(later, `${why}: a sample was refused and none later was recorded`)
    }
  }
})

describe("two samplers", () => {
  it.live(
    "SP-RES-02 SP-RES-04 SP-RES-06 minutes, hours and latest figures are those of the samples that were recorded",
    () =>
      Effect.gen(function* () {
        const seed = Number(process.env["HOLDFAST_SAMPLING_SEED"] ?? 1 + Math.floor(Math.random() * 2 ** 31))
        const random = makeSeededRandom(seed)
        const samplers = [yield* makeSampler, yield* makeSampler]
        const machines = yield* Effect.forEach(["one", "two", "three", "four"], (name) =>
          Effect.map(seedRuntime(name), ({ project }) => new Machine(project))
        )
        for (const machine of machines) {
          yield* offerAll(samplers, [{ machine, asked: candidate(), by: 0 }])
          machine.accept(candidate())
        }
        for (let round = 0; round < rounds; round += 1) {
          const why = `HOLDFAST_SAMPLING_SEED=${seed}, round ${round}`
          for (const machine of machines) {
            if (random.percent(5)) yield* end(machine, random.percent(50) ? "restart" : "replace")
          }
          yield* playRound(random, machines, samplers, why)
          if (round % 10 === 9) for (const machine of machines) yield* compare(machine, why)
        }
        const counts = yield* Effect.forEach(samplers, ({ counts: of }) => of)
        assert.isTrue(
          counts.every(({ recorded, stale }) => recorded > 50 && stale > 10),
          `HOLDFAST_SAMPLING_SEED=${seed}: ${JSON.stringify(counts)}`
        )
      }).pipe(onClone),
    60_000
  )
})
