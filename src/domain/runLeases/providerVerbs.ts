/**
 * The calls that end something at a provider: release, stop and destroy, with the recorded config, and the listing by which
 * an end is checked. Each is sent only if the living worker lists it at that moment. None of them fails: what came back is
 * a value, so that no text of a provider reaches a span or a log. Source: RL section 3.4, RL-CAP-07, RL-BUDGET-03, FC-21.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { lifecycleBudgetMillis } from "../environments/budget.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import { recordedConfigOf } from "../environments/recordedConfig.ts"
import type { EnvironmentId } from "../Identity.ts"
import { isJsonObject, type JsonObject } from "../Json.ts"
import { keptSpan } from "../KeptSpan.ts"
import type { BuiltInProvider } from "../providers/BuiltInProviders.ts"
import { isListed } from "../providers/ProviderWorkers.ts"
import { resolveRecordedConfig } from "../secrets/configSecrets.ts"
import { driverConfigOf } from "./pluginCalls.ts"
import type { ProviderTarget } from "./providerTargets.ts"
import type { TeardownUnconfirmed } from "./RunLeaseErrors.ts"
import { RuntimeSettings } from "./RuntimeSettings.ts"
import { TraceParents } from "./TraceParents.ts"

/** What came back. `NotSent`: the provider knows nothing of it. The error of a failed call is the provider's own. */
export type ProviderReply = Data.TaggedEnum<{
  Replied: { readonly reply: unknown }
  Failed: { readonly error: Error }
  NotSent: { readonly why: Extract<TeardownUnconfirmed["why"], "method_missing" | "secret_unavailable"> }
}>
export const ProviderReply = Data.taggedEnum<ProviderReply>()

export type EndingVerb = "release" | "stop" | "destroy"

export interface EndingCall {
  readonly verb: EndingVerb
  readonly lease: EnvironmentLease
  readonly target: ProviderTarget
  /** Whether a stop cuts off what runs. */
  readonly cancelActiveWork?: boolean
  /** Where the row's own reference is gone, evidence may know better. Source: RL-CREATE-08. */
  readonly environment?: EnvironmentId
}

const methodOf: Readonly<Record<EndingVerb, string>> = {
  release: "environmentReleaseLease",
  stop: "environmentStopLease",
  destroy: "environmentDestroyLease"
}

const answered = (call: Effect.Effect<unknown, Error>): Effect.Effect<ProviderReply> =>
  Effect.match(call, {
    onFailure: (error): ProviderReply => ProviderReply.Failed({ error }),
    onSuccess: (reply): ProviderReply => ProviderReply.Replied({ reply })
  })

type PluginTarget = Extract<ProviderTarget, { _tag: "Plugin" }>

interface CallConfig {
  readonly config: JsonObject
  /** Left out of the arguments where the driver gives none. Source: RL-BUDGET-05. */
  readonly budget: readonly [] | readonly [budgetMillis: number | undefined]
}

/**
 * The driver `plugin` goes by its environment's present config, or none once the environment is another driver's or gone.
 * An end needs no binding of its secrets any more. Source: RL-DRIVER-03; RL 6.1 items 15 and 18.
 */
const presentConfig = Effect.fnUntraced(function* (lease: EnvironmentLease) {
  const { environment } = lease
  const found =
    environment === null ? Option.none() : yield* EnvironmentStore.use(({ getById }) => getById(environment))
  return Option.match(
    Option.filter(found, ({ driver }) => driver === "plugin"),
    { onNone: () => ({}), onSome: driverConfigOf }
  )
})

/** The config of the call with its secrets opened, at the last moment. */
const callConfig = Effect.fnUntraced(function* (lease: EnvironmentLease, { entry }: PluginTarget) {
  const isPresent = lease.metadata["driver"] === "plugin"
  const schema = entry.configSchema
  const config = isPresent ? yield* presentConfig(lease) : recordedConfigOf(lease, schema)
  const resolved = yield* resolveRecordedConfig({ tenant: lease.tenant, config, schema })
  const made: CallConfig = {
    config: Redacted.value(resolved.config),
    budget: isPresent ? [] : [lifecycleBudgetMillis(config)]
  }
  return made
})

const paramsOf = (
  { cancelActiveWork, environment, lease, verb }: EndingCall,
  driverKey: string
): JsonObject => ({
  driverKey,
  tenantId: lease.tenant,
  environmentId: environment ?? lease.environment,
  taskId: lease.task,
  providerLeaseId: lease.providerLeaseId,
  leaseMetadata: lease.metadata,
  ...(verb === "stop"
    ? { cancelActiveWork: cancelActiveWork ?? false, resourceDisposition: "stop_and_retain" }
    : {})
})

const secretUnavailable = ProviderReply.NotSent({ why: "secret_unavailable" })
const methodMissing = ProviderReply.NotSent({ why: "method_missing" })

