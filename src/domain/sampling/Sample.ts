/**
 * One sample of a runtime's resources, made valid before any transaction opens. A figure that was not measured stays
 * null; it is never turned into 0. What a reader finds stored of the latest one: MetricReading.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sampleBusyMillisMax, sampleFutureMillisMax } from "../Bounds.ts"
import type { GuestSample } from "../guests/GuestSpec.ts"
import { Metric, metrics } from "../history/History.ts"
import { Generation, ProjectId } from "../Identity.ts"

/** What a sampler hands in. Nothing of it is believed yet. */
export interface SampleCandidate {
  readonly generation: Generation
  readonly refreshEpoch: number
  /** When the probe was begun, in milliseconds since the epoch. */
  readonly startedAtMillis: number
  /** The database's clock when the sample is handed in, as the sampler knows it. */
  readonly nowMillis: number
  readonly values: Readonly<Record<string, number | null>>
}

/** Only `validateSample` makes one: the private field keeps any other object from being taken for it. */
class ValidatedSample {
  readonly #project: ProjectId
  readonly generation: Generation
  readonly refreshEpoch: number
  readonly startedAtMillis: number
  /** The metrics that have a figure; the others were not measured. */
  readonly measured: ReadonlyMap<Metric, number>
  constructor(project: ProjectId, candidate: SampleCandidate, measured: ReadonlyMap<Metric, number>) {
    this.#project = project
    this.generation = candidate.generation
    this.refreshEpoch = candidate.refreshEpoch
    this.startedAtMillis = candidate.startedAtMillis
    this.measured = measured
  }
  get project(): ProjectId {
    return this.#project
  }
}

/** A sample that `validateSample` let through. */
export type Sample = ValidatedSample

/** The sample is not one: `field` tells what was wrong, `why` how. Nothing was opened or written. Source: SP-RES-01. */
export class SampleRefused extends Schema.TaggedError<SampleRefused>()("SampleRefused", {
  project: ProjectId,
  field: Schema.String,
  why: Schema.String
}) {
  readonly code = "sample_refused"
  override get message(): string {
    return `a sample of project ${this.project} was refused: ${this.field} ${this.why}`
  }
}

/** A sample begun no earlier, another refresh epoch or another machine is stored already. Nothing was written. Source: SP-RES-04. */
export class SampleStale extends Schema.TaggedError<SampleStale>()("SampleStale", {
  project: ProjectId,
  generation: Generation,
  refreshEpoch: Schema.Int
}) {
  readonly code = "sample_stale"
  override get message(): string {
    return `a sample of project ${this.project} (generation ${this.generation}, refresh epoch ${this.refreshEpoch}) came too late: read the runtime and sample again`
  }
}

/** Somebody held the runtime's row for as long as a sample is offered again. Nothing was written; sample again. */
export class SampleBusy extends Schema.TaggedError<SampleBusy>()("SampleBusy", { project: ProjectId }) {
  readonly code = "sample_busy"
  override get message(): string {
    return `a sample of project ${this.project} was not recorded: its runtime's row was held for ${sampleBusyMillisMax} ms`
  }
}

/** As many samples as may wait for their batch are waiting. This one was not taken; sample again later. */
export class SampleOffersFull extends Schema.TaggedError<SampleOffersFull>()("SampleOffersFull", {
  project: ProjectId,
  sampleOffersMax: Schema.Int
}) {
  readonly code = "sample_offers_full"
  override get message(): string {
    return `a sample of project ${this.project} was not taken: ${this.sampleOffersMax} samples wait to be recorded already`
  }
}

const isMetric = Schema.is(Metric)
const isNatural = (value: number): boolean => Number.isSafeInteger(value) && value >= 0

/** What is wrong with a candidate, or null: first its head, then its values. */
const faultOf = (candidate: SampleCandidate): readonly [field: string, why: string] | null => {
  if (!Number.isSafeInteger(candidate.refreshEpoch)) return ["refreshEpoch", "is not an integer"]
  if (!isNatural(candidate.startedAtMillis)) return ["startedAt", "is not a time"]
  if (candidate.startedAtMillis > candidate.nowMillis + sampleFutureMillisMax) {
    return ["startedAt", `lies more than ${sampleFutureMillisMax} ms in the future`]
  }
  for (const [metric, value] of Object.entries(candidate.values)) {
    if (!isMetric(metric)) return ["metric", "is not known"]
    if (value !== null && !isNatural(value)) return [metric, "is not a non-negative safe integer"]
  }
  return null
}

/**
 * Decides whether a candidate is a sample: finite non-negative integers of known metrics, begun not later than the
 * database's clock by more than `sampleFutureMillisMax`. Refuses with `SampleRefused`. Source: SP-RES-01.
 */
export const validateSample = (
  project: ProjectId,
  candidate: SampleCandidate
): Result.Result<Sample, SampleRefused> => {
  const fault = faultOf(candidate)
  if (fault !== null) return Result.fail(new SampleRefused({ project, field: fault[0], why: fault[1] }))
  const measured = new Map<Metric, number>()
  for (const metric of metrics) {
    const value = candidate.values[metric]
    if (typeof value === "number") measured.set(metric, value)
  }
  return Result.succeed(new ValidatedSample(project, candidate, measured))
}

/** The figures of a guest under the names of the metrics. No supervisor of today measures the network. */
export const valuesOfGuest = (sample: GuestSample): Readonly<Record<Metric, number | null>> => ({
  cpu_usec: sample.cpuMicros,
  memory_bytes: sample.memoryBytes,
  memory_peak_bytes: sample.memoryPeakBytes,
  disk_bytes: sample.diskBytes,
  io_read_bytes: sample.ioReadBytes,
  io_write_bytes: sample.ioWriteBytes,
  net_rx_bytes: null,
  net_tx_bytes: null,
  pids: sample.processes
})

/** The values of a probe that failed as a whole: none was measured. */
export const nothingMeasured: Readonly<Record<string, number | null>> = {}
