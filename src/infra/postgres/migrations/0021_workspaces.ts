/**
 * Tables of the baseline about workspaces.
 *
 *     runtime_snapshots  n─1 runtimes   a copy of the workspace; restrict: a runtime that owns copies stays
 *     worktrees          n─1 runtimes   a further working tree of a repository in the workspace; restrict as well
 *
 *     capturing → ready       the copy is whole and durable
 *     capturing → removing    it came to nothing
 *     ready     → removing    somebody asked for its removal
 *
 * The row is there before the copy and goes after it, so that what lies on a disk always has a row. `paused_by` names
 * the claim that holds the guest still for the copy, from before the pause until after it: who finds it later knows that
 * the guest was left behind paused, and by whom.
 *
 * The states of a worktree are drawn in domain/worktrees/Worktree.ts; here too the row is there first and goes last.
 * `is_begun` says that its place was free and that git may be at work there: before, whatever lies there is somebody
 * else's. `branch_base` is the commit at which its making makes the branch, from before it does: only then the branch goes
 * with a worktree that came to nothing. `claim_id` is the claim of the repository under which it was worked on last.
 */
import { projectSnapshotsMax, projectWorktreesMax } from "../../../domain/Bounds.ts"
import { boundedTable } from "./boundedTable.ts"

export const workspaceTables: ReadonlyArray<string> = [
  `create table runtime_snapshots (
    row_id bigint generated always as identity primary key,
    project_id bigint not null references runtimes (project_id) on delete restrict,
    id text not null check (id ~ '^[A-Za-z0-9_.:-]{1,160}$'),
    path text not null unique,
    bytes bigint check (bytes >= 0),
    generation bigint not null,
    recipe jsonb not null,
    state text not null default 'capturing' check (state in ('capturing', 'ready', 'removing')),
    operation_id uuid not null,
    account_id uuid,
    paused_by text,
    removed_by text,
    reason text,
    created_at timestamptz(3) not null default now(),
    unique (project_id, id),
    check (state <> 'ready' or bytes is not null),
    check ((state = 'removing') = (reason is not null))
  )`,
  // What a sweep looks for, whoever has how many that are finished.
  `create index runtime_snapshots_unfinished on runtime_snapshots (row_id) where state <> 'ready' or paused_by is not null`,
  boundedTable("runtime_snapshots", projectSnapshotsMax, "project_id"),
  `create table worktrees (
    row_id bigint generated always as identity primary key,
    project_id bigint not null references runtimes (project_id) on delete restrict,
    repository text not null,
    name text not null,
    branch text not null,
    is_begun boolean not null default false,
    branch_base text,
    state text not null default 'creating' check (state in ('creating', 'ready', 'removing')),
    is_disposable boolean not null default false,
    generation bigint not null,
    claim_id uuid not null,
    account_id uuid,
    removed_by text,
    reason text,
    created_at timestamptz(3) not null default now(),
    unique (project_id, name),
    check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$'),
    check (state <> 'ready' or (is_begun and branch_base is null)),
    check (is_begun or branch_base is null),
    check ((state = 'removing') = (reason is not null)),
    check ((state = 'removing') = (removed_by is not null)),
    check (state = 'removing' or not is_disposable)
  )`,
  `create index worktrees_unfinished on worktrees (row_id) where state <> 'ready'`,
  boundedTable("worktrees", projectWorktreesMax, "project_id")
]
