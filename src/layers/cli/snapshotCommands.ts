/** The commands on the snapshots of a Project's workspace: flags and help. What they do is loaded when one is run. */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import type { OperationAction } from "../../domain/operations/Operation.ts"
import { type RequestFlags, requestFlags, requesting } from "./lifecycleCommands.ts"
import { load, projectArgument, running } from "./root.ts"

const snapshotArgument = Argument.String("snapshot").pipe(
  Argument.withDescription("Name of the snapshot within the Project")
)

const named = { ...requestFlags, snapshot: snapshotArgument }

const asking = (action: OperationAction, flags: RequestFlags & { readonly snapshot: string }) =>
  Effect.gen(function* () {
    const { snapshotIdOf } = yield* load(() => import("./snapshot.ts"))
    return yield* requesting(action, flags, { snapshot: yield* snapshotIdOf(flags.snapshot) })
  })

const create = Command.make("create", named, (flags) => asking("snapshot", flags)).pipe(
  Command.withDescription("Copy the Project's workspace; its machine stands still for the copy and goes on")
)

const restore = Command.make("restore", named, (flags) => asking("restore", flags)).pipe(
  Command.withDescription(
    "Put a machine with the workspace of a snapshot in the place of the Project's; the present workspace is gone then"
  )
)

const list = Command.make("list", { project: projectArgument }, ({ project }) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./snapshot.ts")),
      (verbs) => verbs.listSnapshots(place, project)
    )
  )
).pipe(Command.withDescription("List the Project's snapshots"))

const remove = Command.make("delete", { project: projectArgument, snapshot: snapshotArgument }, (options) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./snapshot.ts")),
      (verbs) => verbs.deleteSnapshot(place, options)
    )
  )
).pipe(Command.withDescription("Remove one snapshot for good"))

export const snapshot = Command.make("snapshot").pipe(
  Command.withDescription("Keep, bring back and remove copies of a Project's workspace"),
  Command.withSubcommands([create, list, restore, remove])
)
