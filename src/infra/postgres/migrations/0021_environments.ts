/**
 * Tables of the baseline about environments and the leases of runs on them; what is done to leases in one round trip
 * stands in 0021_environment_leases.ts.
 *
 *     environments 1─n managed_resource_bindings   which tenant's managed resource an environment is
 *     execution_workspaces n─1 core.projects       where runs of a Project work; leases name them by id alone
 *     provider_intents                             durable before a provider is asked to create (BX-01)
 *     environments 1─n environment_leases          set null: a lease outlives its environment (RL-ORPHAN-11)
 *
 * A lease names tenant, run, task and workspace without foreign keys: it says what is owed at a provider, so it must
 * neither wait for their rows nor go with them. `cleanup_due_at` is since when the next attempt of a cleanup is due: a
 * sweep takes it once it has been due for its back-off. A claim on a cleanup stands in the metadata, which is the
 * contract with other programs, so nothing there is trusted to have the type that it ought to have. No index is on the
 * metadata itself: what it is searched by stands in columns of its own, so that a write of it touches no index.
 */
import {
  environmentsMax,
  leaseMetadataBytesMax,
  managedResourceBindingsMax,
  tenantExecutionWorkspacesMax
} from "../../../domain/Bounds.ts"
import { boundedTable } from "./boundedTable.ts"
import { leaseFunctions, unfinished } from "./0021_environment_leases.ts"
import { sharedLeaseFunctions } from "./0021_shared_leases.ts"

/** Metadata beyond its bound is refused wherever it comes from; the text is what a provider would be sent. */
const metadataBound = `check (jsonb_typeof(metadata) = 'object' and octet_length(metadata::text) <= ${leaseMetadataBytesMax})`

const leaseTable = `create table environment_leases (
    id uuid primary key,
    tenant_id uuid not null,
    environment_id uuid references environments (id) on delete set null,
    execution_workspace_id uuid,
    task_id uuid,
    run_id uuid,
    status text not null default 'active'
      check (status in ('active', 'released', 'retained', 'expired', 'failed', 'pending_cleanup')),
    lease_policy text not null default 'ephemeral'
      check (lease_policy in ('ephemeral', 'reuse_by_environment', 'retain_on_failure')),
    provider text,
    provider_lease_id text,
    expires_at timestamptz(3),
    released_at timestamptz(3),
    failure_reason text,
    cleanup_status text check (cleanup_status in ('success', 'failed')),
    metadata jsonb not null default '{}' constraint environment_leases_metadata ${metadataBound},
    sent_config jsonb,
    cleanup_tries int not null default 0,
    cleanup_due_at timestamptz(3),
    needs_operator boolean not null default false,
    ended_by text,
    agent_key text generated always as (left(metadata ->> 'agentId', 200)) stored,
    request_key text generated always as (left(metadata #>> '{acquisitionRequest,key}', 200)) stored,
    created_at timestamptz(3) not null default now(),
    check ((status = 'active') = (released_at is null)),
    check ((status = 'pending_cleanup') = (cleanup_due_at is not null))
  ) with (fillfactor = 75)`

const leaseIndexes: ReadonlyArray<string> = [
  // A run's leases, also those that are over: they carry the evidence of its end.
  `create index environment_leases_by_run on environment_leases (run_id) where run_id is not null`,
  // Newest first for people, and what a deleted environment leaves behind.
  `create index environment_leases_by_environment on environment_leases (environment_id, created_at)`,
  `create index environment_leases_by_tenant on environment_leases (tenant_id, created_at)`,
  // The bound of an environment, its reusable rows, and what blocks its deletion.
  `create index environment_leases_unfinished on environment_leases (environment_id)
    where ${unfinished("environment_leases")}`,
  // What the end of a workspace or of a task goes for.
  `create index environment_leases_of_workspace on environment_leases (execution_workspace_id)
    where execution_workspace_id is not null and ${unfinished("environment_leases")}`,
  `create index environment_leases_of_task on environment_leases (task_id)
    where task_id is not null and ${unfinished("environment_leases")}`,
  // Who else holds a resource, and the active rows of runs that are over. Ids of providers have any length.
  `create index environment_leases_held on environment_leases (left(provider_lease_id, 200))
    where status in ('active', 'retained')`,
  // What the stop of an agent goes for, by its metadata.
  `create index environment_leases_of_agent on environment_leases (agent_key)
    where status in ('retained', 'pending_cleanup')`,
  // What a repeated request asks for: there is one (FC-04).
  `create unique index environment_leases_of_request on environment_leases (tenant_id, request_key)
    where request_key is not null`,
  // The sweep's queue.
  `create index environment_leases_owed on environment_leases (cleanup_due_at, id) where status = 'pending_cleanup'`,
  // What is over, in the order in which it may be deleted.
  `create index environment_leases_over on environment_leases (released_at) where not ${unfinished("environment_leases")}`
]

