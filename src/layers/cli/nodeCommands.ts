/**
 * The commands below `node`: flags and help. What they do is told by node.ts, which is loaded when one of them is run.
 * They ask whichever daemon serves the socket, with Projects or without.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import { sandboxStopGraceMillisMax, runtimeProcessesDefault } from "../../domain/Bounds.ts"
import { GuestSignal } from "../../domain/guests/GuestSpec.ts"
import { commandOptions, executionFlags, supervisorFlag } from "./executionFlags.ts"
import { ExitStatus, load, running, undefinedOr } from "./root.ts"

const loaded = load(() => import("./node.ts"))

const sandboxArgument = Argument.String("sandbox").pipe(Argument.withDescription("Id of the sandbox: sb-…"))

const up = Command.make("up", { supervisor: supervisorFlag }, (flags) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./up.ts")),
      (verbs) => verbs.runNodeUp(place, { supervisor: undefinedOr(flags.supervisor) })
    )
  )
).pipe(Command.withDescription("Run the node's daemon alone, without a database, until it is told to stop"))

const pairs = (name: string, description: string) =>
  Flag.KeyValuePair(name).pipe(
    Flag.withDefault({} as Record<string, string>),
    Flag.withDescription(description)
  )

const create = Command.make(
  "create",
  {
    command: Argument.String("command").pipe(
      Argument.withDescription("Main command; put -- before it. None: the sandbox waits for commands"),
      Argument.variadic()
    ),
    cpu: Flag.String("cpu").pipe(Flag.withDefault("1"), Flag.withDescription("CPUs: 2, 0.5, 500m")),
    memory: Flag.String("memory").pipe(
      Flag.withDefault("512Mi"),
      Flag.withDescription("Bytes of memory: 512Mi, 1.5G")
    ),
    processesMax: Flag.Int("processes").pipe(
      Flag.optional,
      Flag.withDescription(`Most processes at a time; else ${runtimeProcessesDefault}`)
    ),
    image: Flag.String("image").pipe(
      Flag.optional,
      Flag.withDescription("`host`, or the absolute path of a root file system")
    ),
    life: Flag.Int("life").pipe(Flag.optional, Flag.withDescription("Seconds until it expires; else a day")),
    environment: pairs("env", "NAME=VALUE for every command; may be repeated. Others may see it: ps"),
    environmentFile: Flag.FileText("env-file").pipe(
      Flag.optional,
      Flag.withMetavar("PATH"),
      Flag.withDescription("NAME=VALUE, one a line, for secrets")
    ),
    metadata: pairs("metadata", "NAME=VALUE to remember; may be repeated"),
    requestId: Flag.String("request-id").pipe(
      Flag.optional,
      Flag.withDescription("Key under which the request may be repeated without being done twice")
    )
  },
  (flags) =>
    running((place) =>
      Effect.flatMap(loaded, (verbs) =>
        verbs.createSandbox(place, {
          argv: flags.command,
          cpu: flags.cpu,
          memory: flags.memory,
          processesMax: undefinedOr(flags.processesMax),
          image: undefinedOr(flags.image),
          lifeSeconds: undefinedOr(flags.life),
          environment: flags.environment,
          environmentText: undefinedOr(flags.environmentFile),
          metadata: flags.metadata,
          requestId: undefinedOr(flags.requestId)
        })
      )
    )
).pipe(Command.withDescription("Create a sandbox, start it, and wait until it answers"))

const list = Command.make("list", {}, () =>
  running((place) => Effect.flatMap(loaded, (verbs) => verbs.listSandboxes(place)))
).pipe(Command.withDescription("List the sandboxes of the node"))

const inspect = Command.make("inspect", { sandbox: sandboxArgument }, ({ sandbox }) =>
  running((place) => Effect.flatMap(loaded, (verbs) => verbs.inspectSandbox(place, sandbox)))
).pipe(Command.withDescription("Show a sandbox, and whether its guest answers now"))

const exec = Command.make("exec", { sandbox: sandboxArgument, ...executionFlags }, (flags) =>
  running((place) =>
    Effect.gen(function* () {
      const verbs = yield* loaded
      const exit = yield* verbs.executeIn(place, flags.sandbox, commandOptions(flags))
      yield* Ref.set(yield* ExitStatus, exit)
    })
  )
).pipe(Command.withDescription("Run a command in the sandbox and end with its exit code"))

const endpoint = Command.make(
  "endpoint",
  {
    sandbox: sandboxArgument,
    port: Argument.Int("port").pipe(Argument.withDescription("TCP port of the sandbox's own loopback"))
  },
  ({ port, sandbox }) =>
    running((place) => Effect.flatMap(loaded, (verbs) => verbs.showEndpoint(place, sandbox, port)))
).pipe(Command.withDescription("Print the path of a UNIX socket that leads to a port of the sandbox"))

const pause = Command.make("pause", { sandbox: sandboxArgument }, ({ sandbox }) =>
  running((place) => Effect.flatMap(loaded, (verbs) => verbs.pauseSandbox(place, sandbox)))
).pipe(Command.withDescription("Freeze a running sandbox; it keeps its memory and its reservation"))

const resume = Command.make("resume", { sandbox: sandboxArgument }, ({ sandbox }) =>
  running((place) => Effect.flatMap(loaded, (verbs) => verbs.resumeSandbox(place, sandbox)))
).pipe(Command.withDescription("Let a paused sandbox go on"))

const signal = Command.make(
  "signal",
  { sandbox: sandboxArgument, signal: Argument.Literals("signal", GuestSignal.literals) },
  ({ sandbox, signal: sent }) =>
    running((place) => Effect.flatMap(loaded, (verbs) => verbs.signalSandbox(place, sandbox, sent)))
).pipe(Command.withDescription("Send a signal to the main command of a sandbox"))

const stop = Command.make(
  "stop",
  {
    sandbox: sandboxArgument,
    graceSeconds: Flag.Int("grace").pipe(
      Flag.withSchema(
        Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: sandboxStopGraceMillisMax / 1000 }))
      ),
      Flag.optional,
      Flag.withDescription("Seconds in which it may end by itself")
    )
  },
  (flags) =>
    running((place) =>
      Effect.flatMap(loaded, (verbs) =>
        verbs.stopSandbox(place, flags.sandbox, undefinedOr(flags.graceSeconds))
      )
    )
).pipe(Command.withDescription("End the guest of a sandbox; its record and reservation stay"))

const renew = Command.make(
  "renew",
  {
    sandbox: sandboxArgument,
    life: Flag.Int("life").pipe(Flag.withDescription("Seconds that it shall live from now"))
  },
  (flags) =>
    running((place) =>
      Effect.flatMap(loaded, (verbs) => verbs.renewSandbox(place, flags.sandbox, flags.life))
    )
).pipe(Command.withDescription("Let a sandbox live longer"))

const remove = Command.make("delete", { sandbox: sandboxArgument }, ({ sandbox }) =>
  running((place) => Effect.flatMap(loaded, (verbs) => verbs.deleteSandbox(place, sandbox)))
).pipe(Command.withDescription("Delete a sandbox with everything in it, and print the proof that it is gone"))

const why = Command.make("why", { sandbox: sandboxArgument }, ({ sandbox }) =>
  running((place) => Effect.flatMap(loaded, (verbs) => verbs.showWhy(place, sandbox)))
).pipe(Command.withDescription("Show the chain from the request for a sandbox to the proof of its end"))

const ready = Command.make("ready", {}, () =>
  running((place) => Effect.flatMap(loaded, (verbs) => verbs.showReadiness(place)))
).pipe(Command.withDescription("Tell whether the node is ready; the exit code is 0 only then"))

export const node = Command.make("node").pipe(
  Command.withDescription("The sandboxes of this node, with or without Projects and a database"),
  Command.withSubcommands([
    up,
    ready,
    create,
    list,
    inspect,
    exec,
    endpoint,
    pause,
    resume,
    signal,
    stop,
    renew,
    remove,
    why
  ])
)
