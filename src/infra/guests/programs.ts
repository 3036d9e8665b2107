/**
 * Runs small helper programs to their end. Their words are never passed on: a caller tells what failed in a sentence
 * of its own, by the status.
 */
import * as Effect from "effect/Effect"
import { type StdioOptions, spawn } from "node:child_process"

/** Environment of every program that the daemon starts: nothing of its own, nothing of a guest. */
export const programEnvironment = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C"
}

/** Status of a program that could not be started at all. */
export const notStarted = 127

export interface ProgramResult {
  /** Exit status; 128 where a signal ended it. */
  readonly status: number
  readonly output: string
}

/** Runs a program and answers its status and the first of its standard output. Interrupting kills it. */
export const runProgram = (options: {
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  readonly stdio?: StdioOptions
  readonly outputCharactersMax?: number
}): Effect.Effect<ProgramResult> =>
  Effect.callback<ProgramResult>((resume) => {
    const [program, ...rest] = options.argv
    const started = spawn(program, rest, {
      stdio: options.stdio ?? ["ignore", "pipe", "ignore"],
      env: programEnvironment
    })
    let output = ""
    started.stdout?.setEncoding("utf8").on("data", (text: string) => {
      if (output.length < (options.outputCharactersMax ?? 4_096)) output += text
    })
    started.once("error", () => resume(Effect.succeed({ status: notStarted, output: "" })))
    started.once("close", (status) => resume(Effect.succeed({ status: status ?? 128, output })))
    return Effect.sync(() => {
      started.kill("SIGKILL")
    })
  })
