/**
 * The verbs that ask for something on a machine: each asks for one durable operation and, unless told otherwise, waits
 * for its receipt. A request repeated under the same id is not done twice.
 */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Generation, RequestKey } from "../../domain/Identity.ts"
import type { OperationAction, OperationParameters } from "../../domain/operations/Operation.ts"
import type { OperationView } from "../../infra/http/Views.ts"
import { connected, type Target } from "./connection.ts"
import { failed, usage } from "./Failure.ts"
import { awaitSettled } from "./follow.ts"
import { Output } from "./Output.ts"

export interface LifecycleOptions {
  readonly action: OperationAction
  readonly project: string
  readonly wait: boolean
  readonly requestId: string | undefined
  readonly expectedGeneration: number | undefined
  readonly parameters: OperationParameters | undefined
}

const past: Partial<Record<OperationAction, string>> = {
  provision: "provisioned",
  start: "started",
  stop: "stopped",
  restart: "restarted",
  rebuild: "rebuilt",
  recover: "recovered",
  snapshot: "copied the workspace of",
  restore: "restored"
}

const decoded = <S extends Schema.Top>(schema: S, value: unknown, flag: string) =>
  Schema.decodeUnknownEffect(schema)(value).pipe(
    Effect.mapError(() => usage(`${flag} has a wrong form`))
  ) as Effect.Effect<S["Type"], ReturnType<typeof usage>>

const requestOf = Effect.fnUntraced(function* (options: LifecycleOptions) {
  const requestId = yield* decoded(RequestKey, options.requestId ?? `cli-${randomUUID()}`, "--request-id")
  const expected =
    options.expectedGeneration === undefined
      ? {}
      : {
          expectedGeneration: yield* decoded(Generation, options.expectedGeneration, "--expected-generation")
        }
  const parameters = options.parameters === undefined ? {} : { parameters: options.parameters }
  return { action: options.action, requestId, ...expected, ...parameters }
})

/** Prints a settled receipt; one that did not succeed becomes a failure with the receipt's own code. */
export const reportSettled = Effect.fnUntraced(function* (operation: OperationView, line: string) {
  const output = yield* Output
  if (operation.state === "succeeded") return yield* output.result(operation, [line])
  yield* output.result(operation, [])
  return yield* operation.state === "superseded"
    ? failed("operation_superseded", `operation ${operation.id} was superseded by a later request`)
    : failed(
        operation.error?.code ?? "operation_failed",
        operation.error?.message ?? `operation ${operation.id} failed without a reason`
      )
})

/** Requests the operation and waits for its receipt; with `wait` false answers the admitted operation at once. */
export const requestOperation = Effect.fn("cli.requestOperation")(function* (
  target: Target,
  options: LifecycleOptions
) {
  const output = yield* Output
  const payload = yield* requestOf(options)
  yield* connected(target, (connection) =>
    Effect.gen(function* () {
      const operation = yield* connection.call(
        connection.client.operations.request({ params: { project: options.project }, payload })
      )
      if (!options.wait) {
        return yield* output.result(operation, [
          `${options.action} of ${options.project}: operation ${operation.id}`
        ])
      }
      const settled = yield* awaitSettled(connection, operation)
      yield* reportSettled(
        settled,
        `${past[options.action] ?? options.action} ${options.project}: generation ${settled.generation}, operation ${settled.id}`
      )
    })
  )
})
