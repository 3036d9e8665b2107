/**
 * The host's first schema, always named `core`: accounts, tenants, Projects, memberships, the deletion record,
 * alerts, the audit log and the plugins it has loaded.
 *
 *     tenants 1─n accounts n─n projects (memberships: account × Project, role)
 *     projects 1─1 project_deletions   no foreign key: the record outlives its Project
 *     agents, runs, tasks, secrets, provider plugins: 0001_work.ts
 *     require_active_project(id)       the host's admission guard, called inside a plugin's transaction
 *     require_access, require_owner,
 *     require_administrator            the account again, in the transaction that acts for it
 *     open_projects(ids, accounts)     both guards for many at once, which neither wait nor raise
 *     require_room()                   trigger: a table, or what it holds for one owner, stays below its bound
 *
 * A guard of ours raises SQLSTATE class HF: HF001 the Project is not active, HF002 the account has no access, HF003
 * the table is full; the constraint of the error is then the name of the trigger.
 */
import {
  pluginsMax,
  projectMembershipsMax,
  tenantAccountsMax,
  tenantProjectsMax,
  tenantsMax
} from "../../../domain/Bounds.ts"
import type { Migration } from "../migrate.ts"
import { workTables } from "./0001_work.ts"
import { boundedTable } from "./boundedTable.ts"
import { plannedOnce } from "./plannedOnce.ts"

