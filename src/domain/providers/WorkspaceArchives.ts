/** Port that packs a directory of this machine, to be unpacked where a run works. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import { workspaceArchiveBytesMax } from "../Bounds.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"

/** The directory cannot be packed. */
export class WorkspaceUnpackable extends Data.TaggedError("WorkspaceUnpackable")<{
  readonly path: string
  readonly why: "absent" | "oversized" | "unreadable"
}> {
  readonly code = "workspace_unpackable"
  override get message(): string {
    return this.why === "oversized"
      ? `${this.path} is larger than ${workspaceArchiveBytesMax} bytes when it is packed: leave out what the run does not need`
      : `${this.path} cannot be packed (${this.why}): give a directory that the daemon may read`
  }
}

export class WorkspaceArchives extends Context.Service<
  WorkspaceArchives,
  {
    /** A tar archive of what is in the directory, links as links, at most `workspaceArchiveBytesMax` bytes. */
    readonly pack: (path: string) => Effect.Effect<Uint8Array, WorkspaceUnpackable>
  }
>()("holdfast/domain/providers/WorkspaceArchives") {
  declare readonly [OutsideTransaction]: true
}
