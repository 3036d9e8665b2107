/**
 * Finishes what makings and removals of worktrees have left in the guests of this node: of a daemon that died, of a
 * caller who hung up, of a guest that was stopped meanwhile. Takes no input. A repository that somebody has claimed is
 * left to him, for he may be at work. Source: SP-ADM-05, SP-LEASE-06.
 */
import * as Effect from "effect/Effect"
import { reconcilePageRows, sweptGuestsAtOnceMax } from "../Bounds.ts"
import { Registry } from "../registry/Registry.ts"
import { finishLeftovers } from "./removal.ts"
import { workOnRepository } from "./repositoryWork.ts"
import type { Worktree } from "./Worktree.ts"
import { WorktreeRows } from "./WorktreeRows.ts"

/** Not a failure: somebody works on it, the guest has stopped, or the Project goes with everything in it. */
const lateCodes: ReadonlyArray<string> = [
  "repository_busy",
  "runtime_not_running",
  "project_not_active",
  "lease_lost"
]

type Finished = "done" | "failed" | "left"

const finishRepository = ({ project, repository }: Worktree) =>
  workOnRepository({ project, repository, waitMillis: 0 }, finishLeftovers).pipe(
    Effect.map((count): Finished => (count > 0 ? "done" : "left")),
    Effect.catch((failure) =>
      lateCodes.includes(failure.code)
        ? Effect.succeed<Finished>("left")
        : Effect.as(
            Effect.logWarning(
              `worktrees of repository ${repository} of project ${project} are not finished: ${failure.message}`
            ),
            "failed" as const
          )
    )
  )

/** Each repository once, whatever the number of its rows. */
const repositoriesOf = (rows: ReadonlyArray<Worktree>): ReadonlyArray<Worktree> => [
  ...new Map(rows.map((row) => [`${row.project}/${row.repository}`, row])).values()
]

/** One pass; answers for how many repositories something was done, and for how many it failed. */
export const sweepWorktrees = Effect.fn("worktrees.sweep")(function* () {
  const { node } = yield* Registry
  const rows = yield* WorktreeRows
  const ends: Array<Finished> = []
  let after = 0
  for (;;) {
    const page = yield* rows.unfinished({ node, after, limit: reconcilePageRows })
    ends.push(
      ...(yield* Effect.forEach(repositoriesOf(page), finishRepository, {
        concurrency: sweptGuestsAtOnceMax
      }))
    )
    after = page.at(-1)?.rowId ?? after
    if (page.length < reconcilePageRows) break
  }
  const done = ends.filter((end) => end === "done").length
  const failed = ends.filter((end) => end === "failed").length
  return { attempted: done + failed, done, failed }
})
