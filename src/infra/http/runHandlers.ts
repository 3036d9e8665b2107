/**
 * Handlers of the group `runs`: one command in a lease of its own, streamed. What refuses it before it has started is an
 * HTTP status, what fails later the stream's last line. Whoever hangs up ends the request's scope, and with it all of it.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Stream from "effect/Stream"
import { type RunEvent, type RunRequest, runInEnvironment } from "../../domain/runLeases/environmentRuns.ts"
import { Api, CurrentCaller } from "./Api.ts"
import type { EnvironmentRunRequest } from "./environmentApi.ts"
import { refusalOfRuntime } from "./environmentRefusals.ts"
import type { RunLine } from "./environmentViews.ts"
import { startedLines } from "./executionStream.ts"
import { answerOf, type Refusal } from "./refusals.ts"

export const runLine = (event: RunEvent): RunLine => {
  switch (event._tag) {
    case "Started": {
      const { id, provider, providerLeaseId } = event.lease
      return { type: "started", run: event.run, lease: id, provider, providerLeaseId }
    }
    case "Output":
      return { type: "output", stream: event.stream, text: event.text }
    case "Truncated":
      return { type: "truncated", stream: event.stream, bytesMax: event.bytesMax }
    case "Released": {
      const { cleanupStatus, id, status } = event.lease
      return { type: "released", lease: id, status, cleanupStatus }
    }
    case "Exited": {
      const { exitCode, signal, timedOut } = event.result
      return { type: "exited", exitCode, signal, timedOut }
    }
  }
}

const failedLine = (failure: Refusal): RunLine => {
  const { code, message } = answerOf(failure)
  return { type: "failed", code, message }
}

const requestOf = ({ argv: [command, ...args], ...rest }: EnvironmentRunRequest): RunRequest => ({
  argv: [command, ...args],
  ...rest
})

export const layer = HttpApiBuilder.group(Api, "runs", (handlers) =>
  handlers.handleAll({
    run: Effect.fnUntraced(function* ({ payload }) {
      const events = runInEnvironment(yield* CurrentCaller, requestOf(payload))
      return yield* startedLines(Stream.mapError(Stream.map(events, runLine), refusalOfRuntime), failedLine)
    })
  })
)
