/** The verbs below `worktree`: making a working tree of a repository in the Project's sandbox, listing and removing. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { RepositoryName } from "../../domain/leases/RepositoryClaim.ts"
import { BranchName, StartPoint, WorktreeName } from "../../domain/worktrees/Worktree.ts"
import { table } from "../../infra/cli/text.ts"
import { connected, type Target } from "./connection.ts"
import { usage } from "./Failure.ts"
import { Output } from "./Output.ts"

/** A word as it was typed; one of a wrong form is refused before anybody is asked. */
const typed = <A>(schema: Schema.Decoder<A>, word: string, expected: string) =>
  Schema.decodeUnknownEffect(schema)(word).pipe(Effect.mapError(() => usage(`"${word}" is not ${expected}`)))

const nameOf = (word: string) =>
  typed(WorktreeName, word, "a name of a worktree: letters, digits, `_`, and inner dots and hyphens")

export interface WorktreeOptions {
  readonly project: string
  readonly repository: string
  readonly name: string
  readonly branch: string | undefined
  readonly from: string | undefined
}

const payloadOf = Effect.fnUntraced(function* ({ branch, from, name, repository }: WorktreeOptions) {
  return {
    repository: yield* typed(RepositoryName, repository, "the path of a repository below the workspace"),
    name: yield* nameOf(name),
    ...(branch === undefined ? {} : { branch: yield* typed(BranchName, branch, "a name of a branch") }),
    ...(from === undefined ? {} : { startPoint: yield* typed(StartPoint, from, "a commit of git") })
  }
})

/** Makes a worktree and tells where it lies in the sandbox. */
export const createWorktree = Effect.fn("cli.createWorktree")(function* (
  target: Target,
  options: WorktreeOptions
) {
  const output = yield* Output
  const payload = yield* payloadOf(options)
  const { project } = options
  const made = yield* connected(target, ({ call, client }) =>
    call(client.worktrees.create({ params: { project }, payload }))
  )
  yield* output.result(made, [
    `made worktree ${made.name} of ${made.repository} on branch ${made.branch}: ${made.path}`
  ])
})

/** Lists the Project's worktrees, the oldest first. */
export const listWorktrees = Effect.fn("cli.listWorktrees")(function* (target: Target, project: string) {
  const output = yield* Output
  const worktrees = yield* connected(target, ({ call, client }) =>
    call(client.worktrees.list({ params: { project } }))
  )
  const rows = worktrees.map(({ branch, createdAtMillis, name, path, repository, state }) => [
    name,
    repository,
    branch,
    state,
    path,
    new Date(createdAtMillis).toISOString()
  ])
  yield* output.result(
    worktrees,
    table([["WORKTREE", "REPOSITORY", "BRANCH", "STATE", "PATH", "CREATED"], ...rows])
  )
})

/** Removes a worktree with its tree. */
export const removeWorktree = Effect.fn("cli.removeWorktree")(function* (
  target: Target,
  options: { readonly project: string; readonly name: string; readonly force: boolean }
) {
  const output = yield* Output
  const { force, project } = options
  const name = yield* nameOf(options.name)
  yield* connected(target, ({ call, client }) =>
    call(client.worktrees.remove({ params: { project, name }, query: force ? { force: "true" } : {} }))
  )
  yield* output.result({ project, worktree: name }, [`removed worktree ${name} of ${project}`])
})
