/**
 * What every command of `holdfast` shares: the flags, the place that they name, the output, and where a verb leaves
 * its exit code. The commands themselves are in commands.ts and lifecycleCommands.ts.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Option from "effect/Option"
import type * as Ref from "effect/Ref"
import { type ExitCode, exitCodesHelp } from "./exitCodes.ts"
import { make as makeOutput, Output } from "./Output.ts"
import { type Place, placeOf } from "./place.ts"

/** Where a verb leaves an exit code other than that of its failure. */
export class ExitStatus extends Context.Service<ExitStatus, Ref.Ref<ExitCode>>()(
  "holdfast/layers/cli/root/ExitStatus"
) {}

const sharedFlags = {
  json: Flag.Boolean("json").pipe(
    Flag.withDefault(false),
    Flag.withDescription("One JSON document on standard output (one a line for streams), errors as JSON")
  ),
  home: Flag.String("home").pipe(
    Flag.optional,
    Flag.withMetavar("DIR"),
    Flag.withDescription(
      "Home of the daemon; else HOLDFAST_HOME, else /var/lib/holdfast for root and ~/.local/share/holdfast for others"
    )
  ),
  socket: Flag.String("socket").pipe(
    Flag.optional,
    Flag.withMetavar("PATH"),
    Flag.withDescription("Socket of the daemon; else holdfast.sock in its home")
  )
}

const exitCodesText = exitCodesHelp.map(([code, meaning]) => `    ${code.padEnd(9)} ${meaning}`).join("\n")

/** The root of the tree with the flags that every verb shares. */
export const root = Command.make("holdfast").pipe(
  Command.withSharedFlags(sharedFlags),
  Command.withDescription(`The durable control plane for sandboxes.\n\n  Exit codes:\n${exitCodesText}`),
  Command.withShortDescription("The durable control plane for sandboxes")
)

export const undefinedOr = <A>(option: Option.Option<A>): A | undefined => Option.getOrUndefined(option)

/** Runs a verb with its output and the place that the shared flags name. */
export const running = <A, E, R>(verb: (place: Place) => Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const shared = yield* root
    const output = yield* makeOutput(shared.json)
    const place = placeOf({ home: undefinedOr(shared.home), socket: undefinedOr(shared.socket) })
    return yield* Effect.provideService(verb(place), Output, output)
  })

/** Loads a verb when it is run. */
export const load = <M>(module: () => Promise<M>): Effect.Effect<M> => Effect.promise(module)

export const projectArgument = Argument.String("project").pipe(
  Argument.withDescription("Name or id of the Project")
)
