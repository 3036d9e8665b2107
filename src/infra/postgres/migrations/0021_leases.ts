/**
 * Tables of the baseline that say what somebody works on now. A row goes when the work is known to have ended; a holder
 * that lives renews it, and only what a dead one has left is swept.
 *
 *     execution_leases   something runs inside the guest; tombstones of cancelled ones stay until their generation ends
 *     repository_claims  somebody works on one repository of a Project: at most one, by the primary key
 *
 * No foreign keys: a lease must never wait for a lock on its runtime's row (SP-LEASE-01). No index names a column that a
 * heartbeat changes and half of each page is left free, so that renewing a whole page is heap-only updates.
 */
import { projectRepositoriesMax } from "../../../domain/Bounds.ts"
import { plannedOnce } from "./plannedOnce.ts"

const isPresent = `exists (
  select from runtimes r
    where r.project_id = p_projects[i] and r.generation = p_generations[i] and r.observed <> 'deleted')`

const hasRoom = `${projectRepositoriesMax} > (select count(*) from (
  select from repository_claims c where c.project_id = p_projects[i] limit ${projectRepositoriesMax}) counted)`

/**
 * Claims repositories, one after the other, in one round trip; `answer` is one of ClaimAnswer in
 * domain/leases/RepositoryClaims.ts, in the order of the claims. A key that is seen costs a read. Else the lock is tried
 * before the insert: who gets it meets no rival that has not committed, so nobody waits; who does not get it contends.
 * Source: SP-LEASE-02.
 */
const claimRepositories = `create function claim_repositories(
    p_ids uuid[], p_projects bigint[], p_repositories text[], p_generations bigint[], p_sandboxes text[],
    p_processes text[], p_locks bigint[]
  ) returns table (answer text, process text, claimed_at timestamptz) language plpgsql
  ${plannedOnce} as $$
  begin
    for i in 1 .. cardinality(p_ids) loop
      select c.process, c.claimed_at into process, claimed_at from repository_claims c
        where c.project_id = p_projects[i] and c.repository = p_repositories[i];
      if found then
        answer := 'Held';
      elsif not pg_try_advisory_xact_lock(p_locks[i]) then
        answer := 'Contended';
      else
        insert into repository_claims (id, project_id, repository, generation, sandbox_id, process)
          select p_ids[i], p_projects[i], p_repositories[i], p_generations[i], p_sandboxes[i], p_processes[i]
            where ${isPresent} and ${hasRoom}
          on conflict (project_id, repository) do nothing;
        if found then
          answer := 'Won';
        elsif not ${isPresent} then
          answer := 'Replaced';
        elsif ${hasRoom} then
          answer := 'Contended';
        else
          answer := 'Full';
        end if;
      end if;
      return next;
    end loop;
  end $$`

/**
 * Heartbeat repair of all leases of one process. Mostly every row is there, and only those are answered whose cancellation
 * was asked for. Else renewal, restoration and the answer for all are one statement over one snapshot: a row that this
 * snapshot shows is never restored, and one that a rival inserts meanwhile wins. The marker of a lease only moves on.
 * Source: SP-LEASE-04, SP-LEASE-05, SP-LEASE-07.
 */
