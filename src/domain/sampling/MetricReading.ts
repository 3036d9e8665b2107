/**
 * What a reader finds of the latest sample of a runtime: the figure of each metric, and what it is worth now. A figure
 * that was never measured is null, never 0; one that a later probe could not confirm stays and is marked stale.
 */
import * as Schema from "effect/Schema"
import { Metric } from "../history/History.ts"
import type { RuntimeObserved } from "../runtimes/Runtime.ts"

/**
 * - `ready`: the machine runs and the metric has a figure.
 * - `sampling`: the machine runs, or is about to, and no probe since its start has come back yet.
 * - `stopped`: no machine runs; the figure is the last one of the machine that did.
 * - `unavailable`: the machine runs and was probed, and the metric has never had a figure.
 */
export const MetricState = Schema.Literals(["ready", "sampling", "stopped", "unavailable"])
export type MetricState = typeof MetricState.Type

/** The stored figure of one metric. `isStale`: it is an older one, and the present one is not known. */
export const MetricReading = Schema.Struct({
  state: MetricState,
  isStale: Schema.Boolean,
  value: Schema.NullOr(Schema.Int),
  measuredAtMillis: Schema.NullOr(Schema.Int)
})
export type MetricReading = typeof MetricReading.Type

/** The latest sample of a runtime as it is stored. */
export const LatestSample = Schema.Struct({
  startedAtMillis: Schema.Int,
  readings: Schema.Record(Metric, MetricReading)
})
export type LatestSample = typeof LatestSample.Type

/** What is known of one metric's figure, and of the samples of the machine that is there now. */
export interface Figure {
  readonly observed: RuntimeObserved
  readonly value: number | null
  /** When the value was measured, or null where there is none. */
  readonly measuredAtMillis: number | null
  /** When the latest sample of this run of the machine began; null before the first. */
  readonly sampledAtMillis: number | null
}

/** The state of a metric by what is stored. Pure. Source: figures of the specification, "resource sample". */
export const stateOf = ({
  measuredAtMillis,
  observed,
  sampledAtMillis,
  value
}: Figure): Pick<MetricReading, "state" | "isStale"> => {
  const hasValue = value !== null
  if (observed !== "running" && observed !== "starting") return { state: "stopped", isStale: hasValue }
  if (observed === "starting" || sampledAtMillis === null) return { state: "sampling", isStale: hasValue }
  if (!hasValue) return { state: "unavailable", isStale: false }
  return { state: "ready", isStale: measuredAtMillis === null || measuredAtMillis < sampledAtMillis }
}
