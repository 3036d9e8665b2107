/** The verbs `status` and `history`: what a Project's runtime is, does and used, as tables for people. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { ago, bytes, cpus, sparkline, table } from "../../infra/cli/text.ts"
import type {
  HistoryView,
  OperationView,
  RuntimeView,
  SampleView,
  StatusView
} from "../../infra/http/Views.ts"
import { connected, type Target } from "./connection.ts"
import { isSettled } from "./follow.ts"
import { Output } from "./Output.ts"

/** Who carries the guest; where none lives, who was asked for. */
const carrier = ({ carriedBy, supervisor }: RuntimeView): string =>
  carriedBy === null ? `supervisor ${supervisor}` : `carried by ${carriedBy}`

const runtimeRows = (runtime: RuntimeView | null): ReadonlyArray<ReadonlyArray<string>> => {
  if (runtime === null) return [["runtime", "never provisioned"]]
  const wanted = runtime.desired === runtime.observed ? "" : `, wanted ${runtime.desired}`
  const why = runtime.observedReason === null ? "" : ` (${runtime.observedReason})`
  return [
    ["runtime", `${runtime.observed}${why}${wanted}, generation ${runtime.generation}`],
    ...(runtime.sandbox === null
      ? []
      : [["sandbox", `${runtime.sandbox}, ${carrier(runtime)}, image ${runtime.image}`]]),
    ...(runtime.cpuMillis === null || runtime.memoryBytes === null
      ? []
      : [
          [
            "limits",
            `${cpus(runtime.cpuMillis)}, ${bytes(runtime.memoryBytes)}, ${runtime.processesMax ?? "unbounded"} processes`
          ]
        ])
  ]
}

const figure = (metric: string, value: number | null): string => {
  const name = metric === "cpu_usec" ? "cpu" : metric.replace(/_bytes$/, "")
  if (value === null) return `${name} unknown`
  if (metric === "cpu_usec") return `${name} ${(value / 1_000_000).toFixed(2)} s`
  return metric.endsWith("_bytes") ? `${name} ${bytes(value)}` : `${name} ${value}`
}

const sampleRow = (sample: SampleView | null, nowMillis: number): ReadonlyArray<string> => [
  "sample",
  sample === null
    ? "none yet"
    : `${ago(sample.startedAtMillis, nowMillis)}: ${Object.entries(sample.metrics)
        .map(([metric, { isStale, value }]) => `${figure(metric, value)}${isStale ? " (stale)" : ""}`)
        .join(", ")}`
]

const operationRows = (
  operations: ReadonlyArray<OperationView>,
  nowMillis: number
): ReadonlyArray<ReadonlyArray<string>> => [
  ["OPERATION", "ACTION", "STATE", "ASKED", "NOTE"],
  ...operations.map((operation) => [
    operation.id,
    operation.action,
    operation.state,
    ago(operation.createdAtMillis, nowMillis),
    operation.error?.code ?? (isSettled(operation) ? "" : (operation.step ?? ""))
  ])
]

/** The whole status as lines. Pure. */
export const statusLines = (status: StatusView, nowMillis: number): ReadonlyArray<string> => {
  const { capacity, used } = status.charges
  const live = status.liveOperation
  const head = table([
    ["project", `${status.project.name} (id ${status.project.id}), ${status.project.lifecycle}`],
    ...runtimeRows(status.runtime),
    sampleRow(status.sample, nowMillis),
    ...(live === null
      ? []
      : [["now", `${live.action}: ${live.step ?? live.state}, ${Math.floor(live.fraction * 100)}%`]]),
    [
      "node",
      `${used.sandboxes} of ${capacity.sandboxes} sandboxes, ${used.cpuMillis / 1000} of ${cpus(capacity.cpuMillis)}, ${bytes(used.memoryBytes)} of ${bytes(capacity.memoryBytes)}`
    ]
  ])
  const executions = status.executions.map(({ admittedAtMillis, cancel, id, label }) => [
    id,
    label,
    ago(admittedAtMillis, nowMillis),
    cancel === "none" ? "" : `cancel ${cancel}`
  ])
  return [
    ...head,
    ...(executions.length === 0
      ? []
      : ["", ...table([["EXECUTION", "COMMAND", "SINCE", ""], ...executions])]),
    ...(status.operations.length === 0 ? [] : ["", ...table(operationRows(status.operations, nowMillis))])
  ]
}

/** Prints the Project's status. */
export const showStatus = Effect.fn("cli.showStatus")(function* (target: Target, project: string) {
  const output = yield* Output
  yield* connected(target, ({ call, client }) =>
    Effect.gen(function* () {
      const status = yield* call(client.projects.status({ params: { project } }))
      yield* output.result(status, statusLines(status, yield* Clock.currentTimeMillis))
    })
  )
})

const chartColumns = 60

const historyLines = (history: HistoryView): ReadonlyArray<string> =>
  table([
    ["METRIC", "NEWEST", "LAST HOUR BY MINUTES"],
    ...history.metrics
      .filter(({ minutes }) => minutes.length > 0)
      .map(({ metric, minutes }) => {
        const means = minutes.map(({ samples, total }) => Math.round(Number(total) / samples))
        return [metric, figure(metric, means.at(-1) ?? null), sparkline(means, chartColumns)]
      })
  ])

/** Prints the Project's resource history: the newest minutes of every metric as a line of blocks. */
export const showHistory = Effect.fn("cli.showHistory")(function* (target: Target, project: string) {
  const output = yield* Output
  yield* connected(target, ({ call, client }) =>
    Effect.flatMap(call(client.projects.history({ params: { project } })), (history) =>
      output.result(history, historyLines(history))
    )
  )
})