export const environmentTables: ReadonlyArray<string> = [
  `create table environments (
    id uuid primary key default gen_random_uuid(),
    name text not null constraint environments_name_unique unique check (length(name) between 1 and 200),
    description text,
    driver text not null check (driver in ('local', 'ssh', 'sandbox', 'plugin')),
    status text not null default 'active' check (status in ('active', 'disabled')),
    config jsonb not null default '{}' check (jsonb_typeof(config) = 'object'),
    metadata jsonb check (jsonb_typeof(metadata) = 'object'),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  )`,
  // There is one local environment at most.
  `create unique index environments_local on environments (driver) where driver = 'local'`,
  `create table managed_resource_bindings (
    tenant_id uuid not null,
    bundle_key text not null default 'managed-environment',
    resource_kind text not null default 'environment' check (resource_kind = 'environment'),
    resource_key text not null check (length(resource_key) between 1 and 200),
    resource_id uuid not null references environments (id) on delete cascade,
    stock_version int not null,
    stock_hash text not null,
    created_at timestamptz(3) not null default now(),
    primary key (tenant_id, bundle_key, resource_kind, resource_key)
  )`,
  // Asked by every acquisition that asserts its binding, and by the deletion of an environment.
  `create index managed_resource_bindings_of on managed_resource_bindings (resource_id, tenant_id)`,
  // A workspace goes with its Project; leases keep its id.
  `create table execution_workspaces (
    id uuid primary key default gen_random_uuid(),
    tenant_id uuid not null,
    project_id bigint not null references core.projects (id) on delete cascade,
    mode text not null default 'shared_workspace',
    strategy_type text not null default 'project_primary',
    name text not null check (length(name) between 1 and 200),
    status text not null default 'active',
    provider_type text not null default 'local_fs',
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  )`,
  // By it a tenant's workspaces are counted; the other one serves the deletion of a Project.
  `create index execution_workspaces_by_tenant on execution_workspaces (tenant_id)`,
  `create index execution_workspaces_by_project on execution_workspaces (project_id)`,
  `create table provider_intents (
    id uuid primary key,
    tenant_id uuid not null,
    environment_id uuid not null,
    run_id uuid,
    provider text not null,
    plugin_id uuid,
    name text not null,
    installation text not null,
    generation bigint not null,
    process text not null,
    request_key text,
    request_fingerprint text,
    created_at timestamptz(3) not null default now()
  )`,
  // The bound of an environment. There are never more rows than acquisitions under way and lost ones.
  `create index provider_intents_by_environment on provider_intents (environment_id)`,
  // One acquisition under way for each request key, whichever daemon carries it out (FC-04).
  `create unique index provider_intents_by_request on provider_intents (tenant_id, request_key)
    where request_key is not null`,
  // The order in which a pass looks at them.
  `create index provider_intents_by_age on provider_intents (created_at)`,
  leaseTable,
  ...leaseIndexes,
  ...leaseFunctions,
  ...sharedLeaseFunctions,
  boundedTable("environments", environmentsMax),
  boundedTable("managed_resource_bindings", managedResourceBindingsMax),
  boundedTable("execution_workspaces", tenantExecutionWorkspacesMax, "tenant_id")
]
