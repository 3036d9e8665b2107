/**
 * Functions of the baseline on operations and logs: each rule is one round trip. They answer refusals as rows and
 * raise only where the host's guards raise. Inside a function every statement has a fresh snapshot, so what is read
 * after a lock is what the lock protects.
 *
 *     runtime_operations  what was asked and what came of it; every index is on columns that never change
 *     live_operations     exactly the queued and claimed ones: written here and in OperationStore.ts, nowhere else
 *
 * Lock order: Project row, runtime row, operation row, advisory lock. Trimming skips rows that others hold, so it
 * never waits for them. Advisory keys come as parameters: they are listed in locks.ts.
 */
import { plannedOnce } from "./plannedOnce.ts"

/**
 * The node that carries the newest machine which a receipt of the Project still owes; null where none is owed. An
 * operation that begins with such a machine can only be carried out there. Source: SP-OPS-03, FC-13.
 */
const nodeOfOwedMachine = `create function node_of_owed_machine(p_project bigint) returns uuid language sql stable as $$
    select (coalesce(new_recipe, old_recipe) ->> 'node')::uuid from runtime_operations
      where project_id = p_project and owed <> '{}' order by row_id desc limit 1
  $$`

/**
 * Refusals in the order of decideAdmission. Of what is admitted as new it answers only what the row was given: the caller
 * knows the rest. Source: SP-ADM-01 to SP-ADM-09.
 */
const enqueueOperation = `create function enqueue_operation(
    p_id uuid, p_project bigint, p_account uuid, p_initiator text, p_action text, p_key text, p_expected bigint,
    p_parameters jsonb, p_superseded_code text, p_superseded_text text
  ) returns table (outcome text, actual bigint, expected bigint, admitted_row bigint, admitted_at timestamptz,
    operation runtime_operations)
  language plpgsql as $$
  declare
    machine runtimes;
    made boolean := false;
    receipt runtime_operations;
    live runtime_operations;
  begin
    perform core.require_active_project(p_project);
    if p_account is not null then
      perform core.require_access(p_project, p_account, true);
    end if;
    if p_parameters ? 'adoptDisk' then
      perform core.require_administrator(p_project, p_account);
    end if;
    -- The runtime's row is what two requests meet at: a provision makes it before it looks at anything else.
    loop
      select * into machine from runtimes where project_id = p_project for update;
      exit when found or p_action <> 'provision';
      insert into runtimes (project_id) values (p_project) on conflict do nothing returning * into machine;
      made := found;
      exit when made;
    end loop;
    actual := machine.generation;
    loop
      outcome := null;
      select * into receipt from runtime_operations where project_id = p_project and request_key = p_key;
      if found then
        operation := receipt;
        expected := receipt.generation;
        if receipt.action <> p_action or receipt.parameters <> p_parameters
          or (p_expected is not null and p_expected <> receipt.generation) then
          outcome := 'key_conflict';
          exit;
        elsif receipt.state <> 'failed' then
          outcome := 'repeated';
          exit;
        end if;
      else
        expected := p_expected;
      end if;
      if machine.project_id is null then
        outcome := 'not_provisioned';
        exit;
      elsif expected <> actual
        and (receipt.new_recipe is null or (receipt.new_recipe ->> 'generation')::bigint <> actual) then
        outcome := 'generation_conflict';
        exit;
      end if;
      select o.* into live from live_operations l join runtime_operations o on o.row_id = l.row_id
        where l.project_id = p_project;
      if found and not (p_action = 'stop' and p_initiator <> 'system'
        and live.action = 'recover' and live.initiator = 'system' and live.state = 'queued') then
        outcome := 'in_progress';
        operation := live;
        exit;
      elsif receipt.row_id is null and p_action <> 'provision'
        and (machine.recipe is null or machine.observed = 'deleted') then
        outcome := 'not_provisioned';
        exit;
      elsif p_action = 'provision' and machine.recipe is not null and machine.observed in ('running', 'stopped')
        and (receipt.new_recipe ->> 'sandbox') is distinct from machine.sandbox_id then
        outcome := 'already_provisioned';
        exit;
      end if;
      exit when live.row_id is null;
      update runtime_operations
        set state = 'superseded', settled_at = now(), error_code = p_superseded_code, error_text = p_superseded_text,
          superseded_by = coalesce(p_account::text, 'system')
        where row_id = live.row_id and state = 'queued' returning * into operation;
      -- It was claimed meanwhile: look again.
      continue when not found;
      delete from live_operations where project_id = p_project;
      outcome := 'superseded';
      return next;
      outcome := null;
      exit;
    end loop;
    if outcome is not null then
      -- A refusal leaves nothing behind.
      if made then
        delete from runtimes where project_id = p_project;
      end if;
      return next;
      return;
    end if;
    if receipt.row_id is not null then
      update runtime_operations
        set state = 'queued', settled_at = null, error_code = null, error_text = null, supersede_asked_by = null
        where row_id = receipt.row_id and state = 'failed' returning * into operation;
      outcome := 'rearmed';
      admitted_row := receipt.row_id;
    else
      insert into runtime_operations
        (id, project_id, account_id, initiator, action, request_key, generation, parameters)
        values (p_id, p_project, p_account, p_initiator, p_action, p_key, actual, p_parameters)
        returning row_id, created_at into admitted_row, admitted_at;
      outcome := 'admitted';
      operation := null;
    end if;
    insert into live_operations (project_id, row_id, node_id)
      values (p_project, admitted_row, coalesce(machine.node_id, node_of_owed_machine(p_project)));
    return next;
  end $$`

