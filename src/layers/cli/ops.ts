/** The verbs below `ops`: the operations of a Project, one of them, its way to the end, and taking it back. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { OperationId } from "../../domain/Identity.ts"
import { ago, table } from "../../infra/cli/text.ts"
import type { OperationView, OperationWhyView } from "../../infra/http/Views.ts"
import { connected, type Connection, type Target } from "./connection.ts"
import { usage } from "./Failure.ts"
import { awaitSettled, isSettled } from "./follow.ts"
import { reportSettled } from "./lifecycle.ts"
import { Output } from "./Output.ts"

const decodeId = Schema.decodeUnknownEffect(OperationId)

/** Asks about one operation; what cannot be an id is a wrong command line. */
const asking = <A, E, R>(
  target: Target,
  given: string,
  verb: (connection: Connection, params: { readonly id: OperationId }) => Effect.Effect<A, E, R>
) =>
  Effect.flatMap(
    decodeId(given).pipe(Effect.mapError(() => usage(`"${given}" is no operation: ids are UUIDs`))),
    (id) => connected(target, (connection) => verb(connection, { id }))
  )

const noteOf = (operation: OperationView): string => {
  if (operation.waiting !== null) return `waits for ${operation.waiting.for}`
  return operation.error?.code ?? (isSettled(operation) ? "" : (operation.step ?? ""))
}

/** Receipts as a table, in the order given. Pure. */
export const operationTable = (
  operations: ReadonlyArray<OperationView>,
  nowMillis: number
): ReadonlyArray<string> =>
  table([
    ["OPERATION", "ACTION", "STATE", "ASKED", "NOTE"],
    ...operations.map((operation) => [
      operation.id,
      operation.action,
      operation.state,
      ago(operation.createdAtMillis, nowMillis),
      noteOf(operation)
    ])
  ])

/** One receipt as lines: what it waits for and since when, if it waits. Pure. Source: FC-06. */
export const operationLines = (operation: OperationView, nowMillis: number): ReadonlyArray<string> => {
  const { error, message, result, step, supersedeAskedBy, supersededBy, waiting } = operation
  const done = `${Math.floor(operation.fraction * 100)}%`
  const rows: ReadonlyArray<readonly [string, string]> = [
    ["operation", `${operation.id} of project ${operation.project}`],
    ["action", `${operation.action}, generation ${operation.generation}`],
    ["state", operation.state],
    ["waits for", waiting === null ? "" : `${waiting.for}; since ${ago(waiting.sinceMillis, nowMillis)}`],
    ["step", step === null ? "" : `${step}, ${done}${message === null ? "" : `: ${message}`}`],
    [
      "asked",
      `${ago(operation.createdAtMillis, nowMillis)} by ${operation.initiator}, key ${operation.requestId}`
    ],
    ["ended", operation.settledAtMillis === null ? "" : ago(operation.settledAtMillis, nowMillis)],
    ["taken back", supersedeAskedBy === null ? "" : `asked for by ${supersedeAskedBy}`],
    ["superseded", supersededBy === null ? "" : `by ${supersededBy}`],
    ["error", error === null ? "" : `${error.code}: ${error.message}`],
    ...(result?.paths ?? []).map((path) => ["removed", path] as const),
    ...(result?.proofs ?? []).map((proof) => ["proved", proof] as const)
  ]
  return table(rows.filter(([, text]) => text !== ""))
}

/** The chain as a table; times in UTC, so that they can be compared with logs. Pure. */
export const operationWhyLines = ({ steps }: OperationWhyView): ReadonlyArray<string> =>
  table([
    ["STEP", "WHEN", "WHO", "WHAT"],
    ...steps.map(({ actor, atMillis, step, told }) => [
      step,
      atMillis === null ? "-" : new Date(atMillis).toISOString(),
      actor ?? "-",
      told
    ])
  ])

const pages = ({ call, client }: Connection, project: string) =>
  Effect.gen(function* () {
    const all: Array<OperationView> = []
    for (;;) {
      const last = all.at(-1)
      const query = last === undefined ? {} : { before: last.id }
      const page = yield* call(client.operations.list({ params: { project }, query }))
      if (page.length === 0) return all
      all.push(...page)
    }
  })

/** Prints every receipt of the Project that is kept, newest first. */
export const listOperations = Effect.fn("cli.listOperations")(function* (target: Target, project: string) {
  const output = yield* Output
  yield* connected(target, (connection) =>
    Effect.gen(function* () {
      const operations = yield* pages(connection, project)
      yield* output.result(operations, operationTable(operations, yield* Clock.currentTimeMillis))
    })
  )
})

/** Prints one receipt. */
export const showOperation = Effect.fn("cli.showOperation")(function* (target: Target, id: string) {
  const output = yield* Output
  yield* asking(target, id, ({ call, client }, params) =>
    Effect.gen(function* () {
      const operation = yield* call(client.operations.get({ params }))
      yield* output.result(operation, operationLines(operation, yield* Clock.currentTimeMillis))
    })
  )
})

/** Follows the operation to its end; one that did not succeed is a failure with the receipt's own code. */
export const watchOperation = Effect.fn("cli.watchOperation")(function* (target: Target, id: string) {
  yield* asking(target, id, (connection, params) =>
    Effect.gen(function* () {
      const operation = yield* connection.call(connection.client.operations.get({ params }))
      const settled = isSettled(operation) ? operation : yield* awaitSettled(connection, operation)
      yield* reportSettled(settled, `${settled.action} succeeded: operation ${settled.id}`)
    })
  )
})

const takenBackLine = ({ action, id, state }: OperationView): string =>
  state === "superseded"
    ? `superseded ${action}: operation ${id}`
    : `asked to take back ${action}: operation ${id} is held by a node that is not seen, and superseded once its claim comes back`

/** Takes a queued operation back, or asks for it where the node of its claim is not seen. */
export const supersedeOperation = Effect.fn("cli.supersedeOperation")(function* (target: Target, id: string) {
  const output = yield* Output
  yield* asking(target, id, ({ call, client }, params) =>
    Effect.flatMap(call(client.operations.supersede({ params })), (operation) =>
      output.result(operation, [takenBackLine(operation)])
    )
  )
})

/** Prints the chain from the request to the end. */
export const showOperationWhy = Effect.fn("cli.showOperationWhy")(function* (target: Target, id: string) {
  const output = yield* Output
  yield* asking(target, id, ({ call, client }, params) =>
    Effect.flatMap(call(client.operations.why({ params })), (chain) =>
      output.result(chain, operationWhyLines(chain))
    )
  )
})
