/**
 * The command tree of `holdfast`: names, flags and help, nothing else. Every verb is loaded when it is run, so that
 * `--help` and a wrong command line answer at once.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Ref from "effect/Ref"
import { env, lease, run, sweep } from "./environmentCommands.ts"
import { desktop } from "./desktopCommands.ts"
import { commandOptions, executionFlags, supervisorFlag } from "./executionFlags.ts"
import { provision, rebuild, recover, restart, start, stop } from "./lifecycleCommands.ts"
import { node } from "./nodeCommands.ts"
import { history, leases, operations } from "./operationCommands.ts"
import { provider, secret } from "./providerCommands.ts"
import { registry } from "./registryCommands.ts"
import { snapshot } from "./snapshotCommands.ts"
import { worktree } from "./worktreeCommands.ts"
import { ExitStatus, load, projectArgument, root, running, undefinedOr } from "./root.ts"

const create = Command.make(
  "create",
  { name: Argument.String("name").pipe(Argument.withDescription("Lower-case letters, digits and hyphens")) },
  ({ name }) =>
    running((place) =>
      Effect.flatMap(
        load(() => import("./project.ts")),
        (verbs) => verbs.createProject(place, name)
      )
    )
).pipe(Command.withDescription("Create a Project"))

const list = Command.make("list", {}, () =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./project.ts")),
      (verbs) => verbs.listProjects(place)
    )
  )
).pipe(Command.withDescription("List the Projects"))

const project = Command.make("project").pipe(
  Command.withDescription("Create and list Projects"),
  Command.withSubcommands([create, list])
)

const remove = Command.make(
  "delete",
  {
    project: projectArgument,
    yes: Flag.Boolean("yes").pipe(
      Flag.withAlias("y"),
      Flag.withDefault(false),
      Flag.withDescription("Confirm every path of the preview without asking")
    )
  },
  (options) =>
    running((place) =>
      Effect.flatMap(
        load(() => import("./project.ts")),
        (verbs) => verbs.deleteProject(place, options)
      )
    )
).pipe(
  Command.withDescription("Delete a Project: show every path, ask, remove, and print every proof of absence")
)

const exec = Command.make("exec", { project: projectArgument, ...executionFlags }, (flags) =>
  running((place) =>
    Effect.gen(function* () {
      const verbs = yield* load(() => import("./execute.ts"))
      const exit = yield* verbs.execute(place, { project: flags.project, ...commandOptions(flags) })
      yield* Ref.set(yield* ExitStatus, exit)
    })
  )
).pipe(Command.withDescription("Run a command in the Project's sandbox and end with its exit code"))

const status = Command.make("status", { project: projectArgument }, (flags) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./status.ts")),
      (verbs) => verbs.showStatus(place, flags.project)
    )
  )
).pipe(Command.withDescription("Show a Project's runtime, operations and executions"))

const doctor = Command.make("doctor", {}, () =>
  running((place) =>
    Effect.gen(function* () {
      const verbs = yield* load(() => import("./doctor.ts"))
      yield* Ref.set(yield* ExitStatus, yield* verbs.runDoctor(place))
    })
  )
).pipe(Command.withDescription("Check this machine, with or without a daemon, and say what to install"))

const up = Command.make(
  "up",
  {
    databaseUrl: Flag.String("database-url").pipe(
      Flag.optional,
      Flag.withMetavar("URL"),
      Flag.withDescription("PostgreSQL 15 or newer; else HOLDFAST_DATABASE_URL, else the embedded one")
    ),
    supervisor: supervisorFlag
  },
  (flags) =>
    running((place) =>
      Effect.flatMap(
        load(() => import("./up.ts")),
        (verbs) =>
          verbs.runUp(place, {
            databaseUrl: undefinedOr(flags.databaseUrl),
            supervisor: undefinedOr(flags.supervisor)
          })
      )
    )
).pipe(Command.withDescription("Run the daemon in the foreground until it is told to stop"))

/** The whole tree. Fails with a `CliFailure` or with what the parser refuses. */
export const holdfast = root.pipe(
  Command.withSubcommands([
    up,
    project,
    provision,
    start,
    stop,
    restart,
    rebuild,
    recover,
    remove,
    snapshot,
    desktop,
    worktree,
    exec,
    status,
    operations,
    leases,
    history,
    env,
    run,
    lease,
    sweep,
    secret,
    provider,
    doctor,
    node,
    registry
  ])
)
