/**
 * The end of a worktree: asked for, or after a making that came to nothing. It is decided durably, with who and why,
 * before anything goes, and the row goes last; whoever holds the repository next finishes what was left half done.
 * Source: SP-ADM-01, SP-ADM-05, FC-22.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RuntimeLog } from "../history/RuntimeLog.ts"
import type { Caller } from "../host/Accounts.ts"
import type { ProjectId } from "../Identity.ts"
import { checkScript, refusalOfExit, removeScript } from "./gitScripts.ts"
import { type RepositoryWork, type RunScript, underLease, workOnRepository } from "./repositoryWork.ts"
import {
  refuseWorktree,
  type Worktree,
  type WorktreeName,
  worktreePath,
  type WorktreeRefusalCode
} from "./Worktree.ts"
import { type WorktreeEnd, WorktreeRows } from "./WorktreeRows.ts"

/** The words that every script takes. */
export const wordsOf = (worktree: Worktree, commit: string | null): ReadonlyArray<string> => [
  worktree.repository,
  worktreePath(worktree),
  worktree.branch,
  commit ?? ""
]

/** The worktree stays, for it may hold what is nowhere else. */
const keepIt = Effect.fnUntraced(function* (worktree: Worktree, code: WorktreeRefusalCode) {
  if (yield* (yield* WorktreeRows).keep(worktree)) {
    yield* (yield* RuntimeLog).append(worktree.project, {
      operation: null,
      lines: [`worktree ${worktree.name} is kept: its removal was refused (${code})`]
    })
  }
  return code
})

/**
 * Removes the tree of a worktree that is going, then its row; null when it is gone, else why it is kept. What may not be
 * thrown away is looked at first, and only one that was seen clean becomes disposable. Repeatable.
 */
const carryOut = Effect.fnUntraced(function* (worktree: Worktree, run: RunScript) {
  const rows = yield* WorktreeRows
  if (!worktree.isDisposable) {
    const refusal = refusalOfExit((yield* run("check", checkScript, wordsOf(worktree, null))).exitCode)
    if (refusal !== null) return yield* keepIt(worktree, refusal)
    yield* rows.markDisposable(worktree)
  }
  if (worktree.isBegun) {
    const { exitCode } = yield* run("remove", removeScript, wordsOf(worktree, worktree.branchBase))
    const refusal = refusalOfExit(exitCode)
    if (refusal !== null) return yield* refuseWorktree(worktree, refusal)
  }
  yield* rows.remove(worktree)
  return null
})

/** How the end of a worktree reads in the runtime's log. */
const endLine = ({ name, repository }: Worktree, { by, reason }: WorktreeEnd): string =>
  `worktree ${name} of ${repository} is removed: ${reason} (${by})`

const forgotten: WorktreeEnd = { by: "system", reason: "its making came to nothing", isDisposable: true }

/** Finishes one that somebody has left half made or half removed; nothing where somebody else does it by now. */
const finish = Effect.fnUntraced(function* (work: RepositoryWork, left: Worktree) {
  const rows = yield* WorktreeRows
  const log = yield* RuntimeLog
  const { generation, id } = work.claim.claim
  const intend = Effect.gen(function* () {
    const taken = Option.getOrNull(yield* rows.takeOver(left, { claim: id, generation, ...forgotten }))
    if (taken !== null && left.state === "creating") {
      yield* log.append(left.project, { operation: null, lines: [endLine(taken, forgotten)] })
    }
    return taken
  })
  yield* underLease(work, { asker: "system", intend }, (taken, run) =>
    taken === null ? Effect.void : Effect.asVoid(carryOut(taken, run))
  )
})

/**
 * Finishes everything that is half made or half removed in the repository of the work: who claimed it before has given
 * it up or is dead, and nothing of his goes on in the guest. Answers how many there were.
 */
export const finishLeftovers = Effect.fn("worktrees.finishLeftovers")(function* (work: RepositoryWork) {
  const rows = yield* WorktreeRows
  const left = yield* rows.unfinishedOf(work.project, work.repository)
  yield* Effect.forEach(left, (worktree) => finish(work, worktree), { discard: true })
  return left.length
})

/** Where the name stands, or the refusal that there is none. */
const find = Effect.fnUntraced(function* (project: ProjectId, name: WorktreeName) {
  const found = Option.getOrUndefined(yield* (yield* WorktreeRows).byName(project, name))
  return found ?? (yield* refuseWorktree({ project, name }, "worktree_not_found"))
})

/**
 * Removes a worktree of the Project with its tree; the branch stays. Refused with `worktree_not_found`, and unless it is
 * forced with `worktree_dirty` and `worktree_locked`; a tree that is gone already is no reason. One that is half made or
 * half removed is finished. Refused besides with what `claimRepository` and `admitExecution` refuse.
 */
export const removeWorktree = Effect.fn("worktrees.remove")(function* (
  caller: Caller,
  asked: { readonly project: ProjectId; readonly name: WorktreeName; readonly isForced: boolean }
) {
  const { isForced, name, project } = asked
  const rows = yield* WorktreeRows
  const log = yield* RuntimeLog
  const { repository } = yield* find(project, name)
  yield* workOnRepository({ project, repository }, (work) =>
    Effect.gen(function* () {
      yield* finishLeftovers(work)
      const { generation, id } = work.claim.claim
      const end = { by: caller.account, reason: "it was asked for", isDisposable: isForced }
      const intend = Effect.gen(function* () {
        const going = yield* rows.markRemoving(project, name, { claim: id, generation, ...end })
        if (Option.isSome(going)) {
          yield* log.append(project, { operation: null, lines: [endLine(going.value, end)] })
        }
        return Option.getOrNull(going)
      })
      // None: it was one of those that are finished now.
      const kept = yield* underLease(work, { asker: caller, intend }, (going, run) =>
        going === null ? Effect.succeed(null) : carryOut(going, run)
      )
      if (kept !== null) return yield* refuseWorktree({ project, name }, kept)
    })
  )
})
