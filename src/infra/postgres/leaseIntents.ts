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
  type EnvironmentLeaseStore
} from "../../domain/environments/EnvironmentLeaseStore.ts"
import {
  AcquisitionRequestTaken,
  type ProviderIntent,
  type RequestHolder
} from "../../domain/environments/ProviderIntent.ts"
import type { SqlRow } from "../../domain/persistence/PluginDb.ts"
import { groupedElseAlone } from "./groupedCalls.ts"
import { jsonText, type Run, unknownWhenUnanswered } from "./leaseRows.ts"
import { firstOf } from "./rows.ts"

type Service = EnvironmentLeaseStore["Service"]

const intendText = `select intend_environment_lease(c.id, c.tenant, c.environment, c.run, c.provider, c.plugin, c.name,
    c.installation, c.generation, c.process, c.request ->> 'key', c.request ->> 'fingerprint',
    ${environmentIntentsMax}) as outcome
  from jsonb_to_record($1::text::jsonb) as c(id uuid, tenant uuid, environment uuid, run uuid, provider text,
    plugin uuid, name text, installation text, generation bigint, process text, request jsonb)`

const refusedOr = (
  outcome: unknown
): Effect.Effect<void, AcquisitionRequestTaken | EnvironmentLeasesFull> => {
  if (outcome === "full") return Effect.fail(new EnvironmentLeasesFull())
  return outcome === "taken" ? Effect.fail(new AcquisitionRequestTaken()) : Effect.void
}

const intendTogetherText = "select intend_environment_leases($1::text::jsonb) as id"

/** Several go together; one that may wait for who has its key goes alone. */
const intend = (run: Run): Service["intend"] => {
  const alone = (intent: ProviderIntent) =>
    Effect.map(run("intend", intendText, [jsonText(intent)]), ([row]): unknown => row?.["outcome"])
  const grouped = groupedElseAlone<ProviderIntent, unknown>({
    max: groupedLeasesMax,
    atOnce: groupedStatementsAtOnceMax,
    alone,
    together: (intents) =>
      Effect.map(run("intend", intendTogetherText, [jsonText(intents)]), (rows) => {
        const noted = new Set(rows.map((row) => row["id"]))
        return intents.map(({ id }) => (noted.has(id) ? "intended" : undefined))
      })
  })
  return (intent) => {
    const answer = intent.request === undefined ? grouped(intent) : alone(intent)
    return Effect.flatMap(unknownWhenUnanswered(answer), refusedOr)
  }
}

const holderText = `select id, process, request_fingerprint from provider_intents
  where tenant_id = $1::uuid and request_key = $2::text`

const holderOf = (row: SqlRow): RequestHolder => ({
  intent: row["id"] as RequestHolder["intent"],
  process: row["process"] as string,
  fingerprint: row["request_fingerprint"] as string
})

const freeText = `update provider_intents set request_key = null, request_fingerprint = null where id = $1::uuid`

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

export const leaseIntents = (
  run: Run
): Pick<Service, "dropIntent" | "freeRequestKey" | "holderOfRequest" | "intend" | "intents"> => ({
  intend: intend(run),
  holderOfRequest: (tenant, key) =>
    Effect.map(run("holderOfRequest", holderText, [tenant, key]), (rows) => firstOf(rows, holderOf)),
  freeRequestKey: (intent) => Effect.asVoid(unknownWhenUnanswered(run("freeRequestKey", freeText, [intent]))),
  dropIntent: (intent) =>
    Effect.asVoid(
      unknownWhenUnanswered(run("dropIntent", "delete from provider_intents where id = $1::uuid", [intent]))
    ),
  intents: Effect.suspend(() => Effect.map(run("intents", listText), (rows) => rows.map(intentOf)))
})
