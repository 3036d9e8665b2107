/**
 * Batches of samples: what is offered within a tick is recorded by one statement.
 *
 *     offer ─► waiting (one a Project) ─► batch ─► answer
 *                ▲ later samples of the         │ busy: offered again after a tick
 *                │ Project wait behind it       ▼
 *                └──────────────────────────────┘
 *
 * A batch goes when its oldest sample has waited `sampleBatchMillis`, or as soon as `sampleBatchMax` wait, so that a
 * sample is durable 150 ms after it was offered while the database answers. An offered sample is recorded whoever hangs
 * up, and every offer is answered: recorded, stale, busy for too long, or failed.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Semaphore from "effect/Semaphore"
import * as Struct from "effect/Struct"
import {
  sampleBatchesAtOnceMax,
  sampleBatchMax,
  sampleBatchMillis,
  sampleBusyMillisMax,
  sampleOffersMax
} from "../Bounds.ts"
import type { ProjectId } from "../Identity.ts"
import type { StorageFailure } from "../persistence/PluginDb.ts"
import { type Sample, SampleBusy, SampleOffersFull, SampleStale } from "./Sample.ts"
import { type RecordedSamples, SampleStore } from "./SampleStore.ts"

/** Why an offered sample was not recorded. */
export type NotRecorded = SampleStale | SampleBusy | StorageFailure

/** How many samples came to which end since the start. */
export interface SampleCounts {
  readonly recorded: number
  readonly stale: number
  readonly busy: number
  readonly failed: number
  /** Refused at the door. */
  readonly refused: number
}

interface Offer {
  readonly sample: Sample
  readonly offeredAtMillis: number
  readonly answer: Deferred.Deferred<void, NotRecorded>
}

const monotonicMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000n) / 1_000)

const staleOf = ({ generation, project, refreshEpoch }: Sample) =>
  new SampleStale({ project, generation, refreshEpoch })

/** A fault that one sample of a batch may have brought about for all of them. */
const mayBeOfOneSample = ({ fault }: StorageFailure): boolean =>
  fault === "query" || fault === "constraint" || fault === "unique"

/** Offers without an answer. Each Project has at most one in the queue or on its way, so its samples keep their order. */
class Waiting {
  readonly queue: Array<Offer> = []
  readonly unanswered = new Set<Offer>()
  /** A batch may be due: something is in the queue. */
  readonly some = Latch.makeUnsafe(false)
  /** A batch is due: as many are in the queue as one takes. */
  readonly enough = Latch.makeUnsafe(false)
  private readonly behind = new Map<ProjectId, Array<Offer>>()

  add(offer: Offer): void {
    this.unanswered.add(offer)
    const others = this.behind.get(offer.sample.project)
    if (others !== undefined) {
      others.push(offer)
      return
    }
    this.behind.set(offer.sample.project, [])
    this.queue.push(offer)
    this.open()
  }

  take(): ReadonlyArray<Offer> {
    const batch = this.queue.splice(0, sampleBatchMax)
    if (this.queue.length === 0) this.some.closeUnsafe()
    if (this.queue.length < sampleBatchMax) this.enough.closeUnsafe()
    return batch
  }

  /** Puts offers back to the head, since they have waited longest. */
  putBack(offers: ReadonlyArray<Offer>): void {
    this.queue.unshift(...offers)
    this.open()
  }

  answer(offer: Offer, exit: Exit.Exit<void, NotRecorded>): void {
    this.unanswered.delete(offer)
    const { project } = offer.sample
    const next = this.behind.get(project)?.shift()
    if (next === undefined) this.behind.delete(project)
    else this.putBack([next])
    Deferred.doneUnsafe(offer.answer, exit)
  }

  private open(): void {
    if (this.queue.length > 0) this.some.openUnsafe()
    if (this.queue.length >= sampleBatchMax) this.enough.openUnsafe()
  }
}

export class SampleBatches extends Context.Service<
  SampleBatches,
  {
    /**
     * Takes a sample for the next batch and answers at once, with what waits for its end. Refused with
     * `SampleOffersFull` while `sampleOffersMax` have no answer. The end is a failure where the sample was stale, its
     * runtime's row was held for `sampleBusyMillisMax`, or the database failed; nothing of it was written then, unless
     * a connection was lost, and the same sample offered again is stale if it had been.
     */
    readonly offer: (sample: Sample) => Effect.Effect<Effect.Effect<void, NotRecorded>, SampleOffersFull>
    readonly counts: Effect.Effect<SampleCounts>
  }
>()("holdfast/domain/sampling/SampleBatches") {
  static readonly layer: Layer.Layer<SampleBatches, never, SampleStore> = Layer.effect(
    SampleBatches,
    Effect.suspend(() => make)
  )
}

type Store = SampleStore["Service"]

