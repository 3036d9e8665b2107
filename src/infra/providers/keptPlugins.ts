/**
 * Which workers are kept: those of every plugin that is installed and ready, from the folder that its row names. A folder
 * that is no plugin any more keeps none, and is told in the log; the others go on.
 */
import * as Effect from "effect/Effect"
import { ProviderPlugins } from "../../domain/providers/ProviderPlugins.ts"
import { readPluginFolder } from "./pluginFolder.ts"
import { WorkerKeeping } from "./ProviderWorkers.ts"

/** Brings the kept workers in line with the installed plugins, and answers how many are kept. */
export const keepInstalledWorkers = Effect.fn("providers.keepInstalled")(function* () {
  const plugins = yield* Effect.flatMap(ProviderPlugins, ({ all }) => all)
  const { keep } = yield* WorkerKeeping
  const kept = yield* Effect.forEach(
    plugins.filter(({ status }) => status === "ready"),
    ({ id, packageName, pluginKey }) =>
      readPluginFolder(packageName).pipe(
        Effect.map(({ files }) => [{ plugin: id, files: { ...files, pluginKey } }]),
        Effect.catch((refusal) =>
          Effect.as(
            Effect.logWarning("the folder of a provider plugin cannot be used").pipe(
              Effect.annotateLogs({ plugin: pluginKey, why: refusal.why })
            ),
            []
          )
        )
      )
  )
  yield* keep(kept.flat())
  return kept.flat().length
})
