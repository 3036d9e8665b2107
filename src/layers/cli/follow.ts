/**
 * Follows one operation to its end through its durable events: a progress bar on a terminal, else a line for each
 * step. A broken stream is opened again, since the operation goes on whoever watches.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import { watchReconnectsMax, watchReconnectMillis } from "../../domain/Bounds.ts"
import { progressBar } from "../../infra/cli/text.ts"
import type { OperationView } from "../../infra/http/Views.ts"
import type { Connection } from "./connection.ts"
import { type CliFailure, failed } from "./Failure.ts"
import { Output } from "./Output.ts"

export const isSettled = (operation: OperationView): boolean =>
  operation.state === "succeeded" || operation.state === "failed" || operation.state === "superseded"

const labelOf = (operation: OperationView): string =>
  [operation.action, operation.step ?? operation.state, operation.message]
    .filter((part) => part !== null && part !== "")
    .join(": ")

const fallbackColumns = 80
const columns = (): number => process.stderr.columns ?? fallbackColumns

/** Shows one state of an operation; a line is told only when it differs from the one before. */
export const show = Effect.fnUntraced(function* (shown: Ref.Ref<string>, operation: OperationView) {
  const output = yield* Output
  const label = labelOf(operation)
  if (output.drawn) {
    return yield* output.draw(`\r\u001b[2K${progressBar(operation.fraction, label, columns())}`)
  }
  if ((yield* Ref.getAndSet(shown, label)) !== label) {
    yield* output.tell(`${Math.floor(operation.fraction * 100)}% ${label}`)
  }
})

/** Clears the bar, so that what follows starts on an empty line. */
export const endShow: Effect.Effect<void, CliFailure, Output> = Output.use((output) =>
  output.draw("\r\u001b[2K")
)

const watchOnce = Effect.fnUntraced(function* (connection: Connection, id: OperationView["id"]) {
  const shown = yield* Ref.make("")
  const last = yield* Ref.make<OperationView | undefined>(undefined)
  const events = yield* connection.call(connection.client.operations.events({ params: { id } }))
  yield* connection
    .stream(events as Stream.Stream<OperationView>)
    .pipe(Stream.runForEach((operation) => Effect.andThen(Ref.set(last, operation), show(shown, operation))))
  return yield* Ref.get(last)
})

/** Waits until the operation has settled. Fails when the daemon stays away for `watchReconnectsMax` tries. */
export const awaitSettled = Effect.fn("cli.awaitSettled")(function* (
  connection: Connection,
  operation: OperationView
) {
  const attempt = Effect.gen(function* () {
    const seen = yield* watchOnce(connection, operation.id)
    if (seen !== undefined && isSettled(seen)) return seen
    return yield* failed(
      "operation_unsettled",
      `operation ${operation.id} goes on: ask again with \`holdfast status\``
    )
  })
  return yield* attempt.pipe(
    Effect.tapError(() => Effect.sleep(Duration.millis(watchReconnectMillis))),
    Effect.retry({
      times: watchReconnectsMax,
      while: (failure: CliFailure) =>
        failure.code === "operation_unsettled" || failure.code === "daemon_unreachable"
    }),
    Effect.ensuring(Effect.ignore(endShow))
  )
})