/** Records a batch. One whose statement fails for what may be one sample's fault is recorded one by one. */
const recordEach = (
  store: Store,
  batch: ReadonlyArray<Offer>
): Effect.Effect<ReadonlyArray<readonly [Offer, Exit.Exit<RecordedSamples, StorageFailure>]>> =>
  Effect.flatMap(Effect.exit(store.recordMany(batch.map(({ sample }) => sample))), (exit) => {
    const failure = Exit.isFailure(exit) ? Exit.findErrorOption(exit) : undefined
    return batch.length > 1 && failure?._tag === "Some" && mayBeOfOneSample(failure.value)
      ? Effect.map(
          Effect.forEach(batch, (offer) => recordEach(store, [offer])),
          (each) => each.flat()
        )
      : Effect.succeed(batch.map((offer) => [offer, exit] as const))
  })

const noSamples: SampleCounts = { recorded: 0, stale: 0, busy: 0, failed: 0, refused: 0 }

/** What became of samples, and how much of that the metrics have been told. */
class Counts {
  all = noSamples
  private told = noSamples

  add(outcome: keyof SampleCounts): void {
    this.all = { ...this.all, [outcome]: this.all[outcome] + 1 }
  }

  readonly tell = Effect.suspend(() => {
    const { all, told } = this
    this.told = all
    return Effect.forEach(
      Struct.keys(all).filter((outcome) => all[outcome] > told[outcome]),
      (outcome) => Metric.update(metricOf(outcome), all[outcome] - told[outcome]),
      { discard: true }
    )
  })
}

const metricOf = (outcome: keyof SampleCounts) =>
  Metric.counter("holdfast_samples_total", {
    description: "Samples by what became of them",
    attributes: { outcome },
    incremental: true
  })

const make = Effect.gen(function* () {
  const store = yield* SampleStore
  const scope = yield* Effect.scope
  const places = yield* Semaphore.make(sampleBatchesAtOnceMax)
  const waiting = new Waiting()
  const counts = new Counts()

  const end = (offer: Offer, counted: keyof SampleCounts, exit: Exit.Exit<void, NotRecorded>): void => {
    counts.add(counted)
    waiting.answer(offer, exit)
  }

  /** Answers the offer; false when it is to be offered again. */
  const settle = (
    offer: Offer,
    exit: Exit.Exit<RecordedSamples, StorageFailure>,
    nowMillis: number
  ): boolean => {
    const { project } = offer.sample
    if (Exit.isFailure(exit)) end(offer, "failed", Exit.failCause(exit.cause))
    else if (exit.value.accepted.has(project)) end(offer, "recorded", Exit.void)
    else if (!exit.value.busy.has(project)) end(offer, "stale", Exit.fail(staleOf(offer.sample)))
    else if (nowMillis - offer.offeredAtMillis < sampleBusyMillisMax) return false
    else end(offer, "busy", Exit.fail(new SampleBusy({ project })))
    return true
  }

  const record = Effect.fn("sampling.recordBatch")(function* (batch: ReadonlyArray<Offer>) {
    const recorded = yield* recordEach(store, batch).pipe(Effect.ensuring(places.release(1)))
    const nowMillis = yield* monotonicMillis
    const held = recorded.filter(([offer, exit]) => !settle(offer, exit, nowMillis)).map(([offer]) => offer)
    yield* counts.tell
    if (held.length === 0) return
    yield* Effect.sleep(sampleBatchMillis)
    waiting.putBack(held)
  })

  const dispatch = Effect.gen(function* () {
    yield* waiting.some.await
    const [head] = waiting.queue
    if (head === undefined) return
    const leftMillis = head.offeredAtMillis + sampleBatchMillis - (yield* monotonicMillis)
    if (leftMillis > 0) yield* Effect.raceFirst(waiting.enough.await, Effect.sleep(leftMillis))
    yield* places.take(1)
    yield* Effect.forkIn(record(waiting.take()), scope)
  })

  yield* Effect.addFinalizer(() =>
    Effect.forEach(waiting.unanswered, ({ answer }) => Deferred.interrupt(answer), { discard: true })
  )
  yield* Effect.forkScoped(Effect.forever(dispatch))

  return SampleBatches.of({
    offer: (sample) =>
      Effect.flatMap(monotonicMillis, (offeredAtMillis) => {
        if (waiting.unanswered.size >= sampleOffersMax) {
          counts.add("refused")
          const refusal = new SampleOffersFull({ project: sample.project, sampleOffersMax })
          return Effect.andThen(counts.tell, refusal)
        }
        const offer: Offer = { sample, offeredAtMillis, answer: Deferred.makeUnsafe() }
        waiting.add(offer)
        return Effect.succeed(Deferred.await(offer.answer))
      }),
    counts: Effect.sync(() => counts.all)
  })
})
