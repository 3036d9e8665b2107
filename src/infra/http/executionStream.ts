/**
 * A running command's events as the lines of its answer. What refuses the command before it has started becomes an
 * error of the request, what fails later the stream's last line.
 */
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import type { ExecutionEvent } from "../../domain/guests/GuestSpec.ts"
import type { ExecutionStarted } from "../../domain/operations/runCommand.ts"
import { answering } from "./access.ts"
import { answerOf, type Refusal } from "./refusals.ts"
import type { ExecutionLine } from "./Views.ts"

/** An event of the guest as a line of the API. */
export const executionLine = (event: ExecutionStarted | ExecutionEvent): ExecutionLine => {
  switch (event._tag) {
    case "Started":
      return { type: "started", execution: event.execution }
    case "Output":
      return { type: "output", stream: event.stream, data: event.bytes }
    case "Truncated":
      return { type: "truncated", stream: event.stream, bytesMax: event.bytesMax }
    case "Exited":
      return { type: "exited", exitCode: event.exitCode, ended: event.ended }
  }
}

const failedLine = (failure: Refusal): ExecutionLine => {
  const { code, message } = answerOf(failure)
  return { type: "failed", code, message }
}

/**
 * Starts the lines in the request's scope and answers them once the first is there, so that a refusal before it is an
 * error of the request. A failure after it becomes the last line.
 */
export const startedLines = Effect.fnUntraced(function* <Line, E extends Refusal, R>(
  lines: Stream.Stream<Line, E, R>,
  lineOfFailure: (failure: E) => Line
) {
  const pull = yield* Stream.toPull(lines)
  const first = yield* answering(
    Pull.catchDone(pull, () => Effect.die(new Error("the events of an execution ended before they began")))
  )
  const rest = Stream.fromPull(Effect.succeed(pull)).pipe(
    Stream.catch((failure) => Stream.succeed(lineOfFailure(failure)))
  )
  return Stream.concat(Stream.fromIterable(first), rest)
})

/** The same of an execution's events. */
export const startedStream = <E extends Refusal, R>(
  events: Stream.Stream<ExecutionStarted | ExecutionEvent, E, R>
) => startedLines(Stream.map(events, executionLine), failedLine)
