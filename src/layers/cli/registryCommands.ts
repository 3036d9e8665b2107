/**
 * The commands below `registry`: flags and help. What they do is told by registry.ts, which is loaded when one of them
 * is run.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Ref from "effect/Ref"
import { ExitStatus, load, running, undefinedOr } from "./root.ts"

const loaded = load(() => import("./registry.ts"))

const directoryArgument = Argument.String("directory").pipe(
  Argument.optional,
  Argument.withDescription("State directory; else the one in the home")
)

const check = Command.make("check", { directory: directoryArgument }, (flags) =>
  running((place) =>
    Effect.gen(function* () {
      const verbs = yield* loaded
      const exit = yield* verbs.checkRegistry(place, undefinedOr(flags.directory))
      yield* Ref.set(yield* ExitStatus, exit)
    })
  )
).pipe(
  Command.withDescription(
    "Say what an open would do with every record and every remnant, and change nothing: 0 when it would succeed, 1 when it would be refused, 5 while a daemon holds the directory"
  )
)

const migrate = Command.make(
  "migrate",
  {
    directory: directoryArgument,
    dryRun: Flag.Boolean("dry-run").pipe(
      Flag.withDefault(false),
      Flag.withoutNegation,
      Flag.withDescription("Only say what would be done")
    )
  },
  (flags) =>
    running((place) =>
      Effect.gen(function* () {
        const verbs = yield* loaded
        const exit = yield* verbs.migrateRegistry(place, {
          directory: undefinedOr(flags.directory),
          dryRun: flags.dryRun
        })
        yield* Ref.set(yield* ExitStatus, exit)
      })
    )
).pipe(Command.withDescription("Migrate a version-1 registry, as the next start of its daemon would"))

/** The commands that look at a state directory without a daemon. */
export const registry = Command.make("registry").pipe(
  Command.withDescription("Check and migrate the registry of a state directory"),
  Command.withSubcommands([check, migrate])
)
