/**
 * A managed worktree: a further working tree of one repository of a Project, at a place of its own in the workspace.
 * Here are its model, its names and the refusals; git is run by repositoryWork.ts, and only inside the guest.
 *
 *     creating → ready      git has made it
 *     creating → removing   its making came to nothing
 *     ready    → removing   somebody asked for it
 *     removing → ready      it holds what is nowhere else, and nobody said that this may go
 *
 * The row is there before git begins and goes after the tree has gone, so what a crash leaves half made has a row.
 */
import * as Schema from "effect/Schema"
import { branchNameCharactersMax, projectWorktreesMax, worktreeNameCharactersMax } from "../Bounds.ts"
import { AccountId, Generation, LeaseId, ProjectId } from "../Identity.ts"
import { RepositoryName } from "../leases/RepositoryClaim.ts"

/** One segment of a branch's name as git takes it, of plain letters. */
const segment = "(?!HEAD$)(?![^/]*\\.\\.)(?![^/]*\\.(lock)?(/|$))[A-Za-z0-9_][A-Za-z0-9_.-]*"

/**
 * A worktree's name within its Project, its caller's choice: one directory, never `.` or `..`, and as good a name for a
 * branch.
 */
export const WorktreeName = Schema.String.check(
  Schema.isPattern(new RegExp(`^${segment}$`)),
  Schema.isMaxLength(worktreeNameCharactersMax)
).pipe(Schema.brand("WorktreeName"))
export type WorktreeName = typeof WorktreeName.Type

/** A branch, of plain letters only: no segment begins with a dot or a hyphen, or ends with a dot or `.lock`. */
export const BranchName = Schema.String.check(
  Schema.isPattern(new RegExp(`^${segment}(/${segment})*$`)),
  Schema.isMaxLength(branchNameCharactersMax)
).pipe(Schema.brand("BranchName"))
export type BranchName = typeof BranchName.Type

/** The commit at which a branch begins, in the words of git: a branch, a tag, an id, `HEAD~2`. */
export const StartPoint = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9_][A-Za-z0-9_./@{}^~-]*$/),
  Schema.isMaxLength(branchNameCharactersMax)
)

export const WorktreeState = Schema.Literals(["creating", "ready", "removing"])
export type WorktreeState = typeof WorktreeState.Type

export class Worktree extends Schema.Class<Worktree>("holdfast/Worktree")({
  rowId: Schema.Int,
  project: ProjectId,
  repository: RepositoryName,
  name: WorktreeName,
  branch: BranchName,
  /** Whether git may have begun, so that what lies at its place is this worktree's: before, nothing of it is removed. */
  isBegun: Schema.Boolean,
  /** The commit at which its making makes the branch; null: the branch was there before, or has come to stay. */
  branchBase: Schema.NullOr(Schema.String),
  state: WorktreeState,
  /** While it is going: nothing in it has to be kept. */
  isDisposable: Schema.Boolean,
  /** Of the machine in which it was worked on last. */
  generation: Generation,
  /** The claim of its repository under which it was worked on last: only who holds it writes its end. */
  claim: LeaseId,
  account: Schema.NullOr(AccountId),
  removedBy: Schema.NullOr(Schema.String),
  /** Why it goes, while it is going. Source: FC-22. */
  reason: Schema.NullOr(Schema.String),
  createdAtMillis: Schema.Int
}) {}

/** Where all managed worktrees lie in the workspace. */
export const worktreesRoot = "/workspace/.worktrees"

/** Where the worktree lies inside the guest, in every machine that the Project ever has. */
export const worktreePath = ({ name }: Pick<Worktree, "name">): string => `${worktreesRoot}/${name}`

export const WorktreeRefusalCode = Schema.Literals([
  "worktree_exists",
  "worktree_not_found",
  "worktrees_full",
  "worktree_dirty",
  "worktree_locked",
  "worktree_path_taken",
  "worktree_failed",
  "repository_not_found",
  "git_unavailable",
  "branch_exists",
  "branch_in_use",
  "start_point_not_found"
])
export type WorktreeRefusalCode = typeof WorktreeRefusalCode.Type

/** Why a worktree is not made or not removed. The sentence is ours: nothing that the guest wrote is in it. */
export class WorktreeRefused extends Schema.TaggedError<WorktreeRefused>()("WorktreeRefused", {
  project: ProjectId,
  worktree: WorktreeName,
  code: WorktreeRefusalCode,
  why: Schema.String
}) {
  override get message(): string {
    return `worktree ${this.worktree} of project ${this.project}: ${this.why}`
  }
}

const whys: Readonly<Record<WorktreeRefusalCode, string>> = {
  worktree_exists: "there is one of that name: remove it first, or take another name",
  worktree_not_found: "there is none of that name",
  worktrees_full: `the project has ${projectWorktreesMax} worktrees, as many as it may: remove one first`,
  worktree_dirty: "it holds changes that are nowhere else: commit them, or remove it by force",
  worktree_locked: "git has it locked: unlock it, or remove it by force",
  worktree_path_taken:
    "something that is no worktree of ours lies at its place: move it away, or take another name",
  worktree_failed: "git did not carry it out: look at the repository with `exec`",
  repository_not_found:
    "no repository has its own top there: name it by its path below the workspace, without links",
  git_unavailable: "the image has no git",
  branch_exists: "the branch is there already, so it cannot begin at a start point: leave that out",
  branch_in_use: "another worktree has the branch checked out: take another branch",
  start_point_not_found: "its branch has no commit to begin at: name one that the repository has"
}

export const refuseWorktree = (
  { name, project }: Pick<Worktree, "name" | "project">,
  code: WorktreeRefusalCode
): WorktreeRefused => new WorktreeRefused({ project, worktree: name, code, why: whys[code] })
