/**
 * The plugin's fresh schema, version 21: everything that a Project's persistent runtime stores. It is created in
 * the schema that the host supplies, which is first in the search path. Source: SP-DB-03, SP-DB-06.
 *
 *     runtimes 1─1 core.projects             the durable machine; restrict: a Project that owes a machine stays
 *     runtime_operations  (row_id identity)  receipts; they outlive machine and Project, so no foreign key
 *     live_operations                        queued and claimed ones, one a Project: 0021_operations.ts
 *     runtime_logs        (row_id identity)  newest 200 rows a Project
 *     runtime_snapshots   n─1 runtimes       copies of the workspace: 0021_workspaces.ts
 *     worktrees           n─1 runtimes       working trees of its repositories: 0021_workspaces.ts
 *     execution_leases, repository_claims    what is worked on now: 0021_leases.ts
 *     resource_samples, resource_rollups, history_deletions, and the open buckets of runtimes: 0021_history.ts
 *     environments and the leases of runs on them: 0021_environments.ts
 *     nodes                                  which node carries which guest
 *
 * timestamptz(3) everywhere: a value read by the daemon compares equal when it is written back.
 */
import { nodesMax } from "../../../domain/Bounds.ts"
import type { Migration } from "../migrate.ts"
import { environmentTables } from "./0021_environments.ts"
import { historyStatements, sampleColumns } from "./0021_history.ts"
import { leaseObjects } from "./0021_leases.ts"
import { operationFunctions } from "./0021_operations.ts"
import { sharedCallFunctions } from "./0021_shared_calls.ts"
import { workspaceTables } from "./0021_workspaces.ts"
import { boundedTable } from "./boundedTable.ts"

const statements = (): ReadonlyArray<string> => [
  `create table nodes (
    id uuid primary key,
    name text not null,
    last_seen_at timestamptz(3) not null default now()
  )`,
  boundedTable("nodes", nodesMax),
  `create table runtimes (
    project_id bigint primary key references core.projects (id) on delete restrict,
    generation bigint not null default 1 check (generation >= 1),
    node_id uuid references nodes (id),
    sandbox_id text,
    desired text not null default 'stopped' check (desired in ('running', 'stopped', 'deleted')),
    observed text not null default 'unprovisioned'
      check (observed in ('unprovisioned', 'starting', 'running', 'stopped', 'failed', 'deleting', 'deleted')),
    observed_reason text,
    recipe jsonb,
    refresh_epoch bigint not null default 0,
    recovery_attempts int not null default 0,
    recovery_due_at timestamptz(3),
    running_since timestamptz(3),
    created_at timestamptz(3) not null default now(),
    changed_at timestamptz(3) not null default now(),
    ${sampleColumns},
    check ((sandbox_id is null) = (recipe is null))
  ) with (fillfactor = 50)`,
  // What a column may hold is said by a domain, which is known to the session and asked where the column is written: each
  // statement would read and plan the text of a table's CHECKs anew, which costs as much as an insert.
  `create domain operation_initiator as text check (value in ('user', 'agent', 'system'))`,
  `create domain operation_action as text check (value in
    ('provision', 'start', 'stop', 'restart', 'rebuild', 'snapshot', 'restore', 'recover', 'delete'))`,
  `create domain operation_state as text check (value in ('queued', 'claimed', 'succeeded', 'failed', 'superseded'))`,
  `create domain operation_fraction as double precision check (value between 0 and 1)`,
  `create domain operation_flags as text[]
    check (value <@ '{creating,removed,stopped,imported,switched,storage-removed}')`,
  // No index knows the state, so claim, progress and settlement are heap-only updates, where each page has room for them:
  // a page that was filled by one burst is claimed by one statement, and a claimed row is half as long again.
  `create table runtime_operations (
    row_id bigint generated always as identity primary key,
    id uuid not null unique,
    project_id bigint not null,
    account_id uuid,
    initiator operation_initiator not null,
    action operation_action not null,
    request_key text not null,
    generation bigint not null,
    parameters jsonb not null default '{}',
    state operation_state not null default 'queued',
    claimed_by text,
    claim_sequence bigint not null default 0,
    step text,
    fraction operation_fraction not null default 0,
    message text,
    flags operation_flags not null default '{}',
    old_recipe jsonb,
    new_recipe jsonb,
    owed text[] not null default '{}',
    absences text[] not null default '{}',
    result jsonb,
    error_code text,
    error_text text,
    superseded_by text,
    supersede_asked_by text,
    created_at timestamptz(3) not null default now(),
    claimed_at timestamptz(3),
    settled_at timestamptz(3),
    unique (project_id, request_key),
    check ((state = 'claimed') = (claimed_by is not null)),
    check ((state in ('succeeded', 'failed', 'superseded')) = (settled_at is not null)),
    check ((state = 'superseded') = (superseded_by is not null))
  ) with (fillfactor = 38)`,
  // One live operation a runtime, whoever asks, and the queue in the order of admission. With a node it is for that node
  // alone, which carries its machine; without one any may begin it. Source: SP-ADM-09, FC-13.
  `create table live_operations (
    project_id bigint primary key,
    row_id bigint not null unique,
    node_id uuid,
    queued_at timestamptz(3) not null default now()
  )`,
  `create index runtime_operations_by_project on runtime_operations (project_id, row_id)`,
  `create index runtime_operations_by_account on runtime_operations (account_id, row_id)`,
  // Neither column ever changes: one receipt a removed Project, in the order of the removals.
  `create index runtime_operations_of_removals on runtime_operations (row_id) where action = 'delete'`,
  `create table runtime_logs (
    row_id bigint generated always as identity primary key,
    project_id bigint not null,
    operation_id uuid,
    at timestamptz(3) not null default now(),
    line text not null
  )`,
  `create index runtime_logs_by_project on runtime_logs (project_id, row_id)`,
  ...leaseObjects,
  ...historyStatements,
  ...operationFunctions,
  ...sharedCallFunctions,
  ...workspaceTables,
  ...environmentTables
]

export const pluginMigrations: ReadonlyArray<Migration> = [{ version: 21, name: "baseline", statements }]
