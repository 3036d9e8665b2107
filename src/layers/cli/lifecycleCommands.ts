/**
 * The commands that ask for something on a Project's machine: flags and help. What they do is told by lifecycle.ts, which is loaded
 * when one of them is run.
 */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { OperationAction, OperationParameters } from "../../domain/operations/Operation.ts"
import { given } from "./given.ts"
import { load, projectArgument, running, undefinedOr } from "./root.ts"

/** The flags of every verb that asks for an operation. */
export const requestFlags = {
  project: projectArgument,
  noWait: Flag.Boolean("no-wait").pipe(
    Flag.withDefault(false),
    Flag.withoutNegation,
    Flag.withDescription("Answer as soon as the operation is durable")
  ),
  requestId: Flag.String("request-id").pipe(
    Flag.optional,
    Flag.withDescription("Key under which the request may be repeated without being done twice")
  ),
  expectedGeneration: Flag.Int("expected-generation").pipe(
    Flag.optional,
    Flag.withDescription("Refuse when the runtime has another generation")
  )
}

export interface RequestFlags {
  readonly project: string
  readonly noWait: boolean
  readonly requestId: Option.Option<string>
  readonly expectedGeneration: Option.Option<number>
}

export const requesting = (action: OperationAction, flags: RequestFlags, parameters?: OperationParameters) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./lifecycle.ts")),
      (verbs) =>
        verbs.requestOperation(place, {
          action,
          project: flags.project,
          wait: !flags.noWait,
          requestId: undefinedOr(flags.requestId),
          expectedGeneration: undefinedOr(flags.expectedGeneration),
          parameters
        })
    )
  )

const positive = Schema.Int.check(Schema.isGreaterThan(0))

const machineFlags = {
  image: Flag.String("image").pipe(
    Flag.optional,
    Flag.withDescription("`host`, or the absolute path of a root file system")
  ),
  supervisor: Flag.String("supervisor").pipe(Flag.optional, Flag.withDescription("Who carries the sandbox")),
  cpuMillis: Flag.Int("cpu-millis").pipe(Flag.withSchema(positive), Flag.optional),
  memoryMebibytes: Flag.Int("memory-mib").pipe(Flag.withSchema(positive), Flag.optional),
  processesMax: Flag.Int("processes").pipe(Flag.withSchema(positive), Flag.optional)
}

interface MachineFlags {
  readonly image: Option.Option<string>
  readonly supervisor: Option.Option<string>
  readonly cpuMillis: Option.Option<number>
  readonly memoryMebibytes: Option.Option<number>
  readonly processesMax: Option.Option<number>
}

/** The parameters that were given; what was not is left to the product. */
const parametersOf = (flags: MachineFlags): OperationParameters => ({
  ...given("image", Option.getOrUndefined(flags.image)),
  ...given("supervisor", Option.getOrUndefined(flags.supervisor)),
  ...given("cpuMillis", Option.getOrUndefined(flags.cpuMillis)),
  ...given("memoryMebibytes", Option.getOrUndefined(flags.memoryMebibytes)),
  ...given("processesMax", Option.getOrUndefined(flags.processesMax))
})

const adoptDisk = Flag.String("adopt-disk").pipe(
  Flag.optional,
  Flag.withMetavar("PATH"),
  Flag.withDescription(
    "Directory of the host's that becomes the workspace; nothing of Holdfast's ever removes it"
  )
)

export const provision = Command.make("provision", { ...requestFlags, ...machineFlags, adoptDisk }, (flags) =>
  requesting("provision", flags, {
    ...parametersOf(flags),
    ...given("adoptDisk", Option.getOrUndefined(flags.adoptDisk))
  })
).pipe(Command.withDescription("Build the Project's machine and start it"))

export const start = Command.make("start", requestFlags, (flags) => requesting("start", flags)).pipe(
  Command.withDescription("Start the Project's machine")
)

export const stop = Command.make("stop", requestFlags, (flags) => requesting("stop", flags)).pipe(
  Command.withDescription("Stop the Project's machine; its disk stays")
)

export const restart = Command.make("restart", requestFlags, (flags) => requesting("restart", flags)).pipe(
  Command.withDescription("Stop the Project's machine and start it again")
)

export const rebuild = Command.make("rebuild", { ...requestFlags, ...machineFlags }, (flags) =>
  requesting("rebuild", flags, parametersOf(flags))
).pipe(
  Command.withDescription(
    "Put a new machine in the place of the Project's, as it was but for what is given here; its disk stays"
  )
)

export const recover = Command.make("recover", requestFlags, (flags) => requesting("recover", flags)).pipe(
  Command.withDescription("Bring the Project's machine up again, whatever is left of it; its disk stays")
)
