/** Reads a provider plugin as it lies on the disk: `manifest.json`, and the worker that it names inside the folder. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Files from "node:fs"
import * as Path from "node:path"
import { providerManifestBytesMax } from "../../domain/Bounds.ts"
import { ProviderManifest } from "../../domain/providers/ProviderPlugin.ts"
import type { WorkerFiles } from "./workerProcess.ts"

/** The folder is no plugin that this version understands. Nothing was started. */
export class PluginFolderRefused extends Data.TaggedError("PluginFolderRefused")<{
  readonly folder: string
  readonly why: "absent" | "oversized" | "malformed" | "worker"
}> {
  readonly code = "plugin_folder_refused"
  override get message(): string {
    const what = {
      absent: "it has no manifest.json that can be read",
      oversized: `its manifest.json is longer than ${providerManifestBytesMax} bytes`,
      malformed: "its manifest.json is no manifest of apiVersion 1: see docs/provider-plugins.md",
      worker: "its manifest names no worker (entrypoints.worker) that is a file inside the folder"
    }
    return `${this.folder} is no provider plugin: ${what[this.why]}`
  }
}

export interface PluginFolder {
  readonly manifest: ProviderManifest
  readonly files: WorkerFiles
}

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(ProviderManifest))

const readManifest = (folder: string): string | undefined => {
  try {
    return Files.readFileSync(Path.join(folder, "manifest.json"), "utf8")
  } catch {
    return undefined
  }
}

const isFile = (path: string): boolean => Files.statSync(path, { throwIfNoEntry: false })?.isFile() === true

/** Reads the plugin of that folder. A worker outside it is refused, since what is installed is the folder. */
export const readPluginFolder = (given: string): Effect.Effect<PluginFolder, PluginFolderRefused> =>
  Effect.suspend(() => {
    const folder = Path.resolve(given)
    const refused = (why: PluginFolderRefused["why"]) => Effect.fail(new PluginFolderRefused({ folder, why }))
    const text = readManifest(folder)
    if (text === undefined) return refused("absent")
    if (Buffer.byteLength(text) > providerManifestBytesMax) return refused("oversized")
    const manifest = Option.getOrUndefined(decode(text))
    if (manifest === undefined) return refused("malformed")
    const worker = Path.resolve(folder, manifest.entrypoints?.worker ?? "")
    if (!worker.startsWith(`${folder}${Path.sep}`) || !isFile(worker)) return refused("worker")
    return Effect.succeed({ manifest, files: { pluginKey: manifest.id, folder, worker } })
  })