/**
 * Takes the oldest queued operations, from p_from on and then below it, that this node may carry out and no other claim
 * is at: at most p_max, and fewer only where no more were to be had when it began. Ordinary work of a Project that is
 * not active is superseded instead of claimed. Source: SP-OPS-02, SP-DEL-04, FC-13.
 */
const claimOperations = `create function claim_operations(
    p_process text, p_node uuid, p_from bigint, p_max int, p_closed_code text, p_closed_text text,
    p_asked_code text, p_asked_text text
  ) returns setof runtime_operations language plpgsql ${plannedOnce} as $$
  declare
    candidates bigint[];
    taken int;
  begin
    candidates := array(select o.row_id from live_operations l
      cross join lateral (select row_id from runtime_operations
        where row_id = l.row_id and state = 'queued' for update skip locked) o
      where l.row_id >= p_from and (l.node_id is null or l.node_id = p_node) order by l.row_id limit p_max);
    if p_from > 0 and cardinality(candidates) < p_max then
      candidates := candidates || array(select o.row_id from live_operations l
        cross join lateral (select row_id from runtime_operations
          where row_id = l.row_id and state = 'queued' for update skip locked) o
        where l.row_id < p_from and (l.node_id is null or l.node_id = p_node)
        order by l.row_id limit p_max - cardinality(candidates));
    end if;
    if candidates = '{}' then
      return;
    end if;
    return query update runtime_operations
      set state = 'claimed', claimed_by = p_process, claim_sequence = claim_sequence + 1, claimed_at = now()
      where row_id = any (candidates) and supersede_asked_by is null and (action = 'delete'
        or (select lifecycle from core.projects where id = project_id) = 'active')
      returning *;
    get diagnostics taken = row_count;
    if taken < cardinality(candidates) then
      return query with superseded as (
        update runtime_operations
          set state = 'superseded', settled_at = now(), superseded_by = coalesce(supersede_asked_by, 'system'),
            error_code = case when supersede_asked_by is null then p_closed_code else p_asked_code end,
            error_text = case when supersede_asked_by is null then p_closed_text else p_asked_text end
          where row_id = any (candidates) and state = 'queued' returning *
      ), gone as (
        delete from live_operations l using superseded s where l.project_id = s.project_id and l.row_id = s.row_id
      ) select * from superseded;
    end if;
  end $$`

/**
 * A queued operation taken back by somebody who may write to its Project. What a deletion asked for is the deletion's,
 * and what is claimed is at work: both are answered as they are. Where the claimant's node is not seen, nobody can say
 * what became of the work: then it is marked, and the claim stays. One that is superseded already stays so.
 * Source: FC-06, FC-22, SP-ADM-04, SP-OPS-02.
 */
