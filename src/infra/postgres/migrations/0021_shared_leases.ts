/**
 * Functions on the leases of many callers at once. Those of acquisitions carry out what `intend_environment_lease` and
 * `acquire_environment_lease` do for one, where nothing stands against it. They wait for nobody's row and refuse nobody:
 * whoever is not in the answer asks alone, and is told by the single function. They are for acquisitions without a request
 * key, without a binding to be asserted, and without a row that they take over.
 */
import {
  cleanupOperatorRetryMillis,
  environmentIntentsMax,
  environmentLeaseListMax,
  environmentLeasesLiveMax
} from "../../../domain/Bounds.ts"
import { claimedNow, unfinished } from "./0021_environment_leases.ts"
import { plannedOnce } from "./plannedOnce.ts"

/** Unfinished leases of the environment, counted no further than its bound. */
const unfinishedOf = (environment: string): string => `(select count(*) from (
      select from environment_leases l where l.environment_id = ${environment} and ${unfinished("l")}
      limit ${environmentLeasesLiveMax}) counted)`

/**
 * Notes intents whose environment has room for all that are asked for here. An intent that is there already is left out.
 * Source: BX-01, FC-15.
 */
const intendLeases = `create function intend_environment_leases(p_intents jsonb) returns setof uuid
  language plpgsql ${plannedOnce} as $$
  declare
    asked bigint := jsonb_array_length(p_intents);
  begin
    return query
      insert into provider_intents
          (id, tenant_id, environment_id, run_id, provider, plugin_id, name, installation, generation, process)
        select c.id, c.tenant, c.environment, c.run, c.provider, c.plugin, c.name, c.installation, c.generation, c.process
          from (select *, (select count(*) from (
                select from provider_intents i where i.environment_id = a.environment
                limit ${environmentIntentsMax}) counted) + asked as waiting
              from jsonb_to_recordset(p_intents) as a(id uuid, tenant uuid, environment uuid, run uuid, provider text,
                plugin uuid, name text, installation text, generation bigint, process text)) c
          where c.waiting <= ${environmentIntentsMax}
            and c.waiting + ${unfinishedOf("c.environment")} <= ${environmentLeasesLiveMax}
        on conflict do nothing
        returning provider_intents.id;
  end $$`

/**
 * Rows of acquisitions, in the places of their intents, where the environment has room for all that are asked for here. A
 * row that is there already is left out. Source: RL-ACQ-10, FC-15.
 */
const acquireLeases = `create function acquire_environment_leases(p_leases jsonb)
  returns table (lease uuid, created_at timestamptz) language plpgsql ${plannedOnce} as $$
  #variable_conflict use_column
  declare
    asked bigint := jsonb_array_length(p_leases);
  begin
    return query with taken as (
      insert into environment_leases as t
          (id, tenant_id, environment_id, execution_workspace_id, task_id, run_id, lease_policy, provider,
            provider_lease_id, expires_at, metadata, sent_config)
        select c.id, c.tenant, c.environment, c."executionWorkspace", c.task, c.run, c.policy, c.provider,
            c."providerLeaseId", to_timestamp(c."expiresAtMillis" / 1000), c.metadata, c."sentConfig"
          from jsonb_to_recordset(p_leases) as c(id uuid, tenant uuid, environment uuid, "executionWorkspace" uuid,
            task uuid, run uuid, policy text, provider text, "providerLeaseId" text, "expiresAtMillis" float8,
            metadata jsonb, "sentConfig" jsonb)
          where ${unfinishedOf("c.environment")} + asked <= ${environmentLeasesLiveMax}
        on conflict do nothing
        returning t.id, t.created_at
    ), gone as (
      delete from provider_intents where id = any (array(select n.id from taken n))
    ) select n.id, n.created_at from taken n;
  end $$`

/**
 * What each of several runs holds and held, the newest first, by the index on runs: a statement of its own would be planned
 * anew for every list, or walk through the whole table.
 */
const leasesOfRuns = `create function environment_leases_of_runs(p_runs uuid[]) returns setof environment_leases
  language plpgsql stable rows 1 ${plannedOnce} as $$
  begin
    return query select l.* from unnest(p_runs) as asked(run), lateral (
      select h.* from environment_leases h where h.run_id = asked.run
        order by h.created_at desc, h.id desc limit ${environmentLeaseListMax}) l;
  end $$`

/**
 * The rows behind a place in the queue's order. None that came into it since the first page was read is among them. A
 * statement of its own would be planned anew for every place. Source: RL-SWEEP-05.
 */
const dueCleanups = `create function due_environment_cleanups(
    p_backoff_millis float8, p_after timestamptz, p_after_id uuid, p_before timestamptz, p_rows_max int
  ) returns setof environment_leases language plpgsql rows 100 ${plannedOnce} as $$
  begin
    return query select l.* from environment_leases l
      where l.status = 'pending_cleanup' and not ${claimedNow("l")}
        and (l.cleanup_due_at, l.id) > (p_after, p_after_id)
        and l.cleanup_due_at < p_before
        and l.cleanup_due_at <= clock_timestamp() - make_interval(secs => (
          case when l.needs_operator then greatest(p_backoff_millis, ${cleanupOperatorRetryMillis})
            else p_backoff_millis end) / 1000)
      order by l.cleanup_due_at, l.id limit p_rows_max;
  end $$`

export const sharedLeaseFunctions: ReadonlyArray<string> = [
  intendLeases,
  acquireLeases,
  leasesOfRuns,
  dueCleanups
]
