/** Flags that more than one verb takes: a command that is run somewhere, and who carries sandboxes. */
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { executionTimeoutMillisMax } from "../../domain/Bounds.ts"
import type { CommandOptions } from "./execute.ts"
import { undefinedOr } from "./root.ts"

export const executionFlags = {
  command: Argument.String("command").pipe(
    Argument.withDescription("Put -- before it: … -- COMMAND …"),
    Argument.variadic({ min: 1 })
  ),
  environment: Flag.KeyValuePair("env").pipe(
    Flag.withAlias("e"),
    Flag.withDefault({} as Record<string, string>),
    Flag.withDescription("NAME=VALUE for the command; may be repeated")
  ),
  workingDirectory: Flag.String("cwd").pipe(
    Flag.optional,
    Flag.withDescription("Absolute path in the sandbox; else its workspace")
  ),
  timeout: Flag.Int("timeout").pipe(
    Flag.withSchema(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: executionTimeoutMillisMax / 1000 }))
    ),
    Flag.optional,
    Flag.withDescription("Seconds after which the command is ended")
  ),
  stdin: Flag.Boolean("stdin").pipe(
    Flag.withAlias("i"),
    Flag.withDefault(false),
    Flag.withDescription("Read standard input to its end and give it to the command")
  )
}

/** The command that the flags describe. */
export const commandOptions = (flags: {
  readonly command: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory: Option.Option<string>
  readonly timeout: Option.Option<number>
  readonly stdin: boolean
}): CommandOptions => ({
  argv: flags.command,
  environment: flags.environment,
  workingDirectory: undefinedOr(flags.workingDirectory),
  timeoutSeconds: undefinedOr(flags.timeout),
  standardInput: flags.stdin
})

export const supervisorFlag = Flag.Literals("supervisor", ["auto", "bubblewrap", "unshare"]).pipe(
  Flag.optional,
  Flag.withDescription("Who carries sandboxes; else HOLDFAST_SUPERVISOR, else the strongest that works here")
)
