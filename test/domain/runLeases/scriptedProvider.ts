/**
 * The scripted provider that ships as an example, carried by real worker processes: what it holds lies in a folder of the
 * test's own, and outlives the worker and the daemon.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { ProviderWorkers } from "../../../src/domain/providers/ProviderWorkers.ts"
import { keepInstalledWorkers } from "../../../src/infra/providers/keptPlugins.ts"
import { readPluginFolder } from "../../../src/infra/providers/pluginFolder.ts"
import * as Workers from "../../../src/infra/providers/ProviderWorkers.ts"
import { waitFor } from "../../support/waiting.ts"
import { settings } from "./runtimes.ts"

const folder = Path.resolve(import.meta.dirname, "../../../examples/provider-plugins/scripted")
const startMillisMax = 30_000

/** Installs it in the test's database, from its own folder. */
export const installScripted = Effect.gen(function* () {
  const { manifest } = yield* readPluginFolder(folder)
  return yield* ProviderPlugins.use((plugins) =>
    plugins.install({ packageName: folder, manifest, status: "ready", installOrder: 1 })
  )
})

/** Workers that bear the label of the tests' runtimes. */
export const workersLayer: Layer.Layer<ProviderWorkers | Workers.WorkerKeeping> = Layer.fresh(
  Workers.layer({ installation: settings.installation })
)

/** The manager, once the worker of every installed plugin runs. */
export const runningWorkers = Effect.gen(function* () {
  yield* keepInstalledWorkers()
  const workers = yield* ProviderWorkers
  const plugins = yield* Effect.flatMap(ProviderPlugins, ({ all }) => all)
  yield* waitFor({
    fact: "the workers run",
    look: Effect.sync(() => plugins.every(({ id }) => workers?.isRunning(id) === true)),
    holds: (isRunning) => isRunning,
    deadlineMillis: startMillisMax
  })
  return workers
})

/** A folder in which the provider keeps what it holds; it is gone with the scope. */
export const stateDirectory = Effect.acquireRelease(
  Effect.sync(() => Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-scripted-"))),
  (path) => Effect.sync(() => Files.rmSync(path, { recursive: true, force: true }))
)

/** What the provider will do wrong, by method; each fault is used once. */
export const orderFaults = (directory: string, faults: Readonly<Record<string, ReadonlyArray<object>>>) =>
  Effect.sync(() => Files.writeFileSync(Path.join(directory, "faults.json"), JSON.stringify(faults)))

export interface ScriptedResource {
  readonly state: string
  readonly installation: string | null
  readonly hiddenListings: number
  readonly creates: number
}

/** What the provider holds, by id. */
export const resourcesIn = (directory: string): Readonly<Record<string, ScriptedResource>> => {
  const path = Path.join(directory, "resources.json")
  return Files.existsSync(path) ? JSON.parse(Files.readFileSync(path, "utf8")) : {}
}

/** Puts a resource there of which nobody was told. */
export const placeResource = (directory: string, name: string, installation: string) =>
  Effect.sync(() => {
    const resource: ScriptedResource = { state: "running", installation, hiddenListings: 0, creates: 1 }
    const all = { ...resourcesIn(directory), [name]: resource }
    Files.writeFileSync(Path.join(directory, "resources.json"), JSON.stringify(all))
  })
