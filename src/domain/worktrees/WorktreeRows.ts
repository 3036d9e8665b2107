/**
 * Port of the rows of managed worktrees. Every method joins the caller's transaction or is one statement of its own.
 * Every write of an outcome names the claim under which the work was done: one whose claim was lost meanwhile, to
 * another holder or with its machine, writes nothing. Source: SP-ADM-01, SP-ADM-05.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Generation, LeaseId, NodeId, ProjectId } from "../Identity.ts"
import type { RepositoryName } from "../leases/RepositoryClaim.ts"
import type { StorageFailure, TransactionEnded } from "../persistence/PluginDb.ts"
import type { Worktree, WorktreeName } from "./Worktree.ts"

type RowsError = StorageFailure | TransactionEnded

/** Under which claim, and in which machine, a worktree is worked on from now on. */
export interface WorktreeHolder {
  readonly claim: LeaseId
  readonly generation: Generation
}

/** Who removes a worktree and why: both are told after the end. Source: FC-22. */
export interface WorktreeEnd {
  readonly by: string
  readonly reason: string
  readonly isDisposable: boolean
}

type Seen = Pick<Worktree, "rowId" | "claim">

export class WorktreeRows extends Context.Service<
  WorktreeRows,
  {
    /** Worktrees of the Project in the order in which they were asked for; `projectWorktreesMax` at most. */
    readonly ofProject: (project: ProjectId) => Effect.Effect<ReadonlyArray<Worktree>, RowsError>
    readonly byName: (
      project: ProjectId,
      name: WorktreeName
    ) => Effect.Effect<Option.Option<Worktree>, RowsError>
    /** Notes a worktree that is about to be made; why not, where there is one of that name or the Project is full. */
    readonly insert: (
      intended: Pick<
        Worktree,
        "project" | "repository" | "name" | "branch" | "generation" | "claim" | "account"
      >
    ) => Effect.Effect<Worktree | "worktree_exists" | "worktrees_full", RowsError>
    /** Notes what git is about to make, before it does, or what it has not made after all. */
    readonly noteMaking: (
      seen: Seen,
      making: Pick<Worktree, "isBegun" | "branchBase">
    ) => Effect.Effect<boolean, RowsError>
    /** It is made, and its branch has come to stay. */
    readonly markReady: (seen: Seen) => Effect.Effect<Option.Option<Worktree>, RowsError>
    /** From now on the worktree goes; none unless it was ready. */
    readonly markRemoving: (
      project: ProjectId,
      name: WorktreeName,
      decided: WorktreeHolder & WorktreeEnd
    ) => Effect.Effect<Option.Option<Worktree>, RowsError>
    /**
     * Takes over what another holder has left unfinished, one that was being made as one that goes; none when somebody
     * was faster, and for one whose claim of the repository is not there any more.
     */
    readonly takeOver: (
      seen: Seen,
      by: WorktreeHolder & WorktreeEnd
    ) => Effect.Effect<Option.Option<Worktree>, RowsError>
    /** Nothing in it has to be kept. */
    readonly markDisposable: (seen: Seen) => Effect.Effect<boolean, RowsError>
    /** It stays after all; false unless it was going and what it holds is to be kept. */
    readonly keep: (seen: Seen) => Effect.Effect<boolean, RowsError>
    /** Forgets one whose tree is gone; false unless it was going. */
    readonly remove: (seen: Seen) => Effect.Effect<boolean, RowsError>
    /** What is being made or removed in one repository, whoever does it. */
    readonly unfinishedOf: (
      project: ProjectId,
      repository: RepositoryName
    ) => Effect.Effect<ReadonlyArray<Worktree>, RowsError>
    /** The same in all repositories of runtimes that run on the node, after `after` in the order of rows. */
    readonly unfinished: (walk: {
      readonly node: NodeId
      readonly after: number
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<Worktree>, RowsError>
    /** Forgets every worktree of the Project: its storage is removed. Only project removal asks for it. */
    readonly clear: (project: ProjectId) => Effect.Effect<void, RowsError>
  }
>()("holdfast/domain/worktrees/WorktreeRows") {}
