/**
 * Functions of the baseline on environment leases: each rule is one round trip, refusals are answered as rows. Inside a
 * function every statement has a fresh snapshot, so what is read after a lock is what the lock protects. Values of the
 * metadata are only ever compared as jsonb or text, and a number is taken for one only where it is one: a value that
 * cannot be read fails no statement (RL 6.4 item 4).
 *
 * Lock order: environment, lease rows by id, run rows by id.
 */
import {
  cleanupClaimAheadMillisMax,
  cleanupClaimMillis,
  cleanupUnattendedTriesMax,
  environmentLeasesLiveMax
} from "../../../domain/Bounds.ts"
import { stopOnlyMarkerKeys } from "../../../domain/environments/EnvironmentLease.ts"
import { liveRunList } from "./0001_work.ts"

/**
 * Something is still owed for the row, or it may be resumed. A stopped or idle resource of a reusable lease is; what an
 * ephemeral one released is not. Source: RL section 5.1.
 */
export const unfinished = (
  lease: string
): string => `(${lease}.status in ('active', 'retained', 'pending_cleanup')
    or ${lease}.status in ('released', 'failed') and ${lease}.lease_policy = 'reuse_by_environment'
    or ${lease}.status = 'failed' and ${lease}.cleanup_status is distinct from 'success')`

/**
 * The leases that a list is about. A statement that names them by this array comes to them by their ids; by a join alone it
 * may walk through the whole table, since nobody knows how long a list is.
 */
const leasesIn = (list: string): string =>
  `array(select (one ->> 'lease')::uuid from jsonb_array_elements(${list}) one)`

/**
 * The functions keep the plans that they have made first, and a table that was empty then is walked through from end to end
 * until somebody analyzes it. Each statement of theirs has its index, so there is nothing else to choose, and nothing to be
 * planned anew for other values.
 */
const byIndex = "language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan"

/**
 * A status that a row must have, under a name of its own. Written into the statement, it would let a plan come to the row by
 * a partial index on that status, and walk through everything that ever had it.
 */
const heldStatus = "held text := 'active'"
const owedStatus = "owed text := 'pending_cleanup'"

/** Milliseconds since 1970 by the clock of the database. */
const nowMillis = `floor(extract(epoch from clock_timestamp()) * 1000)`

const claimEnd = (lease: string): string => `case
    when jsonb_typeof(${lease}.metadata -> 'pendingCleanupLeaseExpiresAtMs') = 'number'
      then (${lease}.metadata -> 'pendingCleanupLeaseExpiresAtMs')::numeric end`

/**
 * Somebody is at it: a claim in flight whose end lies ahead, but not so far that no claim of ours can have put it there.
 * Source: RL-FENCE-02, U1.
 */
export const claimedNow = (lease: string): string => `coalesce(
    ${lease}.metadata -> 'pendingCleanupInFlight' = 'true'::jsonb
      and ${claimEnd(lease)} > ${nowMillis}
      and ${claimEnd(lease)} <= ${nowMillis} + ${cleanupClaimAheadMillisMax}, false)`

const claimKeys = (attempt: string): string => `jsonb_build_object('pendingCleanupAttemptId', ${attempt},
    'pendingCleanupInFlight', true, 'pendingCleanupLeaseExpiresAtMs', ${nowMillis} + ${cleanupClaimMillis})`

const unfinishedHere = `select count(*) from (
    select from environment_leases l where l.environment_id = p_environment and ${unfinished("l")}
    limit ${environmentLeasesLiveMax}) counted`

/** The former row is the same resource, handed back, and of the same scope. Source: RL-REUSE-04, RL-REUSE-06. */
const isSameScope = `former.tenant_id = p_tenant and former.environment_id = p_environment
      and former.lease_policy = 'reuse_by_environment' and p_policy = 'reuse_by_environment'
      and (former.status = 'released' or former.status = 'retained' and former.cleanup_status = 'success')
      and former.provider is not distinct from p_provider
      and former.provider_lease_id = p_provider_lease_id
      and former.execution_workspace_id is not distinct from p_workspace
      and (p_workspace is not null or former.task_id is not distinct from p_task)
      and former.metadata ->> 'agentId' is not distinct from p_metadata ->> 'agentId'
      and former.metadata #>> '{reusableSandboxLease,agentId}'
        is not distinct from p_metadata #>> '{reusableSandboxLease,agentId}'
      and former.metadata #>> '{reusableSandboxLease,adapterType}'
        is not distinct from p_metadata #>> '{reusableSandboxLease,adapterType}'`

/**
 * Says what is about to be asked of a provider, unless the environment has no room for what would come of it. The same
 * intent again changes nothing. A request key that another intent or a lease has is `taken`: an insert waits for who is
 * about to give the key up, and whether he has a lease by then is read after it. Source: BX-01, FC-04, FC-15.
 */
