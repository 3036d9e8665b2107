/** The verb `status`: what a Project's runtime is and does, as tables for people. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { ago, bytes, cpus, figure, table } from "../../infra/cli/text.ts"
import type { RuntimeView, SampleView, StatusView } from "../../infra/http/Views.ts"
import { connected, type Target } from "./connection.ts"
import { operationTable } from "./ops.ts"
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

const sampleRow = (sample: SampleView | null, nowMillis: number): ReadonlyArray<string> => [
  "sample",
  sample === null
    ? "none yet"
    : `${ago(sample.startedAtMillis, nowMillis)}: ${Object.entries(sample.metrics)
        .map(([metric, { isStale, value }]) => `${figure(metric, value)}${isStale ? " (stale)" : ""}`)
        .join(", ")}`
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
    ...(live?.waiting == null ? [] : [["waits for", live.waiting.for]]),
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
    ...(status.operations.length === 0 ? [] : ["", ...operationTable(status.operations, nowMillis)])
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
