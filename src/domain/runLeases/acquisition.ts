/**
 * Acquiring a sandbox: a built-in provider's, or a plugin's. With a plugin the run first comes back to a lease of its own
 * scope if it may; otherwise a fresh resource is provisioned. Source: RL sections 4.1 and 4.2.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Digests } from "../Digests.ts"
import { acquisitionBudgetMillis } from "../environments/budget.ts"
import { effectiveCapabilities, sandboxEntryOf } from "../environments/capabilities.ts"
import { providerKeyOf } from "../environments/Environment.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { leaseFingerprint } from "../environments/fingerprint.ts"
import { type ReuseOwner, reuseOwnerOf, reuseStamp } from "../environments/reuseMatch.ts"
import type { JsonObject } from "../Json.ts"
import { type BuiltInProvider, BuiltInProviders } from "../providers/BuiltInProviders.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import { resolveConfig } from "../secrets/configSecrets.ts"
import { acquisitionParams } from "./acquisitionParams.ts"
import type { Acquisition } from "./EnvironmentDriver.ts"
import { type IntentNote, provisionLease } from "./provisioning.ts"
import { closeLost, comeBack, Return } from "./reuse.ts"
import { SandboxProviderUnknown } from "./RunLeaseErrors.ts"
import {
  pinKeys,
  providerConfigOf,
  providerFieldsOf,
  type SandboxRequest,
  sandboxKeys
} from "./SandboxRequest.ts"
import { cleanUncertainCreation } from "./uncertainCreation.ts"
import { awaitWorker } from "./workerReadiness.ts"

/** The first plugin that is ready and serves sandboxes under the key. Nothing after the acquisition looks by key. */
const sandboxPluginFor = Effect.fnUntraced(function* (provider: string) {
  const plugins = yield* Effect.flatMap(ProviderPlugins, ({ all }) => all)
  for (const plugin of plugins) {
    const entry = plugin.status === "ready" ? sandboxEntryOf(plugin, provider) : undefined
    if (entry !== undefined) return { plugin, entry }
  }
  return yield* new SandboxProviderUnknown({ provider })
})

const askPlugin = (request: SandboxRequest, intent: IntentNote): Effect.Effect<unknown, Error> => {
  const { asked, entry, plugin, provider, resolved, sentConfig, workers } = request
  const params = acquisitionParams(asked, provider, Redacted.value(resolved.config))
  return workers.call(
    plugin.id,
    "environmentAcquireLease",
    entry.supportsIntents === true ? { ...params, intent } : params,
    acquisitionBudgetMillis(sentConfig, entry.defaultAcquireTimeoutMs)
  )
}

/** Whose the lease will be to come back to, if the config, the plugin and its living worker all allow it. Source: RL-ACQ-06. */
const reusableOwner = ({ asked, plugin, provider, workers }: SandboxRequest): Option.Option<ReuseOwner> => {
  const { config } = asked.environment
  if (config["reuseLease"] !== true) return Option.none()
  return reuseOwnerOf({
    tenant: asked.tenant,
    environment: asked.environment.id,
    agent: asked.agent,
    adapterType: asked.adapterType,
    executionWorkspace: asked.executionWorkspace?.id ?? null,
    task: asked.task
  }).pipe(
    Option.filter(() => {
      const supportedMethods = workers.getWorker?.(plugin.id)?.supportedMethods ?? null
      return effectiveCapabilities({ plugin, driverKey: provider, supportedMethods, config }).reusableLeases
    })
  )
}

const ownerStamp = (
  sha256: (text: string) => string,
  { asked, provider, resolved }: SandboxRequest,
  owner: ReuseOwner
): JsonObject => {
  const subject = { provider, adapterType: owner.adapterType, config: asked.environment.config }
  return {
    reusableSandboxLease: reuseStamp(owner, provider, leaseFingerprint(sha256, subject, resolved.uses))
  }
}

