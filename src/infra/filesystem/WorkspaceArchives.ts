/** Adapter: packs by the system's tar, which reads the directory and follows no link out of it. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawn } from "node:child_process"
import * as Files from "node:fs"
import { workspaceArchiveBytesMax } from "../../domain/Bounds.ts"
import { WorkspaceArchives, WorkspaceUnpackable } from "../../domain/providers/WorkspaceArchives.ts"

type Packed = Effect.Effect<Uint8Array, WorkspaceUnpackable>

const pack = (path: string): Packed =>
  Effect.callback<Uint8Array, WorkspaceUnpackable>((resume) => {
    const refuse = (why: WorkspaceUnpackable["why"]) =>
      resume(Effect.fail(new WorkspaceUnpackable({ path, why })))
    if (Files.statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return refuse("absent")
    const tar = spawn("tar", ["--create", "--directory", path, "--file", "-", "."], {
      stdio: ["ignore", "pipe", "ignore"]
    })
    const parts: Array<Buffer> = []
    let length = 0
    tar.stdout.on("data", (part: Buffer) => {
      length += part.length
      if (length <= workspaceArchiveBytesMax) return void parts.push(part)
      tar.kill("SIGKILL")
      refuse("oversized")
    })
    tar.once("error", () => refuse("unreadable"))
    tar.once("close", (code) =>
      code === 0 ? resume(Effect.succeed(new Uint8Array(Buffer.concat(parts)))) : refuse("unreadable")
    )
    return Effect.sync(() => void tar.kill("SIGKILL"))
  })

export const layer: Layer.Layer<WorkspaceArchives> = Layer.succeed(
  WorkspaceArchives,
  WorkspaceArchives.of({ pack })
)