/** One request to the plugin's worker about the lease; the list is read right before it is sent. */
const askPlugin = Effect.fnUntraced(function* (
  lease: EnvironmentLease,
  target: PluginTarget,
  request: { readonly method: string; readonly params: JsonObject }
) {
  const { plugin, workers } = target
  const made = yield* Effect.option(callConfig(lease, target))
  if (Option.isNone(made)) return secretUnavailable
  if (!isListed(workers, plugin.id, request.method)) return methodMissing
  const params = { ...request.params, config: made.value.config }
  return yield* answered(workers.call(plugin.id, request.method, params, ...made.value.budget))
})

const askBuiltIn = (call: EndingCall, provider: BuiltInProvider): Effect.Effect<ProviderReply> => {
  const providerLeaseId = call.lease.providerLeaseId ?? ""
  switch (call.verb) {
    case "release":
      return answered(provider.releaseLease({ providerLeaseId }))
    case "destroy":
      return answered(provider.destroyLease({ providerLeaseId }))
    case "stop":
      return provider.stopLease === undefined
        ? Effect.succeed(methodMissing)
        : answered(provider.stopLease({ providerLeaseId, cancelActiveWork: call.cancelActiveWork ?? false }))
  }
}

/** Sends one verb about one lease, under the run parent of what was executed on it. Source: RL-TRACE-01. */
export const callEnding = Effect.fnUntraced(
  function* (call: EndingCall) {
    const { lease, target, verb } = call
    const { under } = yield* TraceParents
    const asked =
      target._tag === "BuiltIn"
        ? askBuiltIn(call, target.provider)
        : askPlugin(lease, target, {
            method: methodOf[verb],
            params: paramsOf(call, target.entry.driverKey)
          })
    return yield* under(lease.id)(asked)
  },
  (ended, { lease, verb }) =>
    keptSpan("runLeases.callEnding", {
      tenant: lease.tenant,
      environment: lease.environment,
      lease: lease.id,
      provider: lease.provider,
      attempt: lease.metadata["pendingCleanupAttemptId"],
      verb
    })(ended)
)

/** A resource in a provider's list, with the name under which it was created, where the provider says it. */
export interface ListedResource {
  readonly providerLeaseId: string
  readonly intentName: unknown
}

const isListedResource = (held: unknown): held is JsonObject & { readonly providerLeaseId: string } =>
  isJsonObject(held) && typeof held["providerLeaseId"] === "string"

/** A list with anything in it that cannot be read is no list. */
const listedIn = (reply: unknown): ReadonlyArray<ListedResource> | undefined => {
  const leases = isJsonObject(reply) ? reply["leases"] : undefined
  return Array.isArray(leases) && leases.every(isListedResource)
    ? leases.map((held) => ({ providerLeaseId: held.providerLeaseId, intentName: held["intentName"] }))
    : undefined
}

/** Whether the provider still lists the resource under our label; `unknown` where it cannot be asked or does not say. */
export type Listing = "held" | "absent" | "unknown"

/** Whether the provider keeps a list by installation label at all. */
export const hasListing = (target: ProviderTarget): boolean =>
  target._tag === "BuiltIn"
    ? target.provider.listLeases !== undefined
    : target.entry.supportsIntents === true &&
      isListed(target.workers, target.plugin.id, "environmentListLeases")

/** What the provider holds under our label; undefined where it cannot be asked or does not say. Source: BX-01, BX-03. */
export const heldUnderLabel = Effect.fnUntraced(function* (lease: EnvironmentLease, target: ProviderTarget) {
  if (!hasListing(target)) return undefined
  const { installation } = yield* RuntimeSettings
  if (target._tag === "BuiltIn") {
    const listed = yield* Effect.option(target.provider.listLeases?.(installation) ?? Effect.succeed([]))
    return Option.getOrUndefined<ReadonlyArray<ListedResource>>(listed)
  }
  const params = { ...listingParams(lease, target), installation }
  const reply = yield* askPlugin(lease, target, { method: "environmentListLeases", params })
  return reply._tag === "Replied" ? listedIn(reply.reply) : undefined
}, keptSpan("runLeases.heldUnderLabel"))

/** Looks the resource up in the provider's list of what bears our label. Source: FC-07, FC-24, FC-25. */
export const lookUp = Effect.fnUntraced(function* (lease: EnvironmentLease, target: ProviderTarget) {
  const held = yield* heldUnderLabel(lease, target)
  const isHeld = held?.some(({ providerLeaseId }) => providerLeaseId === lease.providerLeaseId)
  const listing: Listing = isHeld === undefined ? "unknown" : isHeld ? "held" : "absent"
  return listing
}, keptSpan("runLeases.lookUp"))

const listingParams = (lease: EnvironmentLease, target: PluginTarget): JsonObject => ({
  driverKey: target.entry.driverKey,
  tenantId: lease.tenant,
  environmentId: lease.environment,
  taskId: lease.task
})
