/**
 * Port of copies of workspaces. A copy keeps links, hard links, holes, times, modes and owners, follows no link and
 * leaves what it copies alone; nobody may write to that meanwhile, which is the caller's business. A copy is made beside
 * its place and put there when it is durable: what has its own name is whole. Paths are those of Disks.ts.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"
import type { DiskFailure } from "./Disks.ts"

/** The workspace cannot be copied as it is. What was copied of it is not at its place. */
export class CopyRefused extends Schema.TaggedError<CopyRefused>()("CopyRefused", {
  why: Schema.String
}) {
  readonly code = "no_safe_copy"
  override get message(): string {
    return `the workspace is not copied: ${this.why}`
  }
}

export class WorkspaceCopies extends Context.Service<
  WorkspaceCopies,
  {
    /**
     * Copies a directory beside the place of `to`, over what an earlier try has left there. Refused with CopyRefused
     * beyond `snapshotBytesMax`, beyond the room on the disk, after `workspaceCopyMillisMax`, and where there are
     * devices. Interrupting ends it; nothing of it goes on then.
     */
    readonly copy: (paths: {
      readonly from: string
      readonly to: string
    }) => Effect.Effect<void, CopyRefused | DiskFailure>
    /** Makes the copy durable and puts it at its place, where nothing or an empty directory may be. */
    readonly publish: (to: string) => Effect.Effect<void, CopyRefused | DiskFailure>
    /** Bytes of the disk that the directory takes. */
    readonly bytesOf: (path: string) => Effect.Effect<number, CopyRefused | DiskFailure>
    /** Removes the copy and what is beside its place; absent counts as removed. */
    readonly discard: (to: string) => Effect.Effect<void, DiskFailure>
  }
>()("holdfast/domain/runtimes/WorkspaceCopies") {
  declare readonly [OutsideTransaction]: true
}
