/**
 * A sandbox that a run asks for, once it is known which plugin carries it: what reuse, provisioning and the cleanup of a
 * failed creation all go by, and how a row about it is written. Pure. Source: RL sections 2.2 and 3.4.
 */
import { hostMetadataKeys } from "../environments/EnvironmentLease.ts"
import type { JsonObject } from "../Json.ts"
import type { EnvironmentDriverEntry, ProviderPlugin } from "../providers/ProviderPlugin.ts"
import type { ProviderWorkerManager } from "../providers/ProviderWorkers.ts"
import type { ResolvedConfig } from "../secrets/configSecrets.ts"
import { scrubMetadata } from "../secrets/scrubbing.ts"
import type { Acquisition } from "./EnvironmentDriver.ts"

export interface SandboxRequest {
  readonly asked: Acquisition
  /** Provider key, which is the driver key of the plugin's entry. */
  readonly provider: string
  readonly plugin: ProviderPlugin
  readonly entry: EnvironmentDriverEntry
  readonly workers: ProviderWorkerManager
  /** The environment's config without the key `provider`, secrets as references. */
  readonly sentConfig: JsonObject
  /** The same with the secrets' values. */
  readonly resolved: ResolvedConfig
}

/** Where a provider's resource is to be found is the provider's to say, though the host reads it. */
const keysOfProviders: ReadonlySet<string> = new Set([
  "remoteCwd",
  "host",
  "port",
  "username",
  "remoteWorkspacePath"
])

/** The provider config of a sandbox environment, as it is sent. Source: RL-ACQ-04. */
export const providerConfigOf = (config: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(config).filter(([key]) => key !== "provider"))

/**
 * What a provider returned, fit for the top level of a row: without values of secrets, and without the host's own keys,
 * among them the markers by which a row is torn down. Source: RL-SECRET-02, RL-DRIVER-02.
 */
export const providerFieldsOf = (
  returned: JsonObject,
  sentConfig: JsonObject,
  { values }: ResolvedConfig,
  schema: JsonObject | undefined
): JsonObject => {
  const scrubbed = scrubMetadata(returned, {
    config: sentConfig,
    values,
    ...(schema === undefined ? {} : { schema })
  })
  return Object.fromEntries(
    Object.entries(scrubbed).filter(([key]) => !hostMetadataKeys.has(key) || keysOfProviders.has(key))
  )
}

/** What every sandbox row says of its acquisition. Source: RL-ACQ-03. */
export const sandboxKeys = (asked: Acquisition, provider: string): JsonObject => ({
  driver: "sandbox",
  executionWorkspaceMode: asked.executionWorkspace?.mode ?? null,
  ...(asked.agent === undefined ? {} : { agentId: asked.agent }),
  provider
})

/** The pin: by it alone the plugin is found from now on. Source: RL 6.1 item 4. */
export const pinKeys = ({ id, pluginKey }: ProviderPlugin): JsonObject => ({
  pluginId: id,
  pluginKey,
  sandboxProviderPlugin: true
})