const outcomeStamp = (lost: EnvironmentLease | null): JsonObject => ({
  sandboxLeaseAcquisition:
    lost === null ? { outcome: "created" } : { outcome: "replacement", reason: "not_found" }
})

const provisionFromPlugin = Effect.fnUntraced(function* (
  request: SandboxRequest,
  owner: Option.Option<ReuseOwner>,
  lost: EnvironmentLease | null
) {
  const { asked, entry, plugin, provider, resolved, sentConfig } = request
  const { sha256 } = yield* Digests
  return yield* provisionLease({
    asked,
    provider,
    plugin: plugin.id,
    keepsIntents: entry.supportsIntents === true,
    sentConfig,
    values: resolved.values,
    policy: Option.isSome(owner) ? "reuse_by_environment" : "ephemeral",
    create: (intent) => askPlugin(request, intent),
    metadataOf: (returned) => ({
      ...providerFieldsOf(returned, sentConfig, resolved, entry.configSchema),
      ...sentConfig,
      ...sandboxKeys(asked, provider),
      ...pinKeys(plugin)
    }),
    stamps: {
      ...Option.match(owner, { onNone: () => ({}), onSome: (one) => ownerStamp(sha256, request, one) }),
      ...outcomeStamp(lost),
      ...asked.note
    },
    failed: (error, seed) => cleanUncertainCreation(asked, error, { seed, values: resolved.values })
  })
})

const acquireFromPlugin = Effect.fnUntraced(function* (asked: Acquisition, provider: string) {
  const { entry, plugin } = yield* sandboxPluginFor(provider)
  const workers = yield* awaitWorker(provider, plugin.id)
  const { environment, tenant } = asked
  const sentConfig = providerConfigOf(environment.config)
  const schema = entry.configSchema
  const resolved = yield* resolveConfig({ tenant, environment: environment.id, config: sentConfig, schema })
  const request = { asked, provider, plugin, entry, workers, sentConfig, resolved }
  const owner = reusableOwner(request)
  const back = Option.isSome(owner) ? yield* comeBack(request, owner.value) : Return.Fresh({ lost: null })
  if (back._tag === "Held") return back.lease
  const lease = yield* provisionFromPlugin(request, owner, back.lost)
  if (back.lost !== null) yield* closeLost(back.lost)
  return lease
})

/** A built-in provider cannot resume, so its leases are never come back to. Source: RL-ACQ-03, U2. */
const acquireBuiltIn = Effect.fnUntraced(function* (asked: Acquisition, builtIn: BuiltInProvider) {
  const { environment, run, task, tenant } = asked
  const provider = builtIn.key
  const sentConfig = providerConfigOf(environment.config)
  const resolved = yield* resolveConfig({ tenant, environment: environment.id, config: sentConfig })
  return yield* provisionLease<never>({
    asked,
    provider,
    plugin: null,
    keepsIntents: builtIn.listLeases !== undefined,
    sentConfig,
    values: resolved.values,
    policy: "ephemeral",
    create: (intent) =>
      builtIn.acquireLease({
        tenant,
        environment: environment.id,
        task,
        run,
        config: Redacted.value(resolved.config),
        intent
      }),
    metadataOf: (returned) => ({
      ...providerFieldsOf(returned, sentConfig, resolved, undefined),
      ...sentConfig,
      ...sandboxKeys(asked, provider)
    }),
    stamps: { ...outcomeStamp(null), ...asked.note }
  })
})

/**
 * A lease on a sandbox of the environment's provider. Refused with `SandboxProviderUnknown`, `ProviderWorkersUnwired`,
 * `ProviderWorkerOffline`, the secrets' refusals, `SandboxLeasePreserved` and the store's; fails with the provider's own
 * error object.
 */
export const acquireSandboxLease = Effect.fnUntraced(function* (asked: Acquisition) {
  const provider = providerKeyOf(asked.environment.config)
  const builtIn = (yield* BuiltInProviders).find(provider)
  return yield* builtIn === undefined ? acquireFromPlugin(asked, provider) : acquireBuiltIn(asked, builtIn)
})
