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

/** The tenant's row is locked, so two first runs at once make one agent. */
const agentText = `with tenant as (select id from core.tenants where id = $1::uuid for no key update),
  present as (select a.id from core.agents a, tenant t where a.tenant_id = t.id and a.name = '${agentName}'
    order by a.created_at, a.id limit 1),
  made as (insert into core.agents (tenant_id, name, adapter_type)
    select t.id, '${agentName}', 'local_agent' from tenant t where not exists (select from present) returning id)
  select id from present union all select id from made`

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
