/**
 * Functions that carry out for many callers at once what `enqueue_operation` and `settle_operation` do for one, where
 * nothing stands against it. A shared call never waits for anybody and refuses nobody: whoever is not in its answer,
 * because a row of his is held or a rule speaks against him, asks again alone and is told by the single function.
 *
 * Lock order: all Project rows, all runtime rows, all operation rows, then the advisory locks. None is waited for, so
 * their order within a table does not matter.
 */

import { plannedOnce } from "./plannedOnce.ts"

/**
 * Admits as new what has an active Project that the account may write to, a machine, the right generation, no receipt
 * of its key and no live operation. One request a Project. Answers in the order of admission. Source: SP-ADM.
 */
const enqueueOperations = `create function enqueue_operations(
    p_ids uuid[], p_projects bigint[], p_accounts uuid[], p_initiators text[], p_actions text[], p_keys text[],
    p_expected bigint[], p_parameters text[]
  ) returns table (id uuid, row_id bigint, generation bigint, created_at timestamptz) language plpgsql
  ${plannedOnce} as $$
  #variable_conflict use_column
  declare
    ours bigint[];
  begin
    ours := array(select core.open_projects(p_projects, p_accounts));
    ours := array(select r.project_id from runtimes r where r.project_id = any (ours)
      for update skip locked);
    return query with admitted as (
      insert into runtime_operations as o
        (id, project_id, account_id, initiator, action, request_key, generation, parameters)
        select g.id, g.project, g.account, g.initiator, g.action, g.key, r.generation, g.parameters::jsonb
          from unnest(p_ids, p_projects, p_accounts, p_initiators, p_actions, p_keys, p_expected, p_parameters)
            with ordinality g (id, project, account, initiator, action, key, expected, parameters, place)
            join runtimes r on r.project_id = g.project
          where g.project = any (ours) and g.action <> 'provision' and not g.parameters::jsonb ? 'adoptDisk'
            and r.recipe is not null
            and r.observed <> 'deleted' and (g.expected is null or g.expected = r.generation)
            and not exists (select from live_operations l where l.project_id = g.project)
            and not exists (select from runtime_operations k where k.project_id = g.project and k.request_key = g.key)
          order by g.place
        returning o.id, o.row_id, o.project_id, o.generation, o.created_at
    ), live as (
      insert into live_operations (project_id, row_id, node_id)
        select a.project_id, a.row_id, coalesce(r.node_id, node_of_owed_machine(a.project_id))
          from admitted a join runtimes r on r.project_id = a.project_id
    ) select a.id, a.row_id, a.generation, a.created_at from admitted a;
  end $$`

/**
 * Ends claims of one process that are still held, one call for each operation, and trims receipts. Left out is whose
 * runtime, whose operation or whose trim somebody else is at. What has ended is answered in columns: for so many, rows
 * cost their reader more than they say. Source: SP-OPS-04, SP-OPS-06.
 */
const settleOperations = `create function settle_operations(
    p_process text, p_rows bigint[], p_sequences bigint[], p_projects bigint[], p_states text[], p_codes text[],
    p_texts text[], p_results text[], p_generations bigint[], p_observed text[], p_reasons text[], p_locks bigint[],
    p_kept int, p_trimmed int
  ) returns table (ended bigint[], actions text[], steps text[], fractions float8[], messages text[])
  language plpgsql ${plannedOnce} as $$
  declare
    seen bigint[];
    crowded bigint[];
    boundaries bigint[];
  begin
    if array_remove(p_observed, null) <> '{}' then
      seen := array(select r.project_id from unnest(p_projects, p_observed) g (project, observed)
        join runtimes r on r.project_id = g.project where g.observed is not null for update of r skip locked);
    end if;
    with held as materialized (
      select g.* from unnest(p_rows, p_sequences, p_projects, p_states, p_codes, p_texts, p_results, p_generations,
          p_observed, p_reasons, p_locks)
          g (operation, sequence, project, state, code, text, result, generation, observed, reason, lock)
        cross join lateral (select from runtime_operations o
          where o.row_id = g.operation and o.state = 'claimed' and o.claimed_by = p_process
            and o.claim_sequence = g.sequence for update skip locked) o
        where g.observed is null or g.project = any (seen)
    ), served as materialized (
      select h.*, k.boundary from held h
        left join lateral (select o.row_id as boundary from runtime_operations o where o.project_id = h.project
          order by o.row_id desc offset p_kept limit 1) k on true
        where k.boundary is null or pg_try_advisory_xact_lock(h.lock)
    ), settled as (
      update runtime_operations o
        set state = s.state, settled_at = now(), claimed_by = null, error_code = s.code, error_text = s.text,
          superseded_by = case when s.state = 'superseded' then 'system' end,
          result = coalesce(s.result::jsonb, o.result),
          fraction = case when s.state = 'succeeded' then 1 else o.fraction end
        from served s where o.row_id = s.operation
        returning o.project_id, o.row_id, o.action, o.step, o.fraction, o.message, s.boundary
    ), gone as (
      delete from live_operations l using settled s where l.project_id = s.project_id and l.row_id = s.row_id
    ), observed as (
      update runtimes r set observed = s.observed, observed_reason = s.reason,
          refresh_epoch = r.refresh_epoch + (r.observed <> s.observed)::int, changed_at = now()
        from served s where s.observed is not null and r.project_id = s.project and r.generation = s.generation
    ) select array_agg(s.row_id), array_agg(s.action::text), array_agg(s.step),
        array_agg(s.fraction::float8), array_agg(s.message),
        array_agg(s.project_id) filter (where s.boundary is not null),
        array_agg(s.boundary) filter (where s.boundary is not null)
      into ended, actions, steps, fractions, messages, crowded, boundaries from settled s;
    if crowded is not null then
      delete from runtime_operations where row_id = any (array(
        select t.row_id from unnest(crowded, boundaries) c (project, boundary)
          cross join lateral (select o.row_id from runtime_operations o
            where o.project_id = c.project and o.row_id <= c.boundary and o.settled_at is not null and o.owed = '{}'
            order by o.row_id limit p_trimmed for update skip locked) t));
    end if;
    return next;
  end $$`

export const sharedCallFunctions: ReadonlyArray<string> = [enqueueOperations, settleOperations]
