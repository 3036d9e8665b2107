/**
 * Entry point of `holdfast`: parses the command line, runs the verb, and turns every end into an exit code by the
 * table in cli/exitCodes.ts. bin/holdfast.js starts it.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { holdfast } from "./cli/commands.ts"
import { type ExitCode, exitCodes } from "./cli/exitCodes.ts"
import { CliFailure, failed } from "./cli/Failure.ts"
import { make as makeOutput } from "./cli/Output.ts"
import { ExitStatus } from "./cli/root.ts"
import { productVersion } from "./cli/version.ts"

/** The command line up to `--`: what follows belongs to the command of `exec` and `run`. */
const ownArguments = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const end = args.indexOf("--")
  return end === -1 ? args : args.slice(0, end)
}

/** The first word that is no flag and no flag's value. */
const verbOf = (args: ReadonlyArray<string>): string | undefined =>
  ownArguments(args).find(
    (word, place, words) => !word.startsWith("-") && !["--home", "--socket"].includes(words[place - 1] ?? "")
  )

const isExec = (args: ReadonlyArray<string>): boolean =>
  ownArguments(args).includes("exec") || verbOf(args) === "run"
/** A daemon in the foreground that a signal has ended gracefully has done what it was asked for. */
const isUp = (args: ReadonlyArray<string>): boolean => ownArguments(args).includes("up")

const formatter = CliOutput.defaultFormatter({ colors: false })

const write = (stdio: Stdio.Stdio, stream: "stdout" | "stderr", text: string) =>
  Stream.make(`${text}\n`).pipe(
    Stream.run(stream === "stdout" ? stdio.stdout() : stdio.stderr()),
    Effect.ignore
  )

/** Help that was asked for goes to standard output; a wrong command line only to standard error. */
const presenter = (stdio: Stdio.Stdio, json: boolean): CliOutput.Presenter => ({
  present: (event) => {
    switch (event._tag) {
      case "Version":
        return write(stdio, "stdout", `${event.name} ${event.version}`)
      case "Help":
        return write(
          stdio,
          event.reason === "Requested" ? "stdout" : "stderr",
          formatter.formatHelpDoc(event.helpDoc)
        )
      case "InvalidInvocation": {
        const message = event.errors.map((error) => error.message).join("; ")
        const told = `${message}; see \`${event.commandPath.join(" ")} --help\``
        return write(
          stdio,
          "stderr",
          json ? JSON.stringify({ error: { code: "usage", message: told } }) : `holdfast: ${told}`
        )
      }
    }
  }
})

/** Name and innermost frame of a defect; its text may be anybody's. */
const placeOfDefect = (defect: unknown): string => {
  if (!(defect instanceof Error)) return typeof defect
  const frame = (defect.stack ?? "").split("\n").find((line) => /^\s+at /.test(line))
  return `${defect.name}${frame === undefined ? "" : ` ${frame.trim()}`}`
}

const withoutWizard = CliConfig.layer({
  builtIns: GlobalFlag.BuiltIns.filter((flag) => flag !== GlobalFlag.Wizard)
})

/** Runs one command line and answers its exit code. Every failure has been told on standard error. */
export const runCli = Effect.fn("cli.run")(function* (args: ReadonlyArray<string>) {
  const stdio = yield* Stdio.Stdio
  const status = yield* Ref.make<ExitCode>(exitCodes.done)
  const json = ownArguments(args).includes("--json")
  const output = yield* makeOutput(json)
  const usageExit = isExec(args) ? exitCodes.executionFailed : exitCodes.usage
  const tell = (failure: CliFailure): Effect.Effect<ExitCode> =>
    Effect.as(Effect.ignore(output.failure(failure)), isExec(args) ? exitCodes.executionFailed : failure.exit)
  return yield* Command.runWith(holdfast, { version: productVersion })(args).pipe(
    Effect.andThen(Ref.get(status)),
    Effect.catch((error) => {
      if (error instanceof CliFailure) return tell(error)
      return CliError.isCliError(error) && error._tag !== "ShowHelp"
        ? tell(failed("usage", error.message))
        : Effect.succeed(usageExit)
    }),
    Effect.catchDefect((defect) =>
      tell(
        failed("internal", `holdfast met a mistake of its own (${placeOfDefect(defect)}): please report it`)
      )
    ),
    Effect.provideService(ExitStatus, status),
    Effect.provide(Layer.mergeAll(CliOutput.layerPresenter(presenter(stdio, json)), withoutWizard))
  )
})

/** Exit code of the whole process. Interrupted verbs have cleaned up when this is asked. */
const exitCodeOf = (exit: Exit.Exit<unknown, unknown>, interrupted: ExitCode): ExitCode => {
  if (Exit.isSuccess(exit)) return typeof exit.value === "number" ? exit.value : exitCodes.done
  return Cause.hasInterruptsOnly(exit.cause) ? interrupted : exitCodes.failed
}

/** What may stand around the whole program, such as a consumer's own services for what it runs. */
export type Around = <A, E, R>(program: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Runs the process's own command line and ends the process. */
export const main = (around: Around = (program) => program): void => {
  const program = Effect.flatMap(Stdio.Stdio, (stdio) => Effect.flatMap(stdio.args, runCli))
  NodeRuntime.runMain(around(program).pipe(Effect.provide(NodeServices.layer)), {
    disableErrorReporting: true,
    teardown: (exit, onExit) =>
      onExit(exitCodeOf(exit, isUp(process.argv.slice(2)) ? exitCodes.done : exitCodes.interrupted))
  })
}
