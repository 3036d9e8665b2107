/**
 * The sampler of a node: asks the guests of all running runtimes for their figures, outside any transaction, and
 * offers them to be recorded. A probe does not wait for the record of another. Times are the database's: its clock is
 * read with the targets and carried on by the monotonic one, so that a wrong clock of this machine misplaces no bucket.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { sampleIntervalMillis, sampleProbeMillisMax, samplesAtOnceMax } from "../Bounds.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { NodeId } from "../Identity.ts"
import { offerSample } from "./refresh.ts"
import { nothingMeasured, valuesOfGuest } from "./Sample.ts"
import { type SampleTarget, SampleTargets } from "./SampleStore.ts"

/** What became of one target. `unmeasured`: the probe failed or took too long; the old values were marked stale. */
export type SampleOutcome = "recorded" | "unmeasured" | "stale" | "failed"

const monotonicMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))

/** Says so, and costs this target one sample. */
const failed = ({ project }: SampleTarget, { message }: { readonly message: string }) =>
  Effect.as(
    Effect.logWarning(`project ${project} was not sampled: ${message}`),
    "failed" satisfies SampleOutcome as SampleOutcome
  )

/** Probes one guest and offers its sample; answers what waits for the outcome. */
const sampleTarget = Effect.fnUntraced(function* (
  target: SampleTarget,
  databaseClock: Effect.Effect<number>
) {
  const supervisor = yield* GuestSupervisor
  const startedAtMillis = yield* databaseClock
  const probe = yield* supervisor
    .sample(target.sandbox)
    .pipe(Effect.timeout(sampleProbeMillisMax), Effect.map(valuesOfGuest), Effect.option)
  const measured = probe._tag === "Some"
  return yield* offerSample(target.project, {
    generation: target.generation,
    refreshEpoch: target.refreshEpoch,
    startedAtMillis,
    nowMillis: yield* databaseClock,
    values: measured ? probe.value : nothingMeasured
  }).pipe(
    Effect.map((end) =>
      end.pipe(
        Effect.as<SampleOutcome>(measured ? "recorded" : "unmeasured"),
        Effect.catchTag("SampleStale", () => Effect.succeed<SampleOutcome>("stale")),
        Effect.catch((failure) => failed(target, failure))
      )
    ),
    Effect.catch((refusal) => Effect.succeed(failed(target, refusal)))
  )
})

/** One tick over the running runtimes of a node, at most `samplesAtOnceMax` probes at a time. Answers what became of each. */
export const sampleRuntimes = Effect.fn("sampling.sampleRuntimes")(function* (node: NodeId) {
  const targets = yield* SampleTargets
  const { nowMillis, targets: running } = yield* targets.running(node)
  const readAt = yield* monotonicMillis
  const databaseClock = Effect.map(monotonicMillis, (now) => nowMillis + (now - readAt))
  const offered = yield* Effect.forEach(
    running,
    (target) => Effect.map(sampleTarget(target, databaseClock), (outcome) => ({ target, outcome })),
    { concurrency: samplesAtOnceMax }
  )
  return yield* Effect.forEach(offered, ({ outcome, target }) =>
    Effect.map(outcome, (became) => ({ project: target.project, outcome: became }))
  )
})

/** Samples every `intervalMillis` (a setting, `sampleIntervalMillis` by default) until it is interrupted; a tick begins only after the one before has ended. */
export const samplingLoop = (node: NodeId, intervalMillis: number = sampleIntervalMillis) =>
  sampleRuntimes(node).pipe(
    Effect.catch((failure) => Effect.logWarning(`no runtime was sampled: ${failure.message}`)),
    Effect.repeat(Schedule.fixed(intervalMillis))
  )
