/**
 * The commands about environments: `env`, `run`, `lease`, `sweep`. Flags and help; what they do is loaded when one of them
 * is run.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Ref from "effect/Ref"
import type * as Leases from "./environmentLeases.ts"
import type * as Environments from "./environments.ts"
import { commandOptions, executionFlags } from "./executionFlags.ts"
import type { ExitCode } from "./exitCodes.ts"
import type { Place } from "./place.ts"
import { ExitStatus, load, running, undefinedOr } from "./root.ts"

type EnvironmentVerbs = typeof Environments
type LeaseVerbs = typeof Leases

const environments = <A, E, R>(verb: (verbs: EnvironmentVerbs, place: Place) => Effect.Effect<A, E, R>) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./environments.ts")),
      (verbs) => verb(verbs, place)
    )
  )

const leasing = <A, E, R>(verb: (verbs: LeaseVerbs, place: Place) => Effect.Effect<A, E, R>) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./environmentLeases.ts")),
      (verbs) => verb(verbs, place)
    )
  )

/** Ends with the exit code that the verb answers. */
const ending = <E, R>(verb: Effect.Effect<ExitCode, E, R>) =>
  Effect.flatMap(verb, (exit) => Effect.flatMap(ExitStatus, (status) => Ref.set(status, exit)))

const environmentArgument = Argument.String("environment").pipe(
  Argument.withDescription("Name or id of the environment")
)

const configFlags = {
  configFile: Flag.String("config").pipe(
    Flag.optional,
    Flag.withMetavar("FILE"),
    Flag.withDescription("JSON file with the config of the driver or provider")
  ),
  provider: Flag.String("provider").pipe(
    Flag.optional,
    Flag.withMetavar("KEY"),
    Flag.withDescription("Sandbox provider: node, or the driver key of a plugin")
  ),
  settings: Flag.KeyValuePair("set").pipe(
    Flag.withDefault({} as Record<string, string>),
    Flag.withDescription("KEY=VALUE of the config, the value as JSON or text; may be repeated")
  ),
  secrets: Flag.KeyValuePair("secret").pipe(
    Flag.withDefault({} as Record<string, string>),
    Flag.withDescription("KEY=SECRET: name a stored secret in the config and bind it; may be repeated")
  )
}

const create = Command.make(
  "create",
  {
    name: Argument.String("name").pipe(Argument.withDescription("Lower-case letters, digits and hyphens")),
    driver: Flag.Literals("driver", ["sandbox", "local", "ssh", "plugin"]).pipe(
      Flag.withDefault("sandbox" as const),
      Flag.withDescription("Who carries its leases")
    ),
    description: Flag.String("description").pipe(Flag.optional),
    ...configFlags
  },
  ({ configFile, description, provider, ...flags }) =>
    environments((verbs, place) =>
      verbs.createEnvironment(place, {
        ...flags,
        configFile: undefinedOr(configFile),
        description: undefinedOr(description),
        provider: undefinedOr(provider)
      })
    )
).pipe(Command.withDescription("Create an environment that runs can lease"))

const list = Command.make("list", {}, () =>
  environments((verbs, place) => verbs.listEnvironments(place))
).pipe(Command.withDescription("List the environments"))

const show = Command.make("show", { environment: environmentArgument }, ({ environment }) =>
  environments((verbs, place) => verbs.showEnvironment(place, environment))
).pipe(Command.withDescription("Show one environment with its config; secrets stand in it as references"))

const update = Command.make(
  "update",
  {
    environment: environmentArgument,
    name: Flag.String("name").pipe(Flag.optional),
    status: Flag.Literals("status", ["active", "disabled"]).pipe(
      Flag.optional,
      Flag.withDescription("A disabled one takes no new leases")
    ),
    ...configFlags
  },
  ({ configFile, name, provider, status, ...flags }) =>
    environments((verbs, place) =>
      verbs.updateEnvironment(place, {
        ...flags,
        configFile: undefinedOr(configFile),
        name: undefinedOr(name),
        provider: undefinedOr(provider),
        status: undefinedOr(status)
      })
    )
).pipe(Command.withDescription("Change an environment; leases that are there go on as they were acquired"))

