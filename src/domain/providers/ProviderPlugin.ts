/**
 * A provider plugin: a program of somebody else's that carries environments through its worker process. Its row is its
 * identity; leases name it by id (the pin) and hold no foreign key to it. Source: RL section 2.1.
 */
import * as Schema from "effect/Schema"
import { ProviderPluginId } from "../Identity.ts"

export const EnvironmentDriverEntry = Schema.Struct({
  driverKey: Schema.String,
  /** `sandbox_provider` serves sandbox environments; anything else, or none, only the driver `plugin`. */
  kind: Schema.optionalKey(Schema.String),
  displayName: Schema.optionalKey(Schema.String),
  /** The older way to opt in to reuse; `sandboxCapabilities.reusableLeases` beats it. */
  supportsReusableLeases: Schema.optionalKey(Schema.Boolean),
  sandboxCapabilities: Schema.optionalKey(Schema.Record(Schema.String, Schema.Boolean)),
  defaultAcquireTimeoutMs: Schema.optionalKey(Schema.Number),
  /** JSON schema of the config; `format: "secret-ref"` on a string property marks a secret. */
  configSchema: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  /**
   * The provider creates under the name that `intent` of an acquisition gives, and answers `environmentListLeases` by
   * installation label: a lost answer is then found again. Source: BX-01, BX-03.
   */
  supportsIntents: Schema.optionalKey(Schema.Boolean)
})
export type EnvironmentDriverEntry = typeof EnvironmentDriverEntry.Type

export const ProviderManifest = Schema.Struct({
  id: Schema.String,
  apiVersion: Schema.Literal(1),
  version: Schema.String,
  displayName: Schema.optionalKey(Schema.String),
  description: Schema.optionalKey(Schema.String),
  author: Schema.optionalKey(Schema.String),
  categories: Schema.optionalKey(Schema.Array(Schema.String)),
  capabilities: Schema.optionalKey(Schema.Array(Schema.String)),
  entrypoints: Schema.optionalKey(Schema.Struct({ worker: Schema.optionalKey(Schema.String) })),
  environmentDrivers: Schema.optionalKey(Schema.Array(EnvironmentDriverEntry))
})
export type ProviderManifest = typeof ProviderManifest.Type

export const ProviderPluginStatus = Schema.Literals(["ready", "installing", "installed"])
export type ProviderPluginStatus = typeof ProviderPluginStatus.Type

export class ProviderPlugin extends Schema.Class<ProviderPlugin>("holdfast/ProviderPlugin")({
  id: ProviderPluginId,
  pluginKey: Schema.String,
  packageName: Schema.String,
  version: Schema.String,
  apiVersion: Schema.Int,
  manifest: ProviderManifest,
  status: ProviderPluginStatus,
  /** Lower is earlier: among plugins that offer the same driver key the first that is ready serves. */
  installOrder: Schema.Int
}) {}

/** The entry of that key, or undefined. */
export const driverEntryOf = (
  plugin: ProviderPlugin,
  driverKey: string
): EnvironmentDriverEntry | undefined =>
  plugin.manifest.environmentDrivers?.find((entry) => entry.driverKey === driverKey)