const supersedeOperation = `create function supersede_operation(
    p_id uuid, p_account uuid, p_code text, p_text text, p_unseen_seconds int
  )
  returns table (outcome text, operation runtime_operations) language plpgsql as $$
  begin
    select * into operation from runtime_operations where id = p_id for update;
    if not found then
      return;
    end if;
    perform core.require_access(operation.project_id, p_account, true);
    if operation.state = 'claimed' and operation.action <> 'delete' and not exists (
      select from nodes where id = split_part(operation.claimed_by, '/', 2)::uuid
        and last_seen_at >= clock_timestamp() - make_interval(secs => p_unseen_seconds)) then
      update runtime_operations set supersede_asked_by = coalesce(supersede_asked_by, p_account::text)
        where row_id = operation.row_id returning * into operation;
      outcome := 'asked';
      return next;
      return;
    end if;
    if operation.state <> 'queued' or operation.action = 'delete' then
      outcome := case when operation.state = 'superseded' then 'repeated' else 'refused' end;
      return next;
      return;
    end if;
    update runtime_operations
      set state = 'superseded', settled_at = now(), error_code = p_code, error_text = p_text,
        superseded_by = p_account::text
      where row_id = operation.row_id returning * into operation;
    delete from live_operations where project_id = operation.project_id and row_id = operation.row_id;
    outcome := 'superseded';
    return next;
  end $$`

/**
 * Ends a claim that is still held; no row where it is not. The runtime row is locked before the operation, as in
 * admission. The probe for the first receipt too many spares the trim where there is none. Source: SP-OPS-04.
 */
const settleOperation = `create function settle_operation(
    p_row bigint, p_process text, p_sequence bigint, p_project bigint, p_state text, p_code text, p_text text,
    p_result jsonb, p_generation bigint, p_observed text, p_reason text, p_kept int, p_trimmed int, p_lock bigint
  ) returns setof runtime_operations language plpgsql ${plannedOnce} as $$
  declare
    settled runtime_operations;
    boundary bigint;
  begin
    if p_observed is not null then
      perform from runtimes where project_id = p_project for update;
    end if;
    update runtime_operations
      set state = p_state, settled_at = now(), claimed_by = null, error_code = p_code, error_text = p_text,
        superseded_by = case when p_state = 'superseded' then 'system' end, result = coalesce(p_result, result), fraction = case when p_state = 'succeeded' then 1 else fraction end
      where row_id = p_row and state = 'claimed' and claimed_by = p_process and claim_sequence = p_sequence
      returning * into settled;
    if not found then
      return;
    end if;
    delete from live_operations where project_id = settled.project_id and row_id = p_row;
    if p_observed is not null then
      update runtimes set observed = p_observed, observed_reason = p_reason,
        refresh_epoch = refresh_epoch + (observed <> p_observed)::int, changed_at = now()
        where project_id = settled.project_id and generation = p_generation;
    end if;
    select row_id into boundary from runtime_operations where project_id = settled.project_id
      order by row_id desc offset p_kept limit 1;
    if found then
      perform pg_advisory_xact_lock(p_lock);
      delete from runtime_operations where row_id = any (array(
        select row_id from runtime_operations
          where project_id = settled.project_id and row_id <= boundary and settled_at is not null and owed = '{}'
          order by row_id limit p_trimmed for update skip locked));
    end if;
    return next settled;
  end $$`

/** Keeps the newest p_kept rows. Lines of a Project without a runtime are dropped. Source: SP-OPS-05, SP-DEL-10. */
const appendRuntimeLog = `create function append_runtime_log(
    p_project bigint, p_operation uuid, p_lines text[], p_kept int, p_lock bigint
  ) returns void language plpgsql as $$
  begin
    perform pg_advisory_xact_lock(p_lock);
    insert into runtime_logs (project_id, operation_id, line)
      select p_project, p_operation, line from unnest(p_lines) with ordinality as given (line, place)
      where exists (select from runtimes where project_id = p_project) order by place;
    delete from runtime_logs where row_id = any (array(
      select row_id from runtime_logs where project_id = p_project order by row_id desc offset p_kept));
  end $$`

/** Under the same lock as appending, so that a line appended meanwhile is removed too. */
const clearRuntimeLog = `create function clear_runtime_log(p_project bigint, p_lock bigint) returns bigint
  language plpgsql as $$
  declare
    cleared bigint;
  begin
    perform pg_advisory_xact_lock(p_lock);
    delete from runtime_logs where project_id = p_project;
    get diagnostics cleared = row_count;
    return cleared;
  end $$`

export const operationFunctions: ReadonlyArray<string> = [
  nodeOfOwedMachine,
  enqueueOperation,
  claimOperations,
  supersedeOperation,
  settleOperation,
  appendRuntimeLog,
  clearRuntimeLog
]
