/**
 * Port of the disk directories that runtimes own: they outlive a guest's private state and are removed only by the
 * storage step of a confirmed deletion, and by a restore behind the proof that their machine is gone. Snapshots lie beside
 * them. Every path is canonical and lies below the storage root that the adapter
 * was made with; a path that does not is a defect of ours and is never touched.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ProjectId } from "../Identity.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"

/** The node's disk failed at a runtime's storage. */
export class DiskFailure extends Schema.TaggedError<DiskFailure>()("DiskFailure", {
  path: Schema.String,
  step: Schema.String,
  why: Schema.String
}) {
  readonly code = "disk_failure"
  override get message(): string {
    return `${this.step} failed at ${this.path}: ${this.why}`
  }
}

export class Disks extends Context.Service<
  Disks,
  {
    /** Storage root of one Project: the directory that holds its disks. Pure. */
    readonly rootOf: (project: ProjectId) => string
    /** Path of a disk by its uuid. Pure: nothing is made. */
    readonly pathOf: (project: ProjectId, disk: string) => string
    /** Makes the directory, mode 0700, durably; one that is there is left as it is. */
    readonly ensure: (path: string) => Effect.Effect<void, DiskFailure>
    /** Removes the directory and what is in it, following no link, durably; absent counts as removed. */
    readonly remove: (path: string) => Effect.Effect<void, DiskFailure>
    readonly exists: (path: string) => Effect.Effect<boolean, DiskFailure>
  }
>()("holdfast/domain/runtimes/Disks") {
  declare readonly [OutsideTransaction]: true
}
