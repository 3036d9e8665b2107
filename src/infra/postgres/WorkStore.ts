/**
 * Adapter of agents, runs, tasks and execution workspaces. Every insert checks that what the row names is the tenant's, in
 * the statement itself. When a tenant has as many runs as it may, its oldest ended ones make room.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { agentRunsStoppedMax, endedRunsRemovedMax } from "../../domain/Bounds.ts"
import { PluginDb, type SqlRow, type StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { Agent, ExecutionWorkspace, liveRunStatuses, Run, Task } from "../../domain/work/Work.ts"
import { WorkReferenceRefused, WorkStore, WorkTableFull } from "../../domain/work/WorkStore.ts"
import { jsonText, type Run as Statements, runner } from "./leaseRows.ts"
import { liveRunList } from "./migrations/0001_work.ts"
import { unfinished } from "./migrations/0021_environment_leases.ts"
import { firstOf } from "./rows.ts"
import { tableFullState } from "./storageFailure.ts"

type Service = WorkStore["Service"]

const agentOf = (row: SqlRow): Agent =>
  new Agent({
    id: row["id"] as Agent["id"],
    tenant: row["tenant_id"] as Agent["tenant"],
    name: row["name"] as string,
    adapterType: row["adapter_type"] as string
  })

export const runOf = (row: SqlRow): Run =>
  new Run({
    id: row["id"] as Run["id"],
    tenant: row["tenant_id"] as Run["tenant"],
    agent: row["agent_id"] as Run["agent"],
    status: row["status"] as string,
    invocationSource: row["invocation_source"] as string,
    errorCode: row["error_code"] as string | null,
    result: row["result_json"] as Run["result"],
    finishedAtMillis: row["finished_at"] === null ? null : (row["finished_at"] as Date).getTime()
  })

const taskOf = (row: SqlRow): Task =>
  new Task({
    id: row["id"] as Task["id"],
    tenant: row["tenant_id"] as Task["tenant"],
    title: row["title"] as string,
    status: row["status"] as string
  })

const workspaceOf = (row: SqlRow): ExecutionWorkspace =>
  new ExecutionWorkspace({
    id: row["id"] as ExecutionWorkspace["id"],
    tenant: row["tenant_id"] as ExecutionWorkspace["tenant"],
    project: Number(row["project_id"]) as ExecutionWorkspace["project"],
    mode: row["mode"] as string,
    name: row["name"] as string,
    status: row["status"] as string
  })

const agentText = `insert into core.agents (tenant_id, name, adapter_type)
  select t.id, $2::text, $3::text from core.tenants t where t.id = $1::uuid returning *`

const taskText = `insert into core.tasks (tenant_id, title, assignee_agent_id)
  select t.id, $2::text, $3::uuid from core.tenants t
  where t.id = $1::uuid and ($3::uuid is null
    or exists (select from core.agents a where a.id = $3::uuid and a.tenant_id = t.id)) returning *`

const workspaceText = `insert into execution_workspaces (tenant_id, project_id, name, mode)
  select p.tenant_id, p.id, $3::text, $4::text from core.projects p
  where p.id = $2::bigint and p.tenant_id = $1::uuid returning *`

const runText = `insert into core.runs (tenant_id, agent_id, status, invocation_source, finished_at)
  select a.tenant_id, a.id, $3::text, $4::text, case when $3::text in (${liveRunList}) then null else now() end
  from core.agents a where a.id = $2::uuid and a.tenant_id = $1::uuid returning *`

/** A run whose lease is not over stays: the end of its lease is decided by what the run was. */
const removeEndedRunsText = `delete from core.runs where id = any (array(
    select r.id from core.runs r
      where r.tenant_id = $1::uuid and r.status not in (${liveRunList})
        and not exists (select from environment_leases l where l.run_id = r.id and ${unfinished("l")})
      order by r.created_at limit ${endedRunsRemovedMax} for update of r skip locked))
  returning id`

type Table = WorkTableFull["table"]

