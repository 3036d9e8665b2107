/** Port of the installed provider plugins. Every method is one standalone statement. Source: RL section 2.1. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { ProviderPluginId } from "../Identity.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { ProviderManifest, ProviderPlugin, ProviderPluginStatus } from "./ProviderPlugin.ts"

export class ProviderPlugins extends Context.Service<
  ProviderPlugins,
  {
    /** Installs or updates the plugin of that key; the row keeps its id and, when it is not given, its order. */
    readonly install: (plugin: {
      readonly packageName: string
      readonly manifest: ProviderManifest
      readonly status: ProviderPluginStatus
      readonly installOrder?: number
    }) => Effect.Effect<ProviderPlugin, StorageFailure>
    readonly setStatus: (
      plugin: ProviderPluginId,
      status: ProviderPluginStatus
    ) => Effect.Effect<boolean, StorageFailure>
    readonly remove: (plugin: ProviderPluginId) => Effect.Effect<boolean, StorageFailure>
    readonly byId: (plugin: ProviderPluginId) => Effect.Effect<Option.Option<ProviderPlugin>, StorageFailure>
    /** All of them by install order, then by key; at most `providerPluginsMax`. */
    readonly all: Effect.Effect<ReadonlyArray<ProviderPlugin>, StorageFailure>
  }
>()("holdfast/domain/providers/ProviderPlugins") {
  declare readonly [OutsideTransaction]: true
}
