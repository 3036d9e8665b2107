/** P9's own contenders: the product's batches of samples, as fast as they go and at the pace of a node. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { sampleBatchMax } from "../../src/domain/Bounds.ts"
import { Generation, ProjectId } from "../../src/domain/Identity.ts"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import { validateSample } from "../../src/domain/sampling/Sample.ts"
import { SampleBatches } from "../../src/domain/sampling/SampleBatches.ts"
import * as SampleStore from "../../src/infra/postgres/SampleStore.ts"
import { pluginSchema } from "./admission.ts"
import { loopEffects, openConnections } from "./closedLoop.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { handleOn, sampledOut } from "./handles.ts"
import type { PlainSettings } from "./plainPg.ts"
import {
  firstBatch,
  type Measured,
  measuredMetrics,
  perSample,
  sampleContender,
  type Sampler
} from "./sampleWork.ts"
import { withServerCost } from "./serverCost.ts"
import { percentile } from "./statistics.ts"

const generation = Generation.make(1)

/** The sample is validated, as the product's way goes. */
const offered = ({ project, startedAtMillis, values }: Measured) =>
  Effect.gen(function* () {
    const figures = Object.fromEntries(measuredMetrics.map((metric, at) => [metric, values[at]!]))
    const sample = yield* Effect.fromResult(
      validateSample(ProjectId.make(project), {
        generation,
        refreshEpoch: 0,
        startedAtMillis,
        nowMillis: startedAtMillis,
        values: figures
      })
    )
    return yield* (yield* SampleBatches).offer(sample)
  })

const recorded = (samples: ReadonlyArray<Measured>) =>
  Effect.gen(function* () {
    const ends = yield* Effect.forEach(samples, offered)
    yield* Effect.forEach(ends, (end) => end, { discard: true })
  })

const views = { minutes: "minute_history", hours: "hour_history" }

/** The service on a pool of its own; no connection is opened while time counts. */
const onPool = <A, E>(
  settings: PlainSettings,
  load: Load,
  use: Effect.Effect<A, E, SampleBatches>
): Effect.Effect<A, unknown> =>
  Effect.gen(function* () {
    const db = yield* handleOn(settings, pluginSchema, load.workers)
    yield* openConnections(load, (text) => db.query({ operation: "bench.open", text }))
    const store = SampleStore.layer.pipe(Layer.provide(Layer.succeed(PluginDb, db)))
    return yield* use.pipe(Effect.provide(SampleBatches.layer.pipe(Layer.provide(store))))
  }).pipe(sampledOut, Effect.scoped)

/** Samples that were recorded, offered again: all have to be stale, and the sums after them the same as before. */
const staleAgain = (settings: PlainSettings, last: () => ReadonlyArray<Measured>) =>
  onPool(
    settings,
    { workers: 1, seconds: 0, warmUpSeconds: 0 },
    Effect.gen(function* () {
      const ends = yield* Effect.forEach(last(), offered)
      const exits = yield* Effect.forEach(ends, (end) => Effect.flip(end))
      const others = exits.filter((failure) => failure._tag !== "SampleStale").length
      return others === 0 ? [] : [`${others} of ${exits.length} samples offered again were not stale`]
    })
  )

/** Every worker offers a full batch and waits for its ends: a batch of each is on its way at a time. */
export const fullBatches = (settings: PlainSettings): Contender => {
  let last: ReadonlyArray<Measured> = []
  return sampleContender(
    "SampleBatches",
    settings,
    views,
    (load, sampler) =>
      onPool(
        settings,
        load,
        Effect.andThen(
          Effect.forEach(sampler.first(firstBatch), recorded, { discard: true }),
          withServerCost(
            settings,
            Effect.map(
              loopEffects(load, (worker) =>
                Effect.gen(function* () {
                  last = sampler.next(worker, load.workers, sampleBatchMax)
                  yield* recorded(last)
                })
              ),
              (figures) => perSample(figures, sampleBatchMax)
            )
          )
        ).pipe(Effect.scoped)
      ),
    Effect.suspend(() => staleAgain(settings, () => last))
  )
}

const pacePerSecond = 1_000
const paceMillis = 10

/** Ten thousand sandboxes' pace, each sample offered alone: how long it is until it is durable. */
const paced = (load: Load, sampler: Sampler): Effect.Effect<Figures, unknown, SampleBatches> =>
  Effect.gen(function* () {
    const millis: Array<number> = []
    const one = (sample: Measured) =>
      Effect.gen(function* () {
        const begun = yield* Clock.monotonicTimeNanos
        yield* Effect.flatten(offered(sample))
        millis.push(Number((yield* Clock.monotonicTimeNanos) - begun) / 1e6)
      })
    const ticks = Math.ceil(((load.seconds + load.warmUpSeconds) * 1_000) / paceMillis)
    yield* Effect.scoped(
      Effect.gen(function* () {
        const fibers = []
        for (let tick = 0; tick < ticks; tick++) {
          for (const sample of sampler.next(0, 1, (pacePerSecond * paceMillis) / 1_000))
            fibers.push(yield* Effect.forkScoped(one(sample)))
          yield* Effect.sleep(paceMillis)
        }
        for (const fiber of fibers) yield* Fiber.join(fiber)
      })
    )
    return {
      operations: millis.length,
      operationsAll: millis.length,
      perSecond: Number.NaN,
      p50Millis: percentile(millis, 0.5),
      p99Millis: percentile(millis, 0.99)
    }
  })

export const pacedBatches = (settings: PlainSettings): Contender =>
  sampleContender("SampleBatches, 1,000 a second", settings, views, (load, sampler) =>
    onPool(settings, load, withServerCost(settings, paced(load, sampler)).pipe(Effect.scoped))
  )
