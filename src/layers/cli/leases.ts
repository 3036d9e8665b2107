/** The verbs below `leases`: what runs inside a Project's guest now, and the cancellation of all of it. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { ago, table } from "../../infra/cli/text.ts"
import type { ExecutionView } from "../../infra/http/Views.ts"
import { connected, type Target } from "./connection.ts"
import { Output } from "./Output.ts"

/** Leases as a table. Pure. */
export const leaseTable = (leases: ReadonlyArray<ExecutionView>, nowMillis: number): ReadonlyArray<string> =>
  table([
    ["EXECUTION", "COMMAND", "GENERATION", "SINCE", "CANCEL"],
    ...leases.map(({ admittedAtMillis, cancel, generation, id, label }) => [
      id,
      label,
      String(generation),
      ago(admittedAtMillis, nowMillis),
      cancel === "none" ? "" : cancel
    ])
  ])

/** Prints what runs in the Project's guest. */
export const listLeases = Effect.fn("cli.listLeases")(function* (target: Target, project: string) {
  const output = yield* Output
  yield* connected(target, ({ call, client }) =>
    Effect.gen(function* () {
      const leases = yield* call(client.leases.list({ params: { project } }))
      yield* output.result(leases, leaseTable(leases, yield* Clock.currentTimeMillis))
    })
  )
})

/** Asks for the end of everything that runs in the Project's guest, and prints what has yet to end. */
export const cancelLeases = Effect.fn("cli.cancelLeases")(function* (target: Target, project: string) {
  const output = yield* Output
  yield* connected(target, ({ call, client }) =>
    Effect.flatMap(call(client.leases.cancel({ params: { project } })), (leases) =>
      output.result(
        leases,
        leases.length === 0
          ? ["nothing runs"]
          : leases.map(({ id, label }) => `asked ${label} to end: execution ${id}`)
      )
    )
  )
})
