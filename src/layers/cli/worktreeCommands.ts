/** The commands on the worktrees of a Project: flags and help. What they do is loaded when one is run. */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { load, projectArgument, running, undefinedOr } from "./root.ts"

const nameArgument = Argument.String("name").pipe(
  Argument.withDescription("Name of the worktree within the Project")
)

const create = Command.make(
  "create",
  {
    project: projectArgument,
    repository: Argument.String("repository").pipe(
      Argument.withDescription("Path of the repository below the sandbox's workspace")
    ),
    name: nameArgument,
    branch: Flag.String("branch").pipe(
      Flag.optional,
      Flag.withDescription(
        "Branch to check out, made where it is not there; else one with the worktree's name"
      )
    ),
    from: Flag.String("from").pipe(
      Flag.optional,
      Flag.withMetavar("COMMIT"),
      Flag.withDescription("Where a branch that is made begins; else the repository's HEAD")
    )
  },
  ({ branch, from, ...named }) =>
    running((place) =>
      Effect.flatMap(
        load(() => import("./worktree.ts")),
        (verbs) =>
          verbs.createWorktree(place, { ...named, branch: undefinedOr(branch), from: undefinedOr(from) })
      )
    )
).pipe(Command.withDescription("Make a worktree of a repository, and tell where it lies in the sandbox"))

const list = Command.make("list", { project: projectArgument }, ({ project }) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./worktree.ts")),
      (verbs) => verbs.listWorktrees(place, project)
    )
  )
).pipe(Command.withDescription("List the Project's worktrees"))

const remove = Command.make(
  "remove",
  {
    project: projectArgument,
    name: nameArgument,
    force: Flag.Boolean("force").pipe(
      Flag.withAlias("f"),
      Flag.withDefault(false),
      Flag.withDescription("Also with changes that are nowhere else, and where git has it locked")
    )
  },
  (options) =>
    running((place) =>
      Effect.flatMap(
        load(() => import("./worktree.ts")),
        (verbs) => verbs.removeWorktree(place, options)
      )
    )
).pipe(Command.withDescription("Remove a worktree with its tree; its branch stays"))

export const worktree = Command.make("worktree").pipe(
  Command.withDescription("Make, list and remove working trees of the repositories in a Project's sandbox"),
  Command.withSubcommands([create, list, remove])
)
