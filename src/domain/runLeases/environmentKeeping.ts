/**
 * Making and changing environments. A config is stored as it is given, so a value in the clear at a place that is a
 * secret's is refused before it becomes a row: by the schema of the provider that the config names, where one is installed.
 * Source: RL section 2.1, RL-SECRET-01, FC-21.
 */
import * as Effect from "effect/Effect"
import { sandboxEntryOf } from "../environments/capabilities.ts"
import { type Environment, type EnvironmentDriverName, providerKeyOf } from "../environments/Environment.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import { isJsonObject, type JsonObject } from "../Json.ts"
import { driverEntryOf, type EnvironmentDriverEntry } from "../providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import { SecretRefInvalid } from "../secrets/configSecrets.ts"
import { pathText, secretPlacesOf } from "../secrets/secretPlaces.ts"

interface Configured {
  readonly driver: EnvironmentDriverName
  readonly config: JsonObject
}

/** An SSH key stands beside the config as a reference, never in it. Source: RL-SECRET-05. */
const sshSchema: JsonObject = { properties: { privateKey: { type: "string", format: "secret-ref" } } }

/** The config that the provider will be given, with the prefix of its paths, and the schemas that speak about it. */
const schemasFor = Effect.fnUntraced(function* ({ config, driver }: Configured) {
  if (driver === "ssh") return { given: config, schemas: [sshSchema] }
  const plugins = yield* Effect.flatMap(ProviderPlugins, ({ all }) => all)
  const schemasOf = (entries: ReadonlyArray<EnvironmentDriverEntry | undefined>) =>
    entries.flatMap((entry) => (entry?.configSchema === undefined ? [] : [entry.configSchema]))
  if (driver === "sandbox") {
    const key = providerKeyOf(config)
    return { given: config, schemas: schemasOf(plugins.map((plugin) => sandboxEntryOf(plugin, key))) }
  }
  const { driverConfig, driverKey, pluginKey } = config
  const plugin = plugins.find((each) => each.pluginKey === pluginKey)
  const entry =
    plugin !== undefined && typeof driverKey === "string" ? driverEntryOf(plugin, driverKey) : undefined
  return { given: isJsonObject(driverConfig) ? driverConfig : {}, schemas: schemasOf([entry]) }
})

const requireReferences = Effect.fnUntraced(function* (configured: Configured) {
  const { given, schemas } = yield* schemasFor(configured)
  for (const schema of [{}, ...schemas]) {
    const [wrong] = secretPlacesOf(given, schema).invalid
    if (wrong !== undefined) return yield* new SecretRefInvalid({ path: pathText(wrong) })
  }
})

/** Refused with `SecretRefInvalid`, `EnvironmentExists` and `EnvironmentsFull`. */
export const createEnvironment = Effect.fn("runLeases.createEnvironment")(function* (
  asked: Configured & { readonly name: string; readonly description?: string }
) {
  yield* requireReferences(asked)
  return yield* EnvironmentStore.use((store) => store.create(asked))
})

/** What is not given stays. Leases that are there go on as they were recorded. Source: RL-DRIVER-01. */
export const updateEnvironment = Effect.fn("runLeases.updateEnvironment")(function* (
  { config, driver, id }: Environment,
  change: Partial<Configured> & { readonly name?: string; readonly status?: Environment["status"] }
) {
  yield* requireReferences({ driver: change.driver ?? driver, config: change.config ?? config })
  return yield* EnvironmentStore.use((store) => store.update(id, change))
})
