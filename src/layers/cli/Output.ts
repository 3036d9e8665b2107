/**
 * Where the CLI writes: results on standard output, everything about the way there on standard error. With `--json`
 * a result is one JSON document, a stream one document a line, and an error `{"error":{"code","message"}}`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { type CliFailure, outputClosed } from "./Failure.ts"

type Written = Effect.Effect<void, CliFailure>

export class Output extends Context.Service<
  Output,
  {
    readonly json: boolean
    /** Standard error is a terminal and the output is for people: progress may be drawn over. */
    readonly drawn: boolean
    /** The result: as JSON, or as lines for people. */
    readonly result: (document: unknown, lines: ReadonlyArray<string>) => Written
    /** One document of a stream; for people nothing. */
    readonly record: (document: unknown) => Written
    /** Lines about the way to the result; for people only. */
    readonly tell: (line: string) => Written
    /** Text on standard error as it is, without a line end. */
    readonly draw: (text: string) => Written
    /** Bytes as they are. */
    readonly bytes: (stream: "stdout" | "stderr", bytes: Uint8Array) => Written
    readonly failure: (failure: CliFailure) => Written
  }
>()("holdfast/layers/cli/Output") {}

/** Whole numbers beyond the safe ones are written as decimal texts, as in the API. */
const exactly = (_: string, value: unknown): unknown => (typeof value === "bigint" ? value.toString() : value)

/** Writes through the `Stdio` of the fiber. */
export const make = Effect.fnUntraced(function* (json: boolean) {
  const stdio = yield* Stdio.Stdio
  const drawn = !json && (yield* stdio.stderrIsTerminal)
  const write = (stream: "stdout" | "stderr", text: string | Uint8Array): Written =>
    Stream.make(text).pipe(
      Stream.run(stream === "stdout" ? stdio.stdout() : stdio.stderr()),
      Effect.mapError(outputClosed)
    )
  const line = (document: unknown): string => `${JSON.stringify(document, exactly)}\n`
  return Output.of({
    json,
    drawn,
    result: (document, lines) =>
      json
        ? write("stdout", line(document))
        : lines.length === 0
          ? Effect.void
          : write("stdout", `${lines.join("\n")}\n`),
    record: (document) => (json ? write("stdout", line(document)) : Effect.void),
    tell: (text) => (json ? Effect.void : write("stderr", `${text}\n`)),
    draw: (text) => (drawn ? write("stderr", text) : Effect.void),
    bytes: write,
    failure: ({ code, message }) =>
      message === ""
        ? Effect.void
        : write("stderr", json ? line({ error: { code, message } }) : `holdfast: ${message} (${code})\n`)
  })
})
