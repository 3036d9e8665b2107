/** Batches of samples by a controlled clock: when they go, what they hold, and that every offer is answered. */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import {
  sampleBatchesAtOnceMax,
  sampleBatchMax,
  sampleBatchMillis,
  sampleBusyMillisMax,
  sampleOffersMax
} from "../../../src/domain/Bounds.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { StorageFailure, type StorageFault } from "../../../src/domain/persistence/PluginDb.ts"
import type { Sample } from "../../../src/domain/sampling/Sample.ts"
import { SampleBatches } from "../../../src/domain/sampling/SampleBatches.ts"
import { type RecordedSamples, SampleStore } from "../../../src/domain/sampling/SampleStore.ts"
import { baseMillis, sampleOf } from "./samples.ts"

const failureOf = (fault: StorageFault) =>
  new StorageFailure({ operation: "test", fault, state: null, constraint: null })

const all = (samples: ReadonlyArray<Sample>): RecordedSamples => ({
  accepted: new Set(samples.map(({ project }) => project)),
  busy: new Set()
})

/** A store that keeps what it is given, batch by batch, and answers as told. */
const scripted = (
  answer: (samples: ReadonlyArray<Sample>, call: number) => Effect.Effect<RecordedSamples, StorageFailure> = (
    samples
  ) => Effect.succeed(all(samples))
) => {
  const batches: Array<ReadonlyArray<number>> = []
  const store = Layer.succeed(SampleStore, {
    recordMany: (samples) =>
      Effect.suspend(() => {
        batches.push(samples.map(({ startedAtMillis }) => startedAtMillis - baseMillis))
        return answer(samples, batches.length)
      })
  })
  return { batches, layer: SampleBatches.layer.pipe(Layer.provide(store)) }
}

/** A sample of the Project by its number; the time after the base is what the batches above show. */
const sample = (project: number, afterMillis = project) =>
  sampleOf(ProjectId.make(project), {
    startedAtMillis: baseMillis + afterMillis,
    nowMillis: baseMillis + afterMillis
    // A candidate of ours that is refused is no case of these tests.
  }).pipe(Effect.orDie)

const offer = (project: number, afterMillis?: number) =>
  Effect.gen(function* () {
    const batches = yield* SampleBatches
    return yield* Effect.flatMap(sample(project, afterMillis), batches.offer)
  })

const offerMany = (count: number, first = 1) =>
  Effect.forEach(
    Array.from({ length: count }, (_, at) => at + first),
    (project) => offer(project)
  )

const numbers = (count: number, first = 1) => Array.from({ length: count }, (_, at) => at + first)

/** The counter of samples by outcome, as the metrics tell it. */
const counted = Effect.map(Metric.snapshot, (metrics) =>
  Object.fromEntries(
    metrics.flatMap(({ attributes, id, state }) =>
      id === "holdfast_samples_total" && "count" in state
        ? [[attributes?.["outcome"], Number(state.count)]]
        : []
    )
  )
)
const withOwnMetrics = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => Effect.provideService(effect, Metric.MetricRegistry, new Map()))

/** Lets what is ready run, without any time passing. */
const settle = TestClock.adjust(0)

