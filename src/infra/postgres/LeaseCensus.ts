/** Adapter of what is asked about all leases at once, on the plugin's schema. Each question is one statement. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { LeaseCensus } from "../../domain/environments/LeaseCensus.ts"
import type { EnvironmentLeaseId, TenantId } from "../../domain/Identity.ts"
import { PluginDb } from "../../domain/persistence/PluginDb.ts"
import { runner } from "./leaseRows.ts"
import { unfinished } from "./migrations/0021_environment_leases.ts"
import { firstOf } from "./rows.ts"

const knownText = `select id from environment_leases where id = any ($1::uuid[])
  union all select id from provider_intents where id = any ($1::uuid[])`

const tenantText = `select tenant_id from environment_leases where environment_id = $1::uuid
  order by created_at desc limit 1`

/** Asked before a plugin is taken out, which is seldom: it reads every lease that is not over. */
const owedText = `select (select count(*) from environment_leases l
      where ${unfinished("l")} and l.metadata ->> 'pluginId' = $1::text)
    + (select count(*) from provider_intents i where i.plugin_id = $1::uuid) as count`

export const layer: Layer.Layer<LeaseCensus, never, PluginDb> = Layer.effect(
  LeaseCensus,
  Effect.map(PluginDb, (db) => {
    const run = runner(db, "LeaseCensus")
    return LeaseCensus.of({
      known: (ids) =>
        ids.length === 0
          ? Effect.succeed(new Set())
          : Effect.map(
              run("known", knownText, [ids]),
              (rows) => new Set(rows.map((row) => row["id"] as EnvironmentLeaseId))
            ),
      tenantOf: (environment) =>
        Effect.map(run("tenantOf", tenantText, [environment]), (rows) =>
          firstOf(rows, (row) => row["tenant_id"] as TenantId)
        ),
      owedBy: (plugin) =>
        Effect.map(run("owedBy", owedText, [plugin]), ([row]) => Number(row?.["count"] ?? 0))
    })
  })
)