const intendLease = `create function intend_environment_lease(
    p_id uuid, p_tenant uuid, p_environment uuid, p_run uuid, p_provider text, p_plugin uuid, p_name text,
    p_installation text, p_generation bigint, p_process text, p_request_key text, p_request_fingerprint text,
    p_intents_max int
  ) returns text ${byIndex} as $$
  declare
    waiting bigint;
  begin
    select count(*) into waiting from (
      select from provider_intents i where i.environment_id = p_environment and i.id <> p_id limit p_intents_max) counted;
    if waiting >= p_intents_max or waiting + (${unfinishedHere}) >= ${environmentLeasesLiveMax} then
      return 'full';
    end if;
    insert into provider_intents
        (id, tenant_id, environment_id, run_id, provider, plugin_id, name, installation, generation, process,
          request_key, request_fingerprint)
      values (p_id, p_tenant, p_environment, p_run, p_provider, p_plugin, p_name, p_installation, p_generation, p_process,
        p_request_key, p_request_fingerprint)
      on conflict do nothing;
    if not found and not exists (select from provider_intents where id = p_id) then
      return 'taken';
    end if;
    if p_request_key is not null and exists (select from environment_leases
        where tenant_id = p_tenant and request_key = p_request_key and id <> p_id) then
      delete from provider_intents where id = p_id;
      return 'taken';
    end if;
    return 'intended';
  end $$`

/**
 * The row of an acquisition, in the place of its intent. Binding, room and the row that it takes over are decided here and
 * nowhere before. The same id again is the same row: its first answer was lost. A request key that another lease has is
 * `taken`, and then nothing is changed. Source: RL-ACQ-10, RL-REUSE-06, -09, FC-04.
 */
const acquireLease = `create function acquire_environment_lease(
    p_id uuid, p_tenant uuid, p_environment uuid, p_workspace uuid, p_task uuid, p_run uuid, p_policy text,
    p_provider text, p_provider_lease_id text, p_expires_at timestamptz, p_metadata jsonb, p_sent_config jsonb,
    p_assert_binding boolean, p_replaces uuid
  ) returns table (outcome text, lease environment_leases) ${byIndex} as $$
  declare
    former environment_leases;
  begin
    if p_assert_binding then
      perform from managed_resource_bindings
        where resource_id = p_environment and tenant_id = p_tenant for key share;
      if not found then
        outcome := 'mismatch';
        return next;
        return;
      end if;
    end if;
    if p_replaces is not null then
      select * into former from environment_leases where id = p_replaces for no key update;
      if not coalesce(${isSameScope}, false) then
        select * into lease from environment_leases where id = p_id and tenant_id = p_tenant;
        outcome := case when found then 'acquired' else 'conflict' end;
        return next;
        return;
      end if;
    end if;
    if p_replaces is null and (${unfinishedHere}) >= ${environmentLeasesLiveMax} then
      outcome := 'full';
      return next;
      return;
    end if;
    insert into environment_leases
        (id, tenant_id, environment_id, execution_workspace_id, task_id, run_id, lease_policy, provider,
          provider_lease_id, expires_at, metadata, sent_config)
      values (p_id, p_tenant, p_environment, p_workspace, p_task, p_run, p_policy, p_provider,
          p_provider_lease_id, p_expires_at, p_metadata, p_sent_config)
      on conflict do nothing returning * into lease;
    if not found then
      if not exists (select from environment_leases where id = p_id) then
        outcome := 'taken';
        return next;
        return;
      end if;
      select * into lease from environment_leases where id = p_id and tenant_id = p_tenant;
    end if;
    if p_replaces is not null then
      update environment_leases
        set status = 'expired', cleanup_status = 'success', ended_by = 'reuse' where id = p_replaces;
    end if;
    delete from provider_intents where id = p_id;
    outcome := 'acquired';
    return next;
  end $$`

/**
 * Takes rows for attempts of a cleanup. Where several are taken, or a live run would forbid it, the rows are locked first,
 * by id, and then their runs: a run that comes to life meanwhile is waited for and seen. Source: RL-FENCE-01, -02.
 */
const claimCleanups = `create function claim_environment_cleanups(p_claims jsonb, p_locking boolean)
  returns setof environment_leases ${byIndex} as $$
  declare
    claimed uuid[] := ${leasesIn("p_claims")};
  begin
    if p_locking then
      perform from environment_leases l where l.id = any (claimed) order by l.id for no key update;
      perform from core.runs r
        where r.id = any (array(select l.run_id from environment_leases l where l.id = any (array(
          select (c ->> 'lease')::uuid from jsonb_array_elements(p_claims) c where (c -> 'refuseLiveRun')::boolean))))
        order by r.id for share;
    end if;
    return query
      update environment_leases l
        set status = 'pending_cleanup', cleanup_status = 'failed',
          failure_reason = coalesce(c.reason, l.failure_reason),
          ended_by = case when c.reason is null then coalesce(l.ended_by, c.actor) else c.actor end,
          released_at = coalesce(l.released_at, now()),
          cleanup_due_at = coalesce(l.cleanup_due_at, now()),
          cleanup_tries = case when l.status = 'pending_cleanup' then l.cleanup_tries else 0 end,
          needs_operator = l.needs_operator and l.status = 'pending_cleanup',
          metadata = l.metadata || c.marker || ${claimKeys("c.attempt")}
        from jsonb_to_recordset(p_claims) as c(lease uuid, attempt text, "from" text[], "refuseLiveRun" boolean,
          reason text, marker jsonb, actor text)
        where l.id = any (claimed) and l.id = c.lease and l.status = any (c."from") and l.status <> 'expired' and not ${claimedNow("l")}
          and not (c."refuseLiveRun" and exists (
            select from core.runs r where r.id = l.run_id and r.status in (${liveRunList})))
        returning l.*;
  end $$`