const statements = (): ReadonlyArray<string> => [
  `create table core.tenants (
    id uuid primary key,
    name text not null unique check (length(name) between 1 and 100),
    status text not null default 'active',
    issue_prefix text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  )`,
  `create table core.accounts (
    id uuid primary key,
    tenant_id uuid not null references core.tenants (id) on delete restrict,
    name text not null check (length(name) between 1 and 100),
    administrator boolean not null default false,
    disabled boolean not null default false,
    created_at timestamptz(3) not null default now(),
    unique (tenant_id, name)
  )`,
  `create table core.projects (
    id bigint generated always as identity primary key,
    tenant_id uuid not null references core.tenants (id) on delete restrict,
    name text not null check (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    lifecycle text not null default 'active' check (lifecycle in ('active', 'deleting')),
    created_at timestamptz(3) not null default now(),
    unique (tenant_id, name)
  )`,
  `create table core.memberships (
    project_id bigint not null references core.projects (id) on delete restrict,
    account_id uuid not null references core.accounts (id) on delete restrict,
    role text not null check (role in ('owner', 'member', 'viewer')),
    primary key (project_id, account_id)
  )`,
  `create index memberships_by_account on core.memberships (account_id)`,
  `create table core.project_deletions (
    project_id bigint primary key,
    tenant_id uuid not null,
    project_name text not null,
    state text not null check (state in ('pending', 'completed')),
    participants text[] not null,
    completed_steps text[] not null default '{}',
    confirmed_paths text[] not null,
    proofs jsonb not null default '[]',
    failure_code text,
    attempts int not null default 0,
    failed_at timestamptz(3),
    requested_by uuid,
    requested_at timestamptz(3) not null default now(),
    completed_at timestamptz(3),
    check ((state = 'completed') = (completed_at is not null))
  )`,
  `create table core.plugins (
    name text primary key,
    version text not null,
    schema_name text not null,
    provides jsonb not null,
    loaded_at timestamptz(3) not null default now()
  )`,
  `create table core.alerts (
    id bigint generated always as identity primary key,
    project_id bigint,
    project_label text,
    kind text not null,
    message text not null,
    raised_at timestamptz(3) not null default now()
  )`,
  `create table core.audit_log (
    id bigint generated always as identity primary key,
    at timestamptz(3) not null default now(),
    account_id uuid,
    actor text not null,
    action text not null,
    project_id bigint,
    outcome text not null
  )`,
  // Holds the active Project row FOR SHARE until the caller's transaction ends, so that a deletion cannot overtake it.
  `create function core.require_active_project(wanted bigint) returns void language plpgsql as $$
  begin
    perform 1 from core.projects where id = wanted and lifecycle = 'active' for share;
    if not found then
      raise exception 'the project is not active' using errcode = 'HF001';
    end if;
  end $$`,
  // A live, enabled account that is an administrator or a member who may write.
  `create function core.require_access(wanted bigint, caller uuid, writing boolean) returns void language plpgsql as $$
  begin
    perform 1 from core.accounts a
      left join core.memberships m on m.account_id = a.id and m.project_id = wanted
      join core.projects p on p.id = wanted and p.tenant_id = a.tenant_id
      where a.id = caller and not a.disabled
        and (a.administrator or (m.role is not null and (not writing or m.role <> 'viewer')));
    if not found then
      raise exception 'the account has no access to the project' using errcode = 'HF002';
    end if;
  end $$`,
  // Both guards for many at once: which Projects are active, and may be written to by their account or are asked for by
  // the product. Those are held FOR SHARE as above. It waits for nobody and refuses nobody: the others ask alone.
  `create function core.open_projects(wanted bigint[], callers uuid[]) returns setof bigint language plpgsql
  ${plannedOnce} as $$
  declare
    held bigint[];
  begin
    held := array(select id from core.projects where id = any (wanted) and lifecycle = 'active'
      for share skip locked);
    return query select p.id from unnest(wanted, callers) g (project, caller)
      join core.projects p on p.id = g.project and g.project = any (held)
      left join core.accounts a on a.id = g.caller and not a.disabled and a.tenant_id = p.tenant_id
      left join core.memberships m on m.account_id = g.caller and m.project_id = g.project
      where g.caller is null or a.administrator or (a.id is not null and m.role <> 'viewer');
  end $$`,
  // Whoever hands a directory of the host to a Project is an administrator of its tenant.
  `create function core.require_administrator(wanted bigint, caller uuid) returns void language plpgsql as $$
  begin
    perform 1 from core.accounts a join core.projects p on p.id = wanted and p.tenant_id = a.tenant_id
      where a.id = caller and not a.disabled and a.administrator;
    if not found then
      raise exception 'the account is no administrator' using errcode = 'HF002';
    end if;
  end $$`,
  // Deleting takes more than writing: an administrator, or an owner of the Project.
  `create function core.require_owner(wanted bigint, caller uuid) returns void language plpgsql as $$
  begin
    perform 1 from core.accounts a
      left join core.memberships m on m.account_id = a.id and m.project_id = wanted
      join core.projects p on p.id = wanted and p.tenant_id = a.tenant_id
      where a.id = caller and not a.disabled and (a.administrator or m.role = 'owner');
    if not found then
      raise exception 'the account does not own the project' using errcode = 'HF002';
    end if;
  end $$`,
  `create function core.require_room() returns trigger language plpgsql as $$
  declare
    counted text := format('(select count(*) from (select from %I.%I', tg_table_schema, tg_table_name);
    beyond boolean;
  begin
    if tg_nargs = 1 then
      counted := format('select exists (select from added) and %s limit $1 + 1) t) > $1', counted);
    else
      counted := format('select exists (select from (select distinct %1$I as owner from added) a
        where %2$s where %1$I = a.owner limit $1 + 1) t) > $1)', tg_argv[1], counted);
    end if;
    execute counted into beyond using tg_argv[0]::bigint;
    if beyond then
      raise exception 'the table is full' using errcode = 'HF003', constraint = tg_name;
    end if;
    return null;
  end $$`,
  boundedTable("core.tenants", tenantsMax),
  boundedTable("core.accounts", tenantAccountsMax, "tenant_id"),
  boundedTable("core.projects", tenantProjectsMax, "tenant_id"),
  boundedTable("core.memberships", projectMembershipsMax, "project_id"),
  boundedTable("core.plugins", pluginsMax),
  ...workTables
]

export const coreMigrations: ReadonlyArray<Migration> = [{ version: 1, name: "core", statements }]
