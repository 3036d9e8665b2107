/**
 * The plugin's fresh schema, version 21: everything that a Project's persistent runtime stores. It is created in
 * the schema that the host supplies, which is first in the search path. Source: SP-DB-03, SP-DB-06.
 *
 *     runtimes 1─1 core.projects             the durable machine; restrict: a Project that owes a machine stays
 *     runtime_operations  (row_id identity)  receipts; they outlive machine and Project, so no foreign key
 *     live_operations                        queued and claimed ones, one a Project: 0021_operations.ts
 *     runtime_logs        (row_id identity)  newest 200 rows a Project
 *     execution_leases                       something runs inside the guest now
 *     resource_samples, resource_rollups     minute and hour buckets, natural key (project, metric, bucket)
 *     history_deletions                      Projects whose history is still to be deleted, in bounded passes
 *     nodes                                  which node carries which guest
 *
 * timestamptz(3) everywhere: a value read by the daemon compares equal when it is written back.
 */
import { nodesMax } from "../../../domain/Bounds.ts"
import type { Migration } from "../migrate.ts"
import { boundedTable } from "./0001_core.ts"
import { operationFunctions } from "./0021_operations.ts"

const metrics = `('cpu_usec', 'memory_bytes', 'memory_peak_bytes', 'disk_bytes', 'io_read_bytes', 'io_write_bytes', 'net_rx_bytes', 'net_tx_bytes', 'pids')`

const historyTable = (name: string): string => `create table ${name} (
  id bigint generated always as identity unique,
  project_id bigint not null,
  metric text not null check (metric in ${metrics}),
  bucket timestamptz(0) not null,
  minimum bigint not null,
  maximum bigint not null,
  total bigint not null,
  samples int not null check (samples > 0),
  primary key (project_id, metric, bucket)
)`

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
    sample_started_at timestamptz(3),
    sample jsonb,
    created_at timestamptz(3) not null default now(),
    changed_at timestamptz(3) not null default now(),
    check ((sandbox_id is null) = (recipe is null))
  )`,
  // No index knows the state, so claim, progress and settlement are heap-only updates: room for them on each page.
  `create table runtime_operations (
    row_id bigint generated always as identity primary key,
    id uuid not null unique,
    project_id bigint not null,
    account_id uuid,
    initiator text not null check (initiator in ('user', 'agent', 'system')),
    action text not null check (action in
      ('provision', 'start', 'stop', 'restart', 'rebuild', 'snapshot', 'restore', 'recover', 'delete')),
    request_key text not null,
    generation bigint not null,
    parameters jsonb not null default '{}',
    state text not null default 'queued'
      check (state in ('queued', 'claimed', 'succeeded', 'failed', 'superseded')),
    claimed_by text,
    claim_sequence bigint not null default 0,
    step text,
    fraction double precision not null default 0 check (fraction between 0 and 1),
    message text,
    flags text[] not null default '{}'
      check (flags <@ '{creating,removed,stopped,imported,switched,storage-removed}'),
    old_recipe jsonb,
    new_recipe jsonb,
    owed text[] not null default '{}',
    absences text[] not null default '{}',
    result jsonb,
    error_code text,
    error_text text,
    superseded_by text,
    created_at timestamptz(3) not null default now(),
    claimed_at timestamptz(3),
    settled_at timestamptz(3),
    unique (project_id, request_key),
    check ((state = 'claimed') = (claimed_by is not null)),
    check ((state in ('succeeded', 'failed', 'superseded')) = (settled_at is not null)),
    check ((state = 'superseded') = (superseded_by is not null))
  ) with (fillfactor = 75)`,
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
  // No foreign key: a lease must never wait for a lock on its runtime's row. Source: SP-LEASE-01.
  `create table execution_leases (
    id uuid primary key,
    project_id bigint not null,
    generation bigint not null,
    process text not null,
    label text not null,
    cancel text not null default 'none' check (cancel in ('none', 'requested', 'verified')),
    admitted_at timestamptz(3) not null default now(),
    heartbeat_at timestamptz(3) not null default now()
  )`,
  `create index execution_leases_by_project on execution_leases (project_id)`,
  `create index execution_leases_by_process on execution_leases (process)`,
  historyTable("resource_samples"),
  historyTable("resource_rollups"),
  `create index resource_samples_by_bucket on resource_samples (bucket)`,
  `create index resource_rollups_by_bucket on resource_rollups (bucket)`,
  `create table history_deletions (
    project_id bigint primary key,
    requested_at timestamptz(3) not null default now()
  )`,
  ...operationFunctions
]

export const pluginMigrations: ReadonlyArray<Migration> = [{ version: 21, name: "baseline", statements }]