const renewExecutions = `create function renew_executions(
    p_process text, p_ids uuid[], p_projects bigint[], p_generations bigint[], p_labels text[], p_cancels text[],
    p_restorable boolean[], p_sandboxes text[]
  ) returns table (id uuid, cancel text, outcome text) language plpgsql
  ${plannedOnce} as $$
  #variable_conflict use_column
  declare
    renewed bigint;
    asked_ids uuid[];
    asked_cancels text[];
  begin
    with renewal as (
      update execution_leases l
        set heartbeat_at = now(), cancel = case when l.cancel = 'none' then k.cancel else l.cancel end
        from unnest(p_ids, p_projects, p_generations, p_cancels) as k(id, project_id, generation, cancel)
        where l.process = p_process and l.id = k.id and l.cancel <> 'verified' and exists (
          select from runtimes r
            where r.project_id = k.project_id and r.generation = k.generation and r.observed <> 'deleted')
        returning l.id, l.cancel)
    select count(*), array_agg(n.id) filter (where n.cancel <> 'none'),
        array_agg(n.cancel) filter (where n.cancel <> 'none')
      into renewed, asked_ids, asked_cancels from renewal n;
    if renewed = cardinality(p_ids) then
      return query select a.id, a.cancel, 'renewed' from unnest(asked_ids, asked_cancels) as a(id, cancel);
      return;
    end if;
    return query
      with kept as (
        select k.*, exists (
            select from runtimes r
            where r.project_id = k.project_id and r.generation = k.generation and r.observed <> 'deleted') as living
          from unnest(p_ids, p_projects, p_generations, p_labels, p_cancels, p_restorable, p_sandboxes)
            as k(id, project_id, generation, label, cancel, restorable, sandbox_id)),
      renewal as (
        update execution_leases l
          set heartbeat_at = now(), cancel = case when l.cancel = 'none' then k.cancel else l.cancel end
          from kept k
          where l.process = p_process and l.id = k.id and l.cancel <> 'verified' and k.living
          returning l.id, l.cancel),
      restoration as (
        insert into execution_leases (id, project_id, generation, sandbox_id, process, label, cancel)
          select k.id, k.project_id, k.generation, k.sandbox_id, p_process, k.label, k.cancel from kept k
          where k.living and k.restorable and not exists (select from execution_leases l where l.id = k.id)
          on conflict do nothing
          returning execution_leases.id, execution_leases.cancel)
      select k.id, coalesce(n.cancel, s.cancel, l.cancel, 'none'),
        case
          when n.id is not null then 'renewed'
          when s.id is not null then 'restored'
          when not k.living then 'generation'
          when l.process <> p_process then 'successor'
          when l.cancel = 'verified' then 'cancelled'
          when not k.restorable then 'expired'
          else 'absent'
        end
      from kept k
        left join renewal n on n.id = k.id
        left join restoration s on s.id = k.id
        left join execution_leases l on l.id = k.id;
  end $$`

/** Deletes the leases that their holders still have uncancelled; answers which. Source: SP-LEASE-03. */
const releaseExecutions = `create function release_executions(p_ids uuid[], p_processes text[]) returns setof uuid
  language plpgsql ${plannedOnce} as $$
  begin
    return query delete from execution_leases l using unnest(p_ids, p_processes) as o(id, process)
      where l.id = o.id and l.process = o.process and l.cancel = 'none' returning l.id;
  end $$`

/** Deletes the claims that are still those of the holders that are named; answers which. Source: SP-LEASE-03. */
const releaseRepositories = `create function release_repositories(
    p_projects bigint[], p_repositories text[], p_ids uuid[], p_processes text[]
  ) returns setof uuid language plpgsql ${plannedOnce} as $$
  begin
    return query delete from repository_claims c
      using unnest(p_projects, p_repositories, p_ids, p_processes) as o(project_id, repository, id, process)
      where c.project_id = o.project_id and c.repository = o.repository and c.id = o.id and c.process = o.process
      returning c.id;
  end $$`

export const leaseObjects: ReadonlyArray<string> = [
  `create table execution_leases (
    id uuid primary key,
    project_id bigint not null,
    generation bigint not null,
    sandbox_id text not null,
    process text not null,
    label text not null,
    cancel text not null default 'none' check (cancel in ('none', 'requested', 'verified')),
    admitted_at timestamptz(3) not null default now(),
    heartbeat_at timestamptz(3) not null default now()
  ) with (fillfactor = 50)`,
  `create index execution_leases_by_project on execution_leases (project_id)`,
  `create table repository_claims (
    project_id bigint not null,
    repository text not null,
    id uuid not null,
    generation bigint not null,
    sandbox_id text not null,
    process text not null,
    claimed_at timestamptz(3) not null default now(),
    heartbeat_at timestamptz(3) not null default now(),
    primary key (project_id, repository)
  ) with (fillfactor = 50)`,
  renewExecutions,
  releaseExecutions,
  claimRepositories,
  releaseRepositories
]