const hasOwedStop = `l.metadata ? '${stopOnlyMarkerKeys[0]}'
        or l.metadata ? '${stopOnlyMarkerKeys[1]}' and not l.metadata ? 'sandboxStopAndRetainReceipt'`

/**
 * Writes the ends of attempts whose rows are still as they were claimed. A row that may only be stopped does not expire,
 * and none is released without evidence of its stop. Source: RL-STOP-08, RL-FENCE-03, RL section 5.2.
 */
const settleCleanups = `create function settle_environment_cleanups(p_ends jsonb, p_locking boolean)
  returns setof environment_leases ${byIndex} as $$
  declare
    ended uuid[] := ${leasesIn("p_ends")};
    ${owedStatus};
  begin
    if p_locking then
      perform from environment_leases l where l.id = any (ended) order by l.id for no key update;
    end if;
    return query
      update environment_leases l
        set status = coalesce(e.status, l.status),
          cleanup_status = case when e.status is null then 'failed' else 'success' end,
          failure_reason = case when e."keepsReason" then l.failure_reason else e.reason end,
          cleanup_tries = l.cleanup_tries + e."isTry"::int,
          needs_operator = e.status is null and l.cleanup_tries + e."isTry"::int >= ${cleanupUnattendedTriesMax},
          cleanup_due_at = case when e.status is null then now() end,
          metadata = (l.metadata || e.metadata || '{"pendingCleanupInFlight": false}') - e.remove
        from jsonb_to_recordset(p_ends) as e(lease uuid, attempt text, run uuid, "providerLeaseId" text, status text,
          "isTry" boolean, "keepsReason" boolean, reason text, metadata jsonb, remove text[])
        where l.id = any (ended) and l.id = e.lease and l.status = owed
          and l.metadata ->> 'pendingCleanupAttemptId' = e.attempt
          and l.run_id is not distinct from e.run
          and l.provider_lease_id is not distinct from e."providerLeaseId"
          and not (e.status is not distinct from 'expired' and (${hasOwedStop}))
          and (e.status is distinct from 'released'
            or e.metadata #>> '{remoteExecutionTermination,state}' = 'stopped'
              and e.metadata #>> '{remoteExecutionTermination,providerLeaseId}' = l.provider_lease_id)
        returning l.*;
  end $$`

/**
 * Ends active rows, each only if it is still its run's where one is told. Several are locked first, by id.
 * Source: RL-REL-01, FC-22.
 */
const releaseLeases = `create function release_environment_leases(p_ends jsonb, p_locking boolean)
  returns setof environment_leases ${byIndex} as $$
  declare
    ended uuid[] := ${leasesIn("p_ends")};
    ${heldStatus};
  begin
    if p_locking then
      perform from environment_leases l where l.id = any (ended) order by l.id for no key update;
    end if;
    return query
      update environment_leases l
        set status = e.status, failure_reason = e.reason, cleanup_status = e.cleanup, released_at = now(),
          cleanup_due_at = case when e.status = 'pending_cleanup' then now() end,
          metadata = l.metadata || e.metadata, ended_by = e.actor
        from jsonb_to_recordset(p_ends)
          as e(lease uuid, status text, reason text, cleanup text, metadata jsonb, actor text, run uuid)
        where l.id = any (ended) and l.id = e.lease and l.status = held and (e.run is null or l.run_id = e.run)
        returning l.*;
  end $$`

/**
 * Deletes an environment unless a reusable lease of it is unfinished. Its row is locked before they are looked for, so
 * that none is inserted meanwhile. Source: RL-FENCE-04.
 */
const removeIfDeletable = `create function remove_environment_if_deletable(p_environment uuid)
  returns setof environments ${byIndex} as $$
  begin
    perform from environments where id = p_environment for update;
    if not found or exists (select from environment_leases l
        where l.environment_id = p_environment and l.lease_policy = 'reuse_by_environment' and ${unfinished("l")}) then
      return;
    end if;
    delete from core.secret_bindings where target_id = p_environment;
    return query delete from environments where id = p_environment returning *;
  end $$`

export const leaseFunctions: ReadonlyArray<string> = [
  intendLease,
  acquireLease,
  claimCleanups,
  settleCleanups,
  releaseLeases,
  removeIfDeletable
]
