/**
 * The history of a runtime's resources: the metrics, minute and hour buckets, and the arithmetic of a rollup. A
 * rollup is made of minimum, maximum, total and count, so that two of them merge without their samples.
 */
import * as Schema from "effect/Schema"
import { historyPointsMax } from "../Bounds.ts"

/**
 * What is measured. Those that end in `_usec` or tell bytes read, written, received or sent are counters since the
 * guest's start and are stored as they are: a reader takes differences of maxima. The others are levels.
 */
export const Metric = Schema.Literals([
  "cpu_usec",
  "memory_bytes",
  "memory_peak_bytes",
  "disk_bytes",
  "io_read_bytes",
  "io_write_bytes",
  "net_rx_bytes",
  "net_tx_bytes",
  "pids"
])
export type Metric = typeof Metric.Type

export const metrics: ReadonlyArray<Metric> = Metric.literals

export const Resolution = Schema.Literals(["minute", "hour"])
export type Resolution = typeof Resolution.Type

const bucketMillis: Readonly<Record<Resolution, number>> = { minute: 60_000, hour: 3_600_000 }

/** The start of the bucket that a moment lies in, in milliseconds since the epoch. */
export const bucketOf = (resolution: Resolution, atMillis: number): number =>
  Math.floor(atMillis / bucketMillis[resolution]) * bucketMillis[resolution]

/** What one bucket knows of its samples. `total` is exact beyond the safe integers. */
export interface Rollup {
  readonly minimum: number
  readonly maximum: number
  readonly total: bigint
  readonly samples: number
}

export const rollupOf = (value: number): Rollup => ({
  minimum: value,
  maximum: value,
  total: BigInt(value),
  samples: 1
})

/** The rollup of the samples of both; the order does not matter. Source: SP-RES-05, SP-RES-06. */
export const mergeRollups = (one: Rollup, other: Rollup): Rollup => ({
  minimum: Math.min(one.minimum, other.minimum),
  maximum: Math.max(one.maximum, other.maximum),
  total: one.total + other.total,
  samples: one.samples + other.samples
})

export const meanOf = (rollup: Rollup): number => Number(rollup.total) / rollup.samples

/** One bucket of one metric, for a chart. */
export interface HistoryPoint extends Rollup {
  readonly metric: Metric
  readonly bucketMillis: number
}

/** Buckets from `fromMillis` on and before `toMillis`, in milliseconds since the epoch. */
export interface HistoryRange {
  readonly metrics: ReadonlyArray<Metric>
  readonly resolution: Resolution
  readonly fromMillis: number
  readonly toMillis: number
}

/** The range has no buckets or more than one read answers. */
export class HistoryRangeRefused extends Schema.TaggedError<HistoryRangeRefused>()("HistoryRangeRefused", {
  resolution: Resolution,
  fromMillis: Schema.Finite,
  toMillis: Schema.Finite
}) {
  readonly code = "history_range_refused"
  override get message(): string {
    return `from ${this.fromMillis} to ${this.toMillis} is no range of 1 to ${historyPointsMax} ${this.resolution} buckets: ask for a shorter one`
  }
}

/** Whether one read can answer the range: it begins before it ends, at most `historyPointsMax` buckets a metric. */
export const isReadable = (range: HistoryRange): boolean => {
  const millis = range.toMillis - range.fromMillis
  return millis > 0 && millis <= historyPointsMax * bucketMillis[range.resolution]
}
