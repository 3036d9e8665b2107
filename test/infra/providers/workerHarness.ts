/** Help for tests of real worker processes: the plugins that ship as examples, and small ones that are written down. */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { ProviderPluginId } from "../../../src/domain/Identity.ts"
import { type ProviderWorkerManager, ProviderWorkers } from "../../../src/domain/providers/ProviderWorkers.ts"
import { layer, WorkerKeeping } from "../../../src/infra/providers/ProviderWorkers.ts"
import type { WorkerFiles } from "../../../src/infra/providers/workerProcess.ts"
import { waitFor } from "../../support/waiting.ts"

const examples = Path.resolve(import.meta.dirname, "../../../examples/provider-plugins")
export const pluginA = ProviderPluginId.make("00000000-0000-4000-8000-0000000000a1")
export const pluginB = ProviderPluginId.make("00000000-0000-4000-8000-0000000000b2")

export const example = (name: string): WorkerFiles => ({
  pluginKey: `example.${name}`,
  folder: Path.join(examples, name),
  worker: Path.join(examples, name, "worker.mjs")
})

const folder = Effect.acquireRelease(
  Effect.sync(() => Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-provider-"))),
  (path) => Effect.sync(() => Files.rmSync(path, { recursive: true, force: true }))
)

/** A worker of a few lines. */
export const written = (body: string) =>
  Effect.map(folder, (path): WorkerFiles => {
    const worker = Path.join(path, "worker.mjs")
    Files.writeFileSync(
      worker,
      `import { serve } from ${JSON.stringify(Path.join(examples, "serve.mjs"))}\n${body}`
    )
    return { pluginKey: "written", folder: path, worker }
  })

export const untilRunning = (manager: ProviderWorkerManager, plugin = pluginA) =>
  waitFor({
    fact: "the worker runs",
    look: Effect.sync(() => manager.isRunning(plugin)),
    holds: (runs) => runs,
    deadlineMillis: 20_000
  })

export const running = Effect.fnUntraced(function* (files: WorkerFiles, plugin = pluginA) {
  const manager = (yield* ProviderWorkers)!
  const { keep } = yield* WorkerKeeping
  yield* keep([{ plugin, files }])
  yield* Effect.addFinalizer(() => keep([]))
  yield* untilRunning(manager, plugin)
  return manager
})

export const scripted = (faults: Record<string, ReadonlyArray<object>> = {}) =>
  Effect.map(folder, (stateDirectory) => {
    Files.writeFileSync(Path.join(stateDirectory, "faults.json"), JSON.stringify(faults))
    return { stateDirectory }
  })

export const intent = { name: "holdfast-1", installation: "here", generation: 1 }

/** Workers that are asked for a sign of life often. */
export const impatientWorkers = layer({ installation: "here", pingMillis: 100, pingAnswerMillis: 400 })

/** Workers that are left alone while they are busy. */
export const patientWorkers = layer({ installation: "here" })
