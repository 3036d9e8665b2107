/**
 * Tables of `core` about what a tenant works with: agents and their runs, tasks, secrets, and the plugins by which
 * providers are reached. Leases of runs stand in the plugin's schema (0021_environments.ts) and name these rows by id
 * alone: a lease outlives its run, and a resource that is owed is never forgotten because somebody deleted a row here.
 *
 *     agents 1─n runs          a run that is not live has ended for good, whatever its status says
 *     tasks
 *     secrets 1─n secret_versions (sealed)    secrets 1─n secret_bindings (target, config path)
 *     provider_plugins         nothing refers to it by a foreign key: a plugin can always be taken out
 */
import {
  providerPluginsMax,
  secretNameCharactersMax,
  secretVersionsMax,
  tenantAgentsMax,
  tenantRunsMax,
  tenantSecretBindingsMax,
  tenantSecretsMax,
  tenantTasksMax
} from "../../../domain/Bounds.ts"
import { liveRunStatuses } from "../../../domain/work/Work.ts"
import { boundedTable } from "./boundedTable.ts"

/** The statuses in which a run may still use what it leased, as a list of SQL. Source: RL section 2.1. */
export const liveRunList = liveRunStatuses.map((status) => `'${status}'`).join(", ")

const moments = `created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()`

export const workTables: ReadonlyArray<string> = [
  `create table core.agents (
    id uuid primary key default gen_random_uuid(),
    tenant_id uuid not null references core.tenants (id) on delete restrict,
    name text not null check (length(name) between 1 and 200),
    adapter_type text not null,
    role text,
    status text not null default 'active',
    adapter_config jsonb not null default '{}',
    runtime_config jsonb not null default '{}',
    permissions jsonb not null default '{}',
    ${moments}
  )`,
  // By it a tenant's agents are counted.
  `create index agents_by_tenant on core.agents (tenant_id)`,
  `create table core.runs (
    id uuid primary key default gen_random_uuid(),
    tenant_id uuid not null references core.tenants (id) on delete restrict,
    agent_id uuid not null references core.agents (id) on delete restrict,
    status text not null,
    invocation_source text not null default 'manual',
    finished_at timestamptz(3),
    error_code text,
    result_json jsonb,
    ${moments}
  )`,
  // By it a tenant's runs are counted, and the oldest ended ones make room.
  `create index runs_by_tenant on core.runs (tenant_id, created_at)`,
  // By it an agent's live runs and the leases of all its runs are found.
  `create index runs_by_agent on core.runs (agent_id, created_at)`,
  // The few runs that daemons began and have not seen the end of.
  `create index runs_of_daemons on core.runs (created_at)
    where invocation_source like 'daemon:%' and status in (${liveRunList})`,
  `create table core.tasks (
    id uuid primary key default gen_random_uuid(),
    tenant_id uuid not null references core.tenants (id) on delete restrict,
    title text not null check (length(title) between 1 and 1000),
    status text not null default 'in_progress',
    priority text not null default 'medium',
    assignee_agent_id uuid references core.agents (id) on delete set null,
    ${moments}
  )`,
  // By it a tenant's tasks are counted.
  `create index tasks_by_tenant on core.tasks (tenant_id)`,
  `create table core.secrets (
    id uuid primary key,
    tenant_id uuid not null references core.tenants (id) on delete restrict,
    name text not null check (length(name) between 1 and ${secretNameCharactersMax}),
    provider text not null default 'local_encrypted' check (provider = 'local_encrypted'),
    version int not null default 1 constraint secrets_version_bounded check (version between 1 and ${secretVersionsMax}),
    created_at timestamptz(3) not null default now(),
    rotated_at timestamptz(3) not null default now(),
    unique (tenant_id, name)
  )`,
  // Versions are only ever added, from 1 on: the bound of `secrets.version` is theirs.
  `create table core.secret_versions (
    secret_id uuid not null references core.secrets (id) on delete cascade,
    version int not null,
    key text not null,
    nonce bytea not null,
    box bytea not null,
    created_at timestamptz(3) not null default now(),
    primary key (secret_id, version)
  )`,
  // One secret at a place of a target for each tenant. The target lives in another schema, so no foreign key.
  `create table core.secret_bindings (
    tenant_id uuid not null references core.tenants (id) on delete restrict,
    target_type text not null default 'environment' check (target_type = 'environment'),
    target_id uuid not null,
    config_path text not null check (length(config_path) between 1 and 400),
    secret_id uuid not null references core.secrets (id) on delete cascade,
    created_at timestamptz(3) not null default now(),
    primary key (tenant_id, target_type, target_id, config_path)
  )`,
  // By it the bindings of a deleted target are found, whoever has them.
  `create index secret_bindings_by_target on core.secret_bindings (target_id)`,
  `create table core.provider_plugins (
    id uuid primary key default gen_random_uuid(),
    plugin_key text not null unique check (length(plugin_key) between 1 and 200),
    package_name text not null,
    version text not null,
    api_version int not null default 1 check (api_version = 1),
    categories jsonb not null default '[]',
    manifest_json jsonb not null,
    status text not null check (status in ('ready', 'installing', 'installed')),
    install_order int not null default 0,
    updated_at timestamptz(3) not null default now()
  )`,
  boundedTable("core.agents", tenantAgentsMax, "tenant_id"),
  boundedTable("core.runs", tenantRunsMax, "tenant_id"),
  boundedTable("core.tasks", tenantTasksMax, "tenant_id"),
  boundedTable("core.secrets", tenantSecretsMax, "tenant_id"),
  boundedTable("core.secret_bindings", tenantSecretBindingsMax, "tenant_id"),
  boundedTable("core.provider_plugins", providerPluginsMax)
]
