/**
 * The config with which a lease's resource was made, for every later call about it. The environment's present one is
 * another thing. Source: RL-REL-04; RL 6.1 items 15 and 16.
 */
import { isJsonObject, type JsonObject } from "../Json.ts"
import { type EnvironmentLease, hostMetadataKeys } from "./EnvironmentLease.ts"

const without = (object: JsonObject, isLeftOut: (key: string) => boolean): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !isLeftOut(key)))

/** Property names of a config schema; empty where it names none. */
const propertiesOf = (configSchema: JsonObject | undefined): ReadonlyArray<string> => {
  const properties = configSchema?.["properties"]
  return isJsonObject(properties) ? Object.keys(properties) : []
}

/**
 * Config for a call, secrets as references, without the key `provider`. A row without a record of what was sent gives its
 * metadata without the host's keys, and of that only what the schema names, when it names anything.
 */
export const recordedConfigOf = (
  lease: EnvironmentLease,
  configSchema: JsonObject | undefined
): JsonObject => {
  if (lease.sentConfig !== null) return without(lease.sentConfig, (key) => key === "provider")
  const named = propertiesOf(configSchema)
  return without(
    lease.metadata,
    (key) => hostMetadataKeys.has(key) || (named.length > 0 && !named.includes(key))
  )
}
