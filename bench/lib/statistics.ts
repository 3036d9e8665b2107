/** The arithmetic of the benchmarks: medians, percentiles, and ratios that are taken round by round. */

/** The middle of the values, or of the two in the middle; NaN of none. Not finite values are left out. */
export const median = (values: ReadonlyArray<number>): number => percentile(values, 0.5)

/** The value below which the share `fraction` of the values lies, interpolated between its two neighbours. */
export const percentile = (values: ReadonlyArray<number>, fraction: number): number => {
  const sorted = values.filter(Number.isFinite).toSorted((left, right) => left - right)
  if (sorted.length === 0) return Number.NaN
  const at = fraction * (sorted.length - 1)
  const below = sorted[Math.floor(at)]!
  const above = sorted[Math.ceil(at)]!
  return below + (above - below) * (at - Math.floor(at))
}

/** Median with the smallest and the largest value beside it. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export const spreadOf = (values: ReadonlyArray<number>): Spread => {
  const finite = values.filter(Number.isFinite)
  return {
    median: median(finite),
    min: finite.length === 0 ? Number.NaN : Math.min(...finite),
    max: finite.length === 0 ? Number.NaN : Math.max(...finite)
  }
}

/**
 * How much better `value` is than `baseline`: above 1 is always better, whichever way the figure counts.
 * A figure of zero or less was not measured, and has no ratio.
 */
export const ratioOf = (value: number, baseline: number, better: "higher" | "lower"): number => {
  if (!(value > 0) || !(baseline > 0)) return Number.NaN
  return better === "higher" ? value / baseline : baseline / value
}
