/**
 * Who carries a lease's resource, and whether he can be reached now. A pinned lease has one owner for its life: a sibling
 * of the same key neither serves it nor counts as ready. Only a lease without a pin may be matched by its provider key, and
 * never for a stop. Source: RL-SWEEP-03, RL-EXPORT-03, RL-STOP-06; RL 6.1 items 3, 4 and 29.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sandboxEntryOf } from "../environments/capabilities.ts"
import { type EnvironmentLease, isPluginBacked, pinOf } from "../environments/EnvironmentLease.ts"
import { decideVerb } from "../environments/verb.ts"
import { type BuiltInProvider, BuiltInProviders } from "../providers/BuiltInProviders.ts"
import {
  driverEntryOf,
  type EnvironmentDriverEntry,
  type ProviderPlugin
} from "../providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import { type ProviderWorkerManager, ProviderWorkers } from "../providers/ProviderWorkers.ts"

export type ProviderTarget = Data.TaggedEnum<{
  Plugin: {
    readonly plugin: ProviderPlugin
    readonly entry: EnvironmentDriverEntry
    readonly workers: ProviderWorkerManager
  }
  BuiltIn: { readonly provider: BuiltInProvider }
}>
export const ProviderTarget = Data.taggedEnum<ProviderTarget>()

/** How an owner may be found: by the pin or the built-in name alone, or by provider key where there is no pin. */
export type OwnerSearch = "own" | "by_key"

const providerOf = (lease: EnvironmentLease): string => {
  const recorded = lease.provider ?? lease.metadata["provider"]
  return typeof recorded === "string" ? recorded : ""
}

const isOfPluginDriver = ({ metadata }: EnvironmentLease): boolean => metadata["driver"] === "plugin"

/** The entry that carries the lease; undefined when the plugin no longer declares it. */
const entryFor = (lease: EnvironmentLease, plugin: ProviderPlugin): EnvironmentDriverEntry | undefined => {
  const driverKey = lease.metadata["driverKey"]
  if (!isOfPluginDriver(lease)) return sandboxEntryOf(plugin, providerOf(lease))
  return typeof driverKey === "string" ? driverEntryOf(plugin, driverKey) : undefined
}

/** The plugin of a lease, whether or not it can be reached. */
const pluginFor = Effect.fnUntraced(function* (lease: EnvironmentLease, search: OwnerSearch) {
  const plugins = yield* ProviderPlugins
  const pin = pinOf(lease)
  if (pin !== null) return Option.getOrUndefined(yield* plugins.byId(pin))
  if (search === "own") return undefined
  const all = yield* plugins.all
  return all.find((plugin) => plugin.status === "ready" && entryFor(lease, plugin) !== undefined)
})

/**
 * The lease's provider, if it can be called now: one look, without waiting and without a call. None where its plugin is
 * gone, not ready, declares the driver no more, or its worker does not run. A built-in provider is always there.
 */
export const findTarget = Effect.fnUntraced(function* (lease: EnvironmentLease, search: OwnerSearch) {
  const builtIn =
    pinOf(lease) === null && !isPluginBacked(lease) && !isOfPluginDriver(lease)
      ? (yield* BuiltInProviders).find(providerOf(lease))
      : undefined
  if (builtIn !== undefined) return Option.some(ProviderTarget.BuiltIn({ provider: builtIn }))
  const workers = yield* ProviderWorkers
  if (workers === null) return Option.none<ProviderTarget>()
  const plugin = yield* pluginFor(lease, search)
  const entry = plugin === undefined ? undefined : entryFor(lease, plugin)
  return plugin !== undefined &&
    entry !== undefined &&
    plugin.status === "ready" &&
    workers.isRunning(plugin.id)
    ? Option.some(ProviderTarget.Plugin({ plugin, entry, workers }))
    : Option.none<ProviderTarget>()
})

/** A stop goes to nobody but the lease's own owner. */
export const searchFor = (lease: EnvironmentLease): OwnerSearch =>
  decideVerb(lease)._tag === "Stop" ? "own" : "by_key"

/**
 * Whether what the lease owes could be sent now. It never calls the provider; a sweep leaves a row alone whose owner is
 * not ready, so that its tries are not spent on him. Source: RL-SWEEP-03.
 */
export const isPendingCleanupWorkerReady = (lease: EnvironmentLease) =>
  Effect.map(findTarget(lease, searchFor(lease)), Option.isSome)