describe("SampleBatches", () => {
  it.effect(
    "a batch goes when its oldest sample has waited for the tick, with what was offered meanwhile",
    () => {
      const { batches, layer } = scripted()
      return Effect.gen(function* () {
        const first = yield* offer(1)
        yield* TestClock.adjust(sampleBatchMillis - 1)
        yield* offer(2)
        assert.deepStrictEqual(batches, [])
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(batches, [[1, 2]])
        yield* first
        yield* offer(3)
        yield* TestClock.adjust(sampleBatchMillis - 1)
        assert.lengthOf(batches, 1, "the next tick begins with the next sample")
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(batches, [[1, 2], [3]])
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("a full batch goes at once, and what is beyond it at its tick", () => {
    const { batches, layer } = scripted()
    return Effect.gen(function* () {
      yield* offerMany(sampleBatchMax + 1)
      yield* settle
      assert.deepStrictEqual(batches, [numbers(sampleBatchMax)])
      yield* TestClock.adjust(sampleBatchMillis)
      assert.deepStrictEqual(batches, [numbers(sampleBatchMax), [sampleBatchMax + 1]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("SP-RES-04 samples of one Project keep their order, one a batch", () => {
    const { batches, layer } = scripted((samples) => Effect.as(Effect.sleep(10), all(samples)))
    return Effect.gen(function* () {
      const ends = [yield* offer(1, 5), yield* offer(1, 6), yield* offer(2, 7), yield* offer(1, 8)]
      yield* TestClock.adjust(sampleBatchMillis)
      assert.deepStrictEqual(batches, [[5, 7]])
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(batches, [[5, 7], [6]], "it has waited for its tick already")
      yield* TestClock.adjust(20)
      assert.deepStrictEqual(batches, [[5, 7], [6], [8]])
      for (const end of ends) yield* end
    }).pipe(Effect.provide(layer))
  })

  it.effect("a busy sample comes again with the next batch and is recorded then", () => {
    const busyOnce = (samples: ReadonlyArray<Sample>, call: number) =>
      Effect.succeed(
        call === 1
          ? { accepted: new Set([ProjectId.make(2)]), busy: new Set([ProjectId.make(1)]) }
          : all(samples)
      )
    const { batches, layer } = scripted(busyOnce)
    return Effect.gen(function* () {
      const [busy, free] = [yield* offer(1), yield* offer(2)] as const
      yield* TestClock.adjust(sampleBatchMillis)
      yield* free
      const waits = yield* Effect.forkChild(busy)
      yield* offer(3)
      yield* TestClock.adjust(sampleBatchMillis - 1)
      assert.isUndefined(waits.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(batches, [
        [1, 2],
        [1, 3]
      ])
      yield* Fiber.join(waits)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a sample that is busy for too long is told so, and never waits for ever", () => {
    const busy = (samples: ReadonlyArray<Sample>) =>
      Effect.succeed({ accepted: new Set<ProjectId>(), busy: new Set(samples.map(({ project }) => project)) })
    const { batches, layer } = scripted(busy)
    return Effect.gen(function* () {
      const end = yield* Effect.forkChild(Effect.flatMap(offer(1), Effect.flip))
      yield* TestClock.adjust(sampleBusyMillisMax - 1)
      assert.isUndefined(end.pollUnsafe())
      yield* TestClock.adjust(sampleBatchMillis)
      assert.deepInclude(yield* Fiber.join(end), { code: "sample_busy" })
      assert.isAtMost(batches.length, sampleBusyMillisMax / sampleBatchMillis + 1, "one try a tick")
      assert.strictEqual((yield* (yield* SampleBatches).counts).busy, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect(
    "an offer beyond the bound is refused and counted, and taken again when others have ended",
    () => {
      const { layer } = scripted((samples) => Effect.as(Effect.sleep("1 second"), all(samples)))
      return Effect.gen(function* () {
        const ends = yield* offerMany(sampleOffersMax)
        const refused = yield* Effect.flip(offer(sampleOffersMax + 1))
        assert.deepInclude(refused, { code: "sample_offers_full", sampleOffersMax })
        assert.deepStrictEqual(yield* counted, { refused: 1 })
        yield* TestClock.adjust("1 second")
        yield* TestClock.adjust("10 seconds")
        for (const end of ends) yield* end
        yield* offer(sampleOffersMax + 1)
        yield* settle
        assert.deepInclude(yield* (yield* SampleBatches).counts, { recorded: sampleOffersMax, refused: 1 })
        assert.deepStrictEqual(yield* counted, { recorded: sampleOffersMax, refused: 1 })
      }).pipe(Effect.provide(layer), withOwnMetrics)
    }
  )

  it.effect("as many batches are on their way at a time as there may be, and no more", () => {
    const { batches, layer } = scripted((samples) => Effect.as(Effect.sleep("1 second"), all(samples)))
    return Effect.gen(function* () {
      yield* offerMany(sampleBatchMax * (sampleBatchesAtOnceMax + 2))
      yield* settle
      assert.lengthOf(batches, sampleBatchesAtOnceMax)
      yield* TestClock.adjust("1 second")
      assert.lengthOf(batches, sampleBatchesAtOnceMax + 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect(
    "a sample that fails its batch's statement fails alone: the others are recorded one by one",
    () => {
      const poisoned = (samples: ReadonlyArray<Sample>) =>
        samples.some(({ project }) => project === 2)
          ? Effect.fail(failureOf("query"))
          : Effect.succeed(all(samples))
      const { batches, layer } = scripted(poisoned)
      return Effect.gen(function* () {
        const [one, two, three] = yield* offerMany(3)
        yield* TestClock.adjust(sampleBatchMillis)
        assert.deepStrictEqual(batches, [[1, 2, 3], [1], [2], [3]])
        yield* one!
        yield* three!
        assert.deepInclude(yield* Effect.flip(two!), { code: "storage_failure", fault: "query" })
        yield* settle
        assert.deepInclude(yield* (yield* SampleBatches).counts, { recorded: 2, failed: 1 })
        assert.deepStrictEqual(yield* counted, { recorded: 2, failed: 1 })
      }).pipe(Effect.provide(layer), withOwnMetrics)
    }
  )

  it.effect("a database that is away fails the batch once, and the next one goes", () => {
    const away = (samples: ReadonlyArray<Sample>, call: number) =>
      call === 1 ? Effect.fail(failureOf("connection")) : Effect.succeed(all(samples))
    const { batches, layer } = scripted(away)
    return Effect.gen(function* () {
      const ends = yield* offerMany(2)
      yield* TestClock.adjust(sampleBatchMillis)
      for (const end of ends) assert.deepInclude(yield* Effect.flip(end), { fault: "connection" })
      const later = yield* offer(3)
      yield* TestClock.adjust(sampleBatchMillis)
      yield* later
      assert.deepStrictEqual(batches, [[1, 2], [3]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a defect of the store is its batch's own", () => {
    const broken = (samples: ReadonlyArray<Sample>, call: number) =>
      call === 1 ? Effect.die(new Error("a mistake")) : Effect.succeed(all(samples))
    const { layer } = scripted(broken)
    return Effect.gen(function* () {
      const first = yield* offer(1)
      yield* TestClock.adjust(sampleBatchMillis)
      const exit = yield* Effect.exit(first)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      const second = yield* offer(2)
      yield* TestClock.adjust(sampleBatchMillis)
      yield* second
    }).pipe(Effect.provide(layer))
  })

  it.effect("a sample is recorded though the one who offered it has hung up", () => {
    const { batches, layer } = scripted()
    return Effect.gen(function* () {
      const waits = yield* Effect.forkChild(Effect.flatten(offer(1)))
      yield* settle
      yield* Fiber.interrupt(waits)
      yield* TestClock.adjust(sampleBatchMillis)
      assert.deepStrictEqual(batches, [[1]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("who waits for an answer when the service ends does not wait for ever", () =>
    Effect.gen(function* () {
      const { layer } = scripted(() => Effect.never)
      const scope = yield* Scope.make()
      const context = yield* Layer.build(layer).pipe(Scope.provide(scope))
      const ends = yield* offerMany(2).pipe(Effect.provideContext(context))
      const waiting = yield* Effect.forkChild(Effect.all(ends.map((end) => Effect.exit(end))))
      yield* TestClock.adjust(sampleBatchMillis)
      yield* Scope.close(scope, Exit.void)
      yield* Fiber.await(waiting).pipe(Effect.timeout("1 second"))
    })
  )
})
