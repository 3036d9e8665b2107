/**
 * Making a worktree: the repository is claimed, the intent is durable, then git makes it in the guest. What comes to
 * nothing is taken back at once where that can be, and else by the next holder of the repository or by the sweep.
 * Source: SP-ADM-01, SP-ADM-05, SP-LEASE-02.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Caller } from "../host/Accounts.ts"
import type { ProjectId } from "../Identity.ts"
import { LeaseLost } from "../leases/Lease.ts"
import type { RepositoryName } from "../leases/RepositoryClaim.ts"
import { addScript, branchNotMadeCode, lookScript, placeNotMadeCode, refusalOfExit } from "./gitScripts.ts"
import { finishLeftovers, wordsOf } from "./removal.ts"
import { type RepositoryWork, type RunScript, underLease, workOnRepository } from "./repositoryWork.ts"
import { type BranchName, refuseWorktree, type Worktree, type WorktreeName } from "./Worktree.ts"
import { WorktreeRows } from "./WorktreeRows.ts"

export interface WorktreeRequest {
  readonly project: ProjectId
  readonly repository: RepositoryName
  readonly name: WorktreeName
  /** Checked out where it is there, else made. */
  readonly branch: BranchName
  /** Where a new branch begins; null: at the repository's HEAD. */
  readonly startPoint: string | null
}

/** Another one has the repository by now, or the machine was replaced: what was done here is his to take back. */
const notOurs = (worktree: Worktree) => new LeaseLost({ lease: worktree.claim, reason: "successor" })

/**
 * Before git begins it is durable that the place was free and at which commit the branch is made: so only a tree and a
 * branch of our making are ever taken back.
 */
const make = Effect.fnUntraced(function* (
  worktree: Worktree,
  { run, startPoint }: { readonly run: RunScript; readonly startPoint: string | null }
) {
  const rows = yield* WorktreeRows
  const looked = yield* run("look", lookScript, wordsOf(worktree, startPoint))
  const obstacle = refusalOfExit(looked.exitCode)
  if (obstacle !== null) return yield* refuseWorktree(worktree, obstacle)
  const branchBase = looked.output === "" ? null : looked.output
  if (!(yield* rows.noteMaking(worktree, { isBegun: true, branchBase }))) return yield* notOurs(worktree)
  const { exitCode } = yield* run("add", addScript, wordsOf(worktree, branchBase))
  if (exitCode === placeNotMadeCode || exitCode === branchNotMadeCode) {
    yield* rows.noteMaking(worktree, { isBegun: exitCode === branchNotMadeCode, branchBase: null })
  }
  const refusal = refusalOfExit(exitCode)
  if (refusal !== null) return yield* refuseWorktree(worktree, refusal)
  const ready = yield* rows.markReady(worktree)
  return yield* Option.isSome(ready) ? Effect.succeed(ready.value) : Effect.fail(notOurs(worktree))
})

/** In the transaction of the lease. */
const intent = Effect.fnUntraced(function* (caller: Caller, work: RepositoryWork, request: WorktreeRequest) {
  const { generation, id: claim } = work.claim.claim
  const { branch, name, project, repository } = request
  const answer = yield* (yield* WorktreeRows).insert({
    project,
    repository,
    name,
    branch,
    generation,
    claim,
    account: caller.account
  })
  return typeof answer === "string" ? yield* refuseWorktree(request, answer) : answer
})

/**
 * Takes back what has failed, before the repository is given up. An interruption leaves it: who hung up does not wait.
 */
const takeBack = Effect.fnUntraced(
  function* (work: RepositoryWork) {
    if (work.isOver) yield* finishLeftovers(work)
  },
  Effect.catch((failure) =>
    Effect.logWarning(`a worktree that came to nothing is taken back later: ${failure.message}`)
  )
)

/**
 * Makes a worktree of the repository and answers it once git has made it. The hooks of the repository are not run.
 * Refused with `WorktreeRefused`, and with what `claimRepository` and `admitExecution` refuse; `LeaseLost` where it was
 * cancelled or the machine replaced meanwhile. After a refusal nothing of it is left, or will be soon.
 */
export const createWorktree = Effect.fn("worktrees.create")(function* (
  caller: Caller,
  request: WorktreeRequest
) {
  const { startPoint } = request
  const rows = yield* WorktreeRows
  return yield* workOnRepository(request, (work) =>
    Effect.gen(function* () {
      yield* finishLeftovers(work)
      const intend = intent(caller, work, request).pipe(Effect.provideService(WorktreeRows, rows))
      return yield* underLease(work, { asker: caller, intend }, (worktree, run) =>
        make(worktree, { run, startPoint })
      )
    }).pipe(Effect.tapError(() => takeBack(work)))
  )
})
