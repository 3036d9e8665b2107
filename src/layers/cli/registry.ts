/**
 * The verbs of `registry`: they look at a state directory with their own eyes and need no daemon. `check` and the dry
 * run change nothing, not even a lock file; `migrate` holds the directory and does what a daemon's start would do.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { openRegistry } from "../../domain/registry/openRegistry.ts"
import { type Outlook, outlookOf, outlookOfRefusal } from "../../domain/registry/outlook.ts"
import { surveyRegistry } from "../../domain/registry/survey.ts"
import { bytes, table } from "../../infra/cli/text.ts"
import { lookAtLock } from "../../infra/filesystem/lockHolder.ts"
import { holdStateDirectory, lockName } from "../../infra/filesystem/OwnerLock.ts"
import { readOnlyDisk } from "../../infra/filesystem/readOnlyCalls.ts"
import * as RegistryFiles from "../../infra/filesystem/RegistryFiles.ts"
import { layer as identifiers } from "../../infra/Identifiers.ts"
import { type ExitCode, exitCodes } from "./exitCodes.ts"
import { CliFailure, failed } from "./Failure.ts"
import { Output } from "./Output.ts"
import type { Place } from "./place.ts"
import { productVersion } from "./version.ts"

/** The outlook with what only the machine knows: where it is, and who holds it. */
export interface DirectoryView extends Outlook {
  readonly directory: string
  readonly holder: string | null
}

const directoryOf = (place: Place, named: string | undefined): string =>
  Path.resolve(named ?? Path.join(place.home, "state"))

const look = Effect.fnUntraced(function* (directory: string) {
  const nowMillis = yield* Clock.currentTimeMillis
  const outlook = yield* surveyRegistry.pipe(
    Effect.match({ onFailure: outlookOfRefusal, onSuccess: (survey) => outlookOf(survey, nowMillis) }),
    Effect.provide(RegistryFiles.layer(directory, readOnlyDisk))
  )
  const { fault, holder } = yield* Effect.sync(() => lookAtLock(directory))
  const lockRefusals = fault === null ? [] : [{ path: lockName, why: fault }]
  return {
    directory,
    holder,
    ...outlook,
    opens: outlook.opens && fault === null,
    refusals: [...lockRefusals, ...outlook.refusals]
  } satisfies DirectoryView
})

const layoutWords = {
  fresh: "none yet: an open makes one",
  "version 1": "version 1: an open migrates it",
  "version 2": "version 2"
} as const

const headLines = (view: DirectoryView): ReadonlyArray<string> =>
  table([
    ["directory", view.directory],
    ...(view.layout === null
      ? [["registry", "cannot be read"]]
      : [
          ["registry", layoutWords[view.layout]],
          ["owner", view.owner ?? "none"],
          ["records", String(view.records.length)],
          [
            "budget",
            `${bytes(view.snapshotBytes)} of ${bytes(view.limitBytes)} (${view.snapshotBytes} bytes)`
          ]
        ]),
    ...(view.holder === null ? [] : [["held by", view.holder]])
  ])

const remnantLines = ({ artifacts }: DirectoryView): ReadonlyArray<string> =>
  artifacts.length === 0
    ? []
    : ["", ...table([["REMNANT", "FATE"], ...artifacts.map(({ fate, path }) => [path, fate])])]

const refusalLines = ({ refusals }: DirectoryView): ReadonlyArray<string> =>
  refusals.length === 0
    ? []
    : ["", ...table([["REFUSED AT", "WHY"], ...refusals.map(({ path, why }) => [path, why])])]

const verdictOf = ({ holder, opens }: DirectoryView): string => {
  if (!opens) return "An open is refused, and changes nothing."
  return holder === null
    ? "An open succeeds."
    : "An open is refused while the holder lives; what was read may have changed meanwhile."
}

/** The whole view for people. Pure. */
export const checkLines = (view: DirectoryView): ReadonlyArray<string> => {
  const records = view.records.map(({ outlook, sandbox, status }) => [sandbox, status, outlook])
  return [
    ...headLines(view),
    ...(records.length === 0 ? [] : ["", ...table([["SANDBOX", "STATUS", "AN OPEN"], ...records])]),
    ...remnantLines(view),
    ...refusalLines(view),
    "",
    verdictOf(view)
  ]
}

const exitOf = ({ holder, opens }: DirectoryView): ExitCode => {
  if (!opens) return exitCodes.failed
  return holder === null ? exitCodes.done : exitCodes.conflict
}

const requireDirectory = Effect.fnUntraced(function* (directory: string) {
  if (Files.lstatSync(directory, { throwIfNoEntry: false }) !== undefined) return yield* look(directory)
  return yield* new CliFailure({
    code: "state_directory_missing",
    message: `there is no state directory at ${directory}: name the home of its daemon, or the directory itself`,
    exit: exitCodes.notFound
  })
})

/** Says what an open of the directory would do; 0 when it would succeed, 1 when not, 5 while somebody holds it. */
export const checkRegistry = Effect.fn("cli.registry.check")(function* (place: Place, named?: string) {
  const output = yield* Output
  const view = yield* requireDirectory(directoryOf(place, named))
  yield* output.result(view, checkLines(view))
  return exitOf(view)
})

const planLines = (view: DirectoryView): ReadonlyArray<string> => {
  if (view.layout === "version 2") return ["Nothing is to be migrated."]
  if (view.layout === "fresh") return ["There is no registry to migrate."]
  return [
    `A migration would write ${view.records.length} records and the owner's metadata into a directory of their own,`,
    "put it in place as records/, and activate it by a version-2 header. From then on there is no way back."
  ]
}

/** What a migration would do; changes nothing. */
const dryRun = Effect.fnUntraced(function* (view: DirectoryView) {
  const output = yield* Output
  const { layout, opens } = view
  const plan = opens ? planLines(view) : []
  yield* output.result({ ...view, migrates: opens && layout === "version 1" }, [
    ...headLines(view),
    ...remnantLines(view),
    ...refusalLines(view),
    "",
    ...plan,
    ...(opens && view.holder === null ? [] : [verdictOf(view)])
  ])
  return exitOf(view)
})

const ofRefusal = ({ code, message }: { readonly code: string; readonly message: string }): CliFailure =>
  code === "state_directory_held"
    ? new CliFailure({ code, message, exit: exitCodes.conflict })
    : failed(code, message)

const migrate = Effect.fnUntraced(function* (directory: string) {
  yield* holdStateDirectory(directory, `holdfast ${productVersion} registry migrate, process ${process.pid}`)
  yield* openRegistry().pipe(Effect.provide(Layer.merge(RegistryFiles.layer(directory), identifiers)))
}, Effect.scoped)

/**
 * Migrates a version-1 registry as the next start of its daemon would, or says with `dryRun` what that means. Where
 * there is nothing to migrate nothing is done.
 */
export const migrateRegistry = Effect.fn("cli.registry.migrate")(function* (
  place: Place,
  options: { readonly directory: string | undefined; readonly dryRun: boolean }
) {
  const output = yield* Output
  const directory = directoryOf(place, options.directory)
  const view = yield* requireDirectory(directory)
  if (options.dryRun) return yield* dryRun(view)
  if (view.opens && view.layout !== "version 1") {
    yield* output.result({ ...view, migrated: false }, planLines(view))
    return exitCodes.done
  }
  yield* Effect.mapError(migrate(directory), ofRefusal)
  const after = yield* look(directory)
  yield* output.result({ ...after, migrated: true }, [
    ...headLines(after),
    "",
    `Migrated ${after.records.length} records to version 2.`
  ])
  return exitCodes.done
})
