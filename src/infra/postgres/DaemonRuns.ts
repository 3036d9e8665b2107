/** Adapter of the runs that daemons begin: the agent that stands for people, and what is live of theirs. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { daemonRunsPageMax } from "../../domain/Bounds.ts"
import type { AgentId } from "../../domain/Identity.ts"
import { PluginDb } from "../../domain/persistence/PluginDb.ts"
import { DaemonRuns, daemonSourcePrefix } from "../../domain/work/DaemonRuns.ts"
import { WorkReferenceRefused, WorkTableFull } from "../../domain/work/WorkStore.ts"
import { runner } from "./leaseRows.ts"
import { liveRunList } from "./migrations/0001_work.ts"
import { tableFullState } from "./storageFailure.ts"
import { runOf } from "./WorkStore.ts"

const agentName = "people at the API"

/** The agent's id follows from its tenant's, so two first runs at once make one agent. */
const agentText = `with tenant as (
    select id, md5('${agentName}' || id::text)::uuid as agent from core.tenants where id = $1::uuid),
  made as (
    insert into core.agents (id, tenant_id, name, adapter_type)
      select t.agent, t.id, '${agentName}', 'local_agent' from tenant t
      where not exists (select from core.agents a where a.id = t.agent)
      on conflict (id) do nothing)
  select agent as id from tenant`

const liveText = `select * from core.runs
  where invocation_source like '${daemonSourcePrefix}%' and status in (${liveRunList})
  order by created_at, id limit ${daemonRunsPageMax}`

/** Runs of daemons, in schema `core`. */
export const layer: Layer.Layer<DaemonRuns, never, PluginDb> = Layer.effect(
  DaemonRuns,
  Effect.map(PluginDb, (db) => {
    const run = runner(db, "DaemonRuns")
    return DaemonRuns.of({
      agentOf: (tenant) =>
        run("agentOf", agentText, [tenant]).pipe(
          Effect.mapError((failure) =>
            failure.state === tableFullState ? new WorkTableFull({ table: "agents" }) : failure
          ),
          Effect.flatMap(([row]) =>
            row === undefined
              ? Effect.fail(new WorkReferenceRefused({ what: "tenant" }))
              : Effect.succeed(row["id"] as AgentId)
          )
        ),
      live: Effect.suspend(() => Effect.map(run("live", liveText), (rows) => rows.map(runOf)))
    })
  })
)
