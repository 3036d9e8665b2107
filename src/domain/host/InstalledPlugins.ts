/** Port of the host's note of which plugins it has loaded, in which version. One row a plugin: the newest loading. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { OutsideTransaction, StorageError } from "../persistence/PluginDb.ts"
import type { PluginManifest } from "./PluginManifest.ts"

export class InstalledPlugins extends Context.Service<
  InstalledPlugins,
  {
    /** Notes the plugin as loaded now, in place of what was noted of an earlier version. */
    readonly record: (manifest: PluginManifest) => Effect.Effect<void, StorageError>
  }
>()("holdfast/domain/host/InstalledPlugins") {
  declare readonly [OutsideTransaction]: true
}
