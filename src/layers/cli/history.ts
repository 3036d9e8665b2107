/** The verb `history`: what a Project used, the newest as a chart, a range as a table. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Metric, Resolution } from "../../domain/history/History.ts"
import { figure, sparkline, table } from "../../infra/cli/text.ts"
import type { HistoryView } from "../../infra/http/Views.ts"
import { connected, type Target } from "./connection.ts"
import { usage } from "./Failure.ts"
import { given } from "./given.ts"
import { Output } from "./Output.ts"

export interface HistoryOptions {
  readonly project: string
  readonly metric: Metric | undefined
  readonly resolution: Resolution | undefined
  readonly from: string | undefined
  readonly to: string | undefined
}

const chartColumns = 60

const means = (buckets: HistoryView["metrics"][number]["minutes"]): ReadonlyArray<number> =>
  buckets.map(({ samples, total }) => Math.round(Number(total) / samples))

/** The newest of every metric as a line of blocks. Pure. */
export const historyChart = (history: HistoryView): ReadonlyArray<string> =>
  table([
    ["METRIC", "NEWEST", "LAST HOUR BY MINUTES"],
    ...history.metrics
      .filter(({ minutes }) => minutes.length > 0)
      .map(({ metric, minutes }) => {
        const values = means(minutes)
        return [metric, figure(metric, values.at(-1) ?? null), sparkline(values, chartColumns)]
      })
  ])

/** Every bucket of one resolution, oldest first. Pure. */
export const historyTable = (history: HistoryView, resolution: Resolution): ReadonlyArray<string> =>
  table([
    ["METRIC", "BUCKET", "MINIMUM", "MEAN", "MAXIMUM", "SAMPLES"],
    ...history.metrics.flatMap(({ hours, metric, minutes }) => {
      const buckets = resolution === "minute" ? minutes : hours
      const values = means(buckets)
      return buckets.map(({ bucketMillis, maximum, minimum, samples }, index) => [
        metric,
        new Date(bucketMillis).toISOString(),
        figure(metric, minimum),
        figure(metric, values[index] ?? null),
        figure(metric, maximum),
        String(samples)
      ])
    })
  ])

/** A moment as milliseconds since the epoch: they themselves, or ISO 8601. */
const momentOf = (given: string | undefined, flag: string) => {
  if (given === undefined) return Effect.succeed(undefined)
  const millis = /^\d{1,15}$/.test(given)
    ? Option.some(Number(given))
    : Option.map(DateTime.make(given), DateTime.toEpochMillis)
  return Option.match(millis, {
    onNone: () => Effect.fail(usage(`${flag} is no moment: give ISO 8601 or milliseconds since the epoch`)),
    onSome: (moment) => Effect.succeed(moment)
  })
}

/** Prints the Project's resource history: a chart of the newest minutes, or the buckets that the flags ask for. */
export const showHistory = Effect.fn("cli.showHistory")(function* (target: Target, options: HistoryOptions) {
  const output = yield* Output
  const fromMillis = yield* momentOf(options.from, "--from")
  const toMillis = yield* momentOf(options.to, "--to")
  const isRange = options.resolution !== undefined || fromMillis !== undefined || toMillis !== undefined
  const resolution = options.resolution ?? "minute"
  const query = {
    ...given("metric", options.metric),
    ...(isRange ? { resolution } : {}),
    ...given("fromMillis", fromMillis),
    ...given("toMillis", toMillis)
  }
  yield* connected(target, ({ call, client }) =>
    Effect.flatMap(
      call(client.projects.history({ params: { project: options.project }, query })),
      (history) => output.result(history, isRange ? historyTable(history, resolution) : historyChart(history))
    )
  )
})
