/** Which workers are kept: of plugins that are ready and whose folders are plugins; one bad folder costs the others nothing. */
import { resolve } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ProviderPluginId } from "../../../src/domain/Identity.ts"
import { ProviderPlugin, type ProviderPluginStatus } from "../../../src/domain/providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { keepInstalledWorkers } from "../../../src/infra/providers/keptPlugins.ts"
import { WorkerKeeping } from "../../../src/infra/providers/ProviderWorkers.ts"
import { unasked } from "../http/unaskedPorts.ts"

const examples = resolve(import.meta.dirname, "../../../examples/provider-plugins")

const plugin = (last: number, folder: string, status: ProviderPluginStatus = "ready") =>
  new ProviderPlugin({
    id: ProviderPluginId.make(`00000000-0000-4000-8000-00000000000${last}`),
    pluginKey: `key-${last}`,
    packageName: folder,
    version: "1",
    apiVersion: 1,
    manifest: { id: "x", apiVersion: 1, version: "1" },
    status,
    installOrder: last
  })

describe("providers/keptPlugins", () => {
  it.effect(
    "the ready ones are kept under the keys of their rows, and a folder that is none keeps none",
    () =>
      Effect.gen(function* () {
        const all = Effect.succeed([
          plugin(1, `${examples}/bubblewrap`),
          plugin(2, "/nowhere"),
          plugin(3, `${examples}/scripted`, "installed"),
          plugin(4, `${examples}/scripted`)
        ])
        const kept: Array<string> = []
        const keep: WorkerKeeping["Service"]["keep"] = (workers) =>
          Effect.sync(
            () => void kept.push(...workers.map(({ files }) => `${files.pluginKey} ${files.folder}`))
          )
        const count = yield* keepInstalledWorkers().pipe(
          Effect.provide(unasked(ProviderPlugins, { all })),
          Effect.provideService(WorkerKeeping, { keep, standings: Effect.succeed([]) })
        )
        assert.strictEqual(count, 2)
        assert.deepStrictEqual(kept, [`key-1 ${examples}/bubblewrap`, `key-4 ${examples}/scripted`])
      })
  )
})
