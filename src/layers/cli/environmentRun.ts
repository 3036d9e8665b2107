/**
 * The verb `run`: one command in an environment, in a lease of its own. It streams the output as it comes and ends with the
 * command's own exit code. Leaving (Ctrl-C, a closed terminal) hangs up, which ends the command and the lease.
 */
import * as Os from "node:os"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import type { EnvironmentRunRequest } from "../../infra/http/environmentApi.ts"
import type { RunLine } from "../../infra/http/environmentViews.ts"
import { connected, type Target } from "./connection.ts"
import { type CommandOptions, requestOf } from "./execute.ts"
import { CliFailure, usage } from "./Failure.ts"
import { type ExitCode, exitCodes } from "./exitCodes.ts"
import { given } from "./given.ts"
import { Output } from "./Output.ts"

export interface RunOptions extends CommandOptions {
  readonly place: string
  /** A directory of the daemon's machine. */
  readonly workspace: string | undefined
}

const ownFailure = (code: string, message: string): CliFailure =>
  new CliFailure({ code, message, exit: exitCodes.executionFailed })

const signalNumber = (signal: string): number =>
  Object.entries(Os.constants.signals).find(([name]) => name === signal)?.[1] ?? 0

/** The last line of the stream as an exit code; a stream without one was broken off. */
export const runExitOf = (last: RunLine | undefined): ExitCode | CliFailure => {
  if (last?.type === "failed") return ownFailure(last.code, last.message)
  if (last?.type !== "exited")
    return ownFailure(
      "connection_lost",
      "the daemon hung up before the command had ended: its lease is ended"
    )
  if (last.timedOut) return exitCodes.timedOut
  return last.exitCode ?? 128 + signalNumber(last.signal ?? "")
}

const encoder = new TextEncoder()

const showLine = Effect.fnUntraced(function* (line: RunLine) {
  const output = yield* Output
  if (output.json) return yield* output.record(line)
  if (line.type === "output") return yield* output.bytes(line.stream, encoder.encode(line.text))
  if (line.type === "truncated")
    yield* output.tell(`holdfast: ${line.stream} passed ${line.bytesMax} bytes; the rest is dropped`)
  if (line.type === "exited" && line.timedOut) yield* output.tell("holdfast: the command timed out")
  if (line.type === "released" && line.status === "pending_cleanup")
    yield* output.tell(
      `holdfast: the end of lease ${line.lease} is owed; see holdfast lease why ${line.lease}`
    )
})

const payloadOf = Effect.fnUntraced(function* (options: RunOptions) {
  const { argv, environment, standardInput, timeoutMillis, workingDirectory } = yield* requestOf(options)
  const text =
    standardInput === undefined
      ? undefined
      : yield* Effect.try({
          try: () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(standardInput),
          catch: () => usage("standard input is no UTF-8 text: put it into the workspace")
        })
  const payload: EnvironmentRunRequest = {
    environment: options.place,
    argv,
    variables: environment,
    ...given("workingDirectory", workingDirectory),
    ...given("timeoutMillis", timeoutMillis),
    ...given("standardInput", text),
    ...given("workspacePath", options.workspace === undefined ? undefined : Path.resolve(options.workspace))
  }
  return payload
})

/** Runs the command and answers its exit code; every failure of holdfast itself has the exit code 255. */
export const runInEnvironment = Effect.fn("cli.run")(function* (target: Target, options: RunOptions) {
  const payload = yield* payloadOf(options)
  const last = yield* Ref.make<RunLine | undefined>(undefined)
  yield* connected(target, ({ call, client, stream }) =>
    Effect.flatMap(call(client.runs.run({ payload })), (lines) =>
      Stream.runForEach(stream(lines), (line) => Effect.andThen(Ref.set(last, line), showLine(line)))
    )
  )
  const exit = runExitOf(yield* Ref.get(last))
  return typeof exit === "number" ? exit : yield* exit
})
