/** Handlers of the group `providers`: the installed provider plugins and how their workers stand. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { removeProvider } from "../../domain/environments/providerRemoval.ts"
import type { ProviderPluginId } from "../../domain/Identity.ts"
import type { ProviderPlugin } from "../../domain/providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../../domain/providers/ProviderPlugins.ts"
import { requireAdministrator } from "../../domain/runLeases/environmentAccess.ts"
import { keepInstalledWorkers } from "../providers/keptPlugins.ts"
import { readPluginFolder } from "../providers/pluginFolder.ts"
import { WorkerKeeping } from "../providers/ProviderWorkers.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { answeringRuntime } from "./environmentRefusals.ts"
import { providerView } from "./environmentViews.ts"

const asAdministrator = Effect.flatMap(CurrentCaller, (caller) => requireAdministrator(caller, "providers"))

const viewsOf = (plugins: ReadonlyArray<ProviderPlugin>) =>
  Effect.map(
    Effect.flatMap(WorkerKeeping, ({ standings }) => standings),
    (standings) =>
      plugins.map((each) =>
        providerView(
          each,
          standings.find(({ plugin }) => plugin === each.id)
        )
      )
  )

const list = Effect.gen(function* () {
  yield* asAdministrator
  return yield* viewsOf(yield* Effect.flatMap(ProviderPlugins, ({ all }) => all))
}).pipe(answeringRuntime)

const add = Effect.fnUntraced(function* (folder: string) {
  yield* asAdministrator
  const { files, manifest } = yield* readPluginFolder(folder)
  const plugin = yield* ProviderPlugins.use((plugins) =>
    plugins.install({ packageName: files.folder, manifest, status: "ready" })
  )
  yield* keepInstalledWorkers()
  const [view] = yield* viewsOf([plugin])
  return view!
}, answeringRuntime)

const remove = Effect.fnUntraced(function* (provider: ProviderPluginId) {
  yield* asAdministrator
  yield* removeProvider(provider)
  yield* keepInstalledWorkers()
}, answeringRuntime)

export const layer = HttpApiBuilder.group(Api, "providers", (handlers) =>
  handlers.handleAll({
    list: () => list,
    add: ({ payload }) => add(payload.folder),
    remove: ({ params }) => remove(params.provider)
  })
)