/** The one row of an insert: none says that what it names is not the tenant's. */
const created = <A>(
  insert: Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure>,
  table: Table,
  what: WorkReferenceRefused["what"],
  read: (row: SqlRow) => A
) =>
  Effect.flatMap(
    Effect.mapError(insert, (failure) =>
      failure.state === tableFullState ? new WorkTableFull({ table }) : failure
    ),
    ([row]): Effect.Effect<A, WorkReferenceRefused> =>
      row === undefined ? Effect.fail(new WorkReferenceRefused({ what })) : Effect.succeed(read(row))
  )

const creations = (
  run: Statements
): Pick<Service, "createAgent" | "createRun" | "createTask" | "createWorkspace"> => {
  const insertRun = (asked: Parameters<Service["createRun"]>[0]) =>
    created(
      run("createRun", runText, [
        asked.tenant,
        asked.agent,
        asked.status,
        asked.invocationSource ?? "manual"
      ]),
      "runs",
      "agent",
      runOf
    )
  return {
    createAgent: ({ adapterType, name, tenant }) =>
      created(run("createAgent", agentText, [tenant, name, adapterType]), "agents", "tenant", agentOf),
    createTask: ({ assignee, tenant, title }) =>
      created(
        run("createTask", taskText, [tenant, title, assignee]),
        "tasks",
        assignee === null ? "tenant" : "agent",
        taskOf
      ),
    createWorkspace: ({ mode, name, project, tenant }) =>
      created(
        run("createWorkspace", workspaceText, [tenant, project, name, mode]),
        "execution_workspaces",
        "project",
        workspaceOf
      ),
    createRun: (asked) =>
      Effect.catchTag(insertRun(asked), "WorkTableFull", (full) =>
        Effect.flatMap(run("removeEndedRuns", removeEndedRunsText, [asked.tenant]), (removed) =>
          removed.length === 0 ? Effect.fail(full) : insertRun(asked)
        )
      )
  }
}

const setRunStatusText = `update core.runs
  set status = $2::text, error_code = coalesce($3::text, error_code),
    result_json = coalesce($4::text::jsonb, result_json), updated_at = now(),
    finished_at = case when $2::text in (${liveRunList}) then null else now() end
  where id = $1::uuid and status in (${liveRunList}) returning id`

/** Agents, runs, tasks and workspaces: the first three in `core`, workspaces in the plugin's schema. */
export const layer: Layer.Layer<WorkStore, never, PluginDb> = Layer.effect(
  WorkStore,
  Effect.gen(function* () {
    const run = runner(yield* PluginDb, "WorkStore")
    return WorkStore.of({
      ...creations(run),
      runById: (tenant, id) =>
        Effect.map(
          run("runById", "select * from core.runs where id = $1::uuid and tenant_id = $2::uuid", [
            id,
            tenant
          ]),
          (rows) => firstOf(rows, runOf)
        ),
      agentById: (tenant, id) =>
        Effect.map(
          run("agentById", "select * from core.agents where id = $1::uuid and tenant_id = $2::uuid", [
            id,
            tenant
          ]),
          (rows) => firstOf(rows, agentOf)
        ),
      setTaskStatus: (tenant, task, status) =>
        Effect.map(
          run(
            "setTaskStatus",
            `update core.tasks set status = $3::text, updated_at = now()
              where id = $1::uuid and tenant_id = $2::uuid returning id`,
            [task, tenant, status]
          ),
          (rows) => rows.length > 0
        ),
      setRunStatus: (id, { errorCode, result, status }) =>
        Effect.map(
          run("setRunStatus", setRunStatusText, [id, status, errorCode ?? null, jsonText(result ?? null)]),
          (rows) => rows.length > 0
        ),
      liveRunsOf: (agent) =>
        Effect.map(
          run(
            "liveRunsOf",
            `select * from core.runs where agent_id = $1::uuid and status = any ($2::text[])
              order by created_at, id limit ${agentRunsStoppedMax}`,
            [agent, liveRunStatuses]
          ),
          (rows) => rows.map(runOf)
        )
    })
  })
)
