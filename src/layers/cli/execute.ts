/**
 * The verb `exec`: runs one command in a Project's sandbox, streams its output as it comes, and ends with the
 * command's own exit code. Leaving (Ctrl-C, a closed terminal) hangs up, which cancels the command.
 */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as Base64 from "effect/encoding/Base64"
import { requestBodyBytesMax } from "../../domain/Bounds.ts"
import type { ExecutionRequest } from "../../infra/http/requestTerms.ts"
import type { ExecutionLine } from "../../infra/http/Views.ts"
import { connected, type Target } from "./connection.ts"
import { CliFailure, outputClosed, usage } from "./Failure.ts"
import { type ExitCode, exitCodes } from "./exitCodes.ts"
import { Output } from "./Output.ts"

/** What is to be run, wherever. */
export interface CommandOptions {
  readonly argv: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  readonly timeoutSeconds: number | undefined
  /** Send this process's standard input, read to its end first. */
  readonly standardInput: boolean
}

export interface ExecuteOptions extends CommandOptions {
  readonly project: string
}

/** Base64 grows by a third and the rest of the body needs room. */
const standardInputBytesMax = Math.floor((requestBodyBytesMax * 2) / 3)

const readStandardInput = Effect.gen(function* () {
  const stdio = yield* Stdio.Stdio
  const chunks: Array<Uint8Array> = []
  let size = 0
  yield* stdio.stdin.pipe(
    Stream.mapError(outputClosed),
    Stream.runForEach((chunk) => {
      chunks.push(chunk)
      size += chunk.length
      return size <= standardInputBytesMax
        ? Effect.void
        : Effect.fail(
            usage(`standard input has more than ${standardInputBytesMax} bytes: put it into the workspace`)
          )
    })
  )
  return new Uint8Array(Buffer.concat(chunks))
})

/** The request for the command; reads standard input where it is wanted. */
export const requestOf = Effect.fnUntraced(function* (options: CommandOptions) {
  const [program, ...rest] = options.argv
  if (program === undefined) return yield* usage("there is no command: put -- before it")
  const request: ExecutionRequest = {
    argv: [program, ...rest],
    environment: options.environment,
    ...(options.workingDirectory === undefined ? {} : { workingDirectory: options.workingDirectory }),
    ...(options.timeoutSeconds === undefined ? {} : { timeoutMillis: options.timeoutSeconds * 1000 }),
    ...(options.standardInput ? { standardInput: yield* readStandardInput } : {})
  }
  return request
})

const ownFailure = (code: string, message: string): CliFailure =>
  new CliFailure({ code, message, exit: exitCodes.executionFailed })

/** The last line of the stream as an exit code; a stream without one was broken off. */
export const exitOf = (last: ExecutionLine | undefined): ExitCode | CliFailure => {
  if (last?.type === "failed") return ownFailure(last.code, last.message)
  if (last?.type !== "exited") {
    return ownFailure("connection_lost", "the daemon hung up before the command had ended: it is cancelled")
  }
  if (last.ended === "timeout") return exitCodes.timedOut
  if (last.ended === "cancelled") return exitCodes.interrupted
  return last.exitCode
}

const recordOf = (line: ExecutionLine): unknown =>
  line.type === "output" ? { ...line, data: Base64.encode(line.data) } : line

const showLine = Effect.fnUntraced(function* (line: ExecutionLine) {
  const output = yield* Output
  if (output.json) return yield* output.record(recordOf(line))
  if (line.type === "output") return yield* output.bytes(line.stream, line.data)
  if (line.type === "truncated") {
    yield* output.tell(`holdfast: ${line.stream} passed ${line.bytesMax} bytes; the rest is dropped`)
  }
  if (line.type === "exited" && line.ended === "timeout")
    yield* output.tell("holdfast: the command timed out")
})

/** Shows the lines as they come and answers the command's exit code. */
export const showExecution = Effect.fnUntraced(function* <R>(
  lines: Stream.Stream<ExecutionLine, CliFailure, R>
) {
  const last = yield* Ref.make<ExecutionLine | undefined>(undefined)
  yield* Stream.runForEach(lines, (line) => Effect.andThen(Ref.set(last, line), showLine(line)))
  const exit = exitOf(yield* Ref.get(last))
  return typeof exit === "number" ? exit : yield* exit
})

/** Runs the command and answers its exit code; every failure of holdfast itself has the exit code 255. */
export const execute = Effect.fn("cli.execute")(function* (target: Target, options: ExecuteOptions) {
  const payload = yield* requestOf(options)
  return yield* connected(target, ({ call, client, stream }) =>
    Effect.flatMap(call(client.executions.run({ params: { project: options.project }, payload })), (lines) =>
      showExecution(stream(lines))
    )
  )
})
