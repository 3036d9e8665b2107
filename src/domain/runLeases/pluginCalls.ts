/**
 * Calls of the driver `plugin` about a lease that is in use: the environment's present config, three arguments without a
 * budget and four with one. What ends something is sent as for every driver. Source: RL-DRIVER-03 to -05, RL-BUDGET-05.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Environment } from "../environments/Environment.ts"
import { isJsonObject, type JsonObject } from "../Json.ts"
import type { ProviderPluginId, TenantId } from "../Identity.ts"
import { driverEntryOf } from "../providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import { isListed, type ProviderWorkerManager } from "../providers/ProviderWorkers.ts"
import { resolveEnvironmentDriverConfigForRuntime } from "../secrets/configSecrets.ts"
import type { LeaseInPlace } from "./EnvironmentDriver.ts"
import { leaseParams } from "./execution.ts"
import { targetInUse } from "./leaseTarget.ts"
import { SandboxProviderUnknown } from "./RunLeaseErrors.ts"

/** The config that the provider is given, secrets as references. */
export const driverConfigOf = ({ config }: Environment): JsonObject =>
  isJsonObject(config["driverConfig"]) ? config["driverConfig"] : {}

/** The same with its secrets opened through their bindings, and the values for scrubbing. */
export const openDriverConfig = Effect.fnUntraced(function* (
  tenant: TenantId,
  environment: Environment,
  schema: JsonObject | undefined
) {
  const resolved = yield* resolveEnvironmentDriverConfigForRuntime({ tenant, environment, schema })
  const { driverConfig } = Redacted.value(resolved.config)
  return { config: isJsonObject(driverConfig) ? driverConfig : {}, values: resolved.values }
})

/** The ready plugin that an environment names by both of its keys; the entry may be of any kind. Source: RL-DRIVER-02. */
export const pluginNamedBy = Effect.fnUntraced(function* ({ config }: Environment) {
  const { driverKey, pluginKey } = config
  const plugins = yield* Effect.flatMap(ProviderPlugins, ({ all }) => all)
  const plugin = plugins.find((each) => each.pluginKey === pluginKey && each.status === "ready")
  const entry =
    plugin !== undefined && typeof driverKey === "string" ? driverEntryOf(plugin, driverKey) : undefined
  if (plugin === undefined || entry === undefined)
    return yield* new SandboxProviderUnknown({ provider: String(driverKey) })
  return { plugin, entry }
})

/** Sends a call; without a budget there is no fourth argument. */
export const callPlugin = (
  { plugin, workers }: { readonly plugin: ProviderPluginId; readonly workers: ProviderWorkerManager },
  method: string,
  params: JsonObject,
  budgetMillis?: number
): Effect.Effect<unknown, Error> =>
  budgetMillis === undefined
    ? workers.call(plugin, method, params)
    : workers.call(plugin, method, params, budgetMillis)

/**
 * The plugin that carries a lease in use: calls about it, with what a method adds to the common params, and whether the
 * living worker lists a method at that moment.
 */
export const pluginInUse = Effect.fnUntraced(function* (place: LeaseInPlace) {
  const target = yield* targetInUse(place.lease)
  // A lease of this driver is never a built-in provider's: only a row that was written by hand could be.
  if (target._tag === "BuiltIn") return yield* new SandboxProviderUnknown({ provider: target.provider.key })
  const { entry, plugin, workers } = target
  const { config } = yield* openDriverConfig(place.lease.tenant, place.environment, entry.configSchema)
  const params = leaseParams(place, entry.driverKey, config)
  return {
    lists: (method: string): boolean => isListed(workers, plugin.id, method),
    call: (method: string, added: JsonObject, budgetMillis?: number) =>
      callPlugin({ plugin: plugin.id, workers }, method, { ...params, ...added }, budgetMillis)
  }
})

/** One call about a lease in use. */
export const callAboutLease = (
  place: LeaseInPlace,
  method: string,
  added: JsonObject,
  budgetMillis?: number
) => Effect.flatMap(pluginInUse(place), ({ call }) => call(method, added, budgetMillis))