const remove = Command.make("delete", { environment: environmentArgument }, ({ environment }) =>
  environments((verbs, place) => verbs.deleteEnvironment(place, environment))
).pipe(
  Command.withDescription(
    "Destroy what its leases keep alive, then delete it; 5 while a lease of it is not over"
  )
)

/** `holdfast env …`. */
export const env = Command.make("env").pipe(
  Command.withDescription("The environments that runs can lease"),
  Command.withSubcommands([create, list, show, update, remove])
)

/** `holdfast run ENVIRONMENT -- COMMAND`. */
export const run = Command.make(
  "run",
  {
    place: environmentArgument,
    ...executionFlags,
    workspace: Flag.Directory("workspace").pipe(
      Flag.optional,
      Flag.withAlias("w"),
      Flag.withDescription("Directory of the daemon's machine that the command works on, or on a copy of")
    )
  },
  ({ place: environment, workspace, ...flags }) =>
    running((place) =>
      Effect.gen(function* () {
        const verbs = yield* load(() => import("./environmentRun.ts"))
        const options = { place: environment, workspace: undefinedOr(workspace), ...commandOptions(flags) }
        yield* ending(verbs.runInEnvironment(place, options))
      })
    )
).pipe(
  Command.withDescription(
    "Lease an environment, run a command in it, release it, and end with the command's exit code"
  )
)

const leaseArgument = Argument.String("lease").pipe(Argument.withDescription("Id of the lease"))

const listLeases = Command.make(
  "list",
  {
    environment: Flag.String("environment").pipe(
      Flag.optional,
      Flag.withDescription("Only those of this environment")
    ),
    run: Flag.String("run").pipe(Flag.optional, Flag.withDescription("Only those of this run"))
  },
  ({ environment, run: ofRun }) =>
    leasing((verbs, place) =>
      verbs.listEnvironmentLeases(place, {
        environment: undefinedOr(environment),
        run: undefinedOr(ofRun)
      })
    )
).pipe(Command.withDescription("List the leases, newest first"))

const asking = (verb: "get" | "release" | "destroy" | "retry", lease: string) =>
  leasing((verbs, place) => ending(verbs.askLease(place, verb, lease)))

const showLease = Command.make("show", { lease: leaseArgument }, ({ lease }) => asking("get", lease)).pipe(
  Command.withDescription("Show one lease")
)

const release = Command.make("release", { lease: leaseArgument }, ({ lease }) =>
  asking("release", lease)
).pipe(Command.withDescription("Hand back what the lease's run holds; 1 while its end is owed"))

const destroy = Command.make("destroy", { lease: leaseArgument }, ({ lease }) =>
  asking("destroy", lease)
).pipe(Command.withDescription("End the lease's resource now; 1 while its end is owed"))

const retry = Command.make("retry", { lease: leaseArgument }, ({ lease }) => asking("retry", lease)).pipe(
  Command.withDescription("Have an owed cleanup tried at the next sweep, whatever its back-off")
)

const why = Command.make("why", { lease: leaseArgument }, ({ lease }) =>
  leasing((verbs, place) => verbs.explainLease(place, lease))
).pipe(
  Command.withDescription("Tell the chain from the acquisition to the proof of the end, with who and why")
)

/** `holdfast lease …`. */
export const lease = Command.make("lease").pipe(
  Command.withDescription("What runs have leased of environments"),
  Command.withSubcommands([listLeases, showLease, release, destroy, retry, why])
)

/** `holdfast sweep`. */
export const sweep = Command.make("sweep", {}, () =>
  leasing((verbs, place) => ending(verbs.sweepCleanups(place)))
).pipe(Command.withDescription("Try every owed cleanup now; 1 when all that it attempted failed"))
