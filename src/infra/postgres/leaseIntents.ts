/** Statements on what is durable before a provider is asked to create. Source: BX-01. */
import * as Effect from "effect/Effect"
import {
  environmentIntentsMax,
  groupedLeasesMax,
  groupedStatementsAtOnceMax,
  providerIntentsPageMax
} from "../../domain/Bounds.ts"
import {
  EnvironmentLeasesFull,
  type EnvironmentLeaseStore,
  type ProviderIntent
} from "../../domain/environments/EnvironmentLeaseStore.ts"
import type { SqlRow } from "../../domain/persistence/PluginDb.ts"
import { groupedCalls } from "./groupedCalls.ts"
import { jsonText, type Run, unknownWhenUnanswered } from "./leaseRows.ts"

type Service = EnvironmentLeaseStore["Service"]

const intendText = `select intend_environment_lease(c.id, c.tenant, c.environment, c.run, c.provider, c.plugin, c.name,
    c.installation, c.generation, c.process, ${environmentIntentsMax}) as outcome
  from jsonb_to_recordset($1::text::jsonb) as c(place int, id uuid, tenant uuid, environment uuid, run uuid,
    provider text, plugin uuid, name text, installation text, generation bigint, process text)
  order by c.place`

/** Intents wait for nobody's rows, so several go together. */
const intend = (run: Run): Service["intend"] => {
  const together = groupedCalls<ProviderIntent, unknown>({
    max: groupedLeasesMax,
    atOnce: groupedStatementsAtOnceMax,
    run: (intents) =>
      Effect.map(
        run("intend", intendText, [jsonText(intents.map((intent, place) => ({ ...intent, place })))]),
        (rows) => rows.map((row) => row["outcome"])
      )
  })
  return (intent) =>
    Effect.flatMap(unknownWhenUnanswered(together(intent)), (outcome) =>
      outcome === "full" ? Effect.fail(new EnvironmentLeasesFull()) : Effect.void
    )
}

const intentOf = (row: SqlRow): ProviderIntent & { readonly ageMillis: number } => ({
  id: row["id"] as ProviderIntent["id"],
  tenant: row["tenant_id"] as ProviderIntent["tenant"],
  environment: row["environment_id"] as ProviderIntent["environment"],
  run: row["run_id"] as ProviderIntent["run"],
  provider: row["provider"] as string,
  plugin: row["plugin_id"] as ProviderIntent["plugin"],
  name: row["name"] as string,
  installation: row["installation"] as string,
  generation: Number(row["generation"]),
  process: row["process"] as string,
  ageMillis: Math.max(0, Number(row["age_millis"]))
})

const listText = `select *, floor(extract(epoch from clock_timestamp() - created_at) * 1000)::float8 as age_millis
  from provider_intents order by created_at, id limit ${providerIntentsPageMax}`

export const leaseIntents = (run: Run): Pick<Service, "dropIntent" | "intend" | "intents"> => ({
  intend: intend(run),
  dropIntent: (intent) =>
    Effect.asVoid(
      unknownWhenUnanswered(run("dropIntent", "delete from provider_intents where id = $1::uuid", [intent]))
    ),
  intents: Effect.suspend(() => Effect.map(run("intents", listText), (rows) => rows.map(intentOf)))
})
