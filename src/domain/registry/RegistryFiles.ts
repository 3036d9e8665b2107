/**
 * Port of the file operations that the registry is made of. Each is one durable step or one read, so that a disk that
 * loses what was not synced can stand behind it. The stored layout, which this file owns:
 *
 *     state/                    0700, of the daemon's user
 *       daemon.lock             0600  held in the kernel for the process's life; its content decides nothing
 *       sandboxes.json          0600  version 2 header: owner, empty map. Replacing it activates records/
 *       .sandboxes.json-*       0600  uncommitted header
 *       records/                0700
 *         meta.json             0600  version 2 and the same owner
 *         sb-<uuid>.json        0600  one owner-wrapped record
 *         .record-*             0600  uncommitted replacement
 *       .records-*              0700  staging of a records directory that is not activated
 *       .records-retired-*      0700  a records directory that never was, to be removed
 *       runtime/                0711  private run state (domain/reclamation/RunState.ts)
 *         owner.json            0600  whose native state it is; durable before any version 2 header
 *         .owner.json-*         0600  unpublished marker
 *       disks/                  0711  disks of runtimes (domain/runtimes/Disks.ts)
 *
 * Every operation refuses links and what is not a regular file, and never waits for a pipe. Source: RG-LAY.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"

/** `state`, or a directory directly below it. */
export type RegistryDirectory = "state" | "records" | (string & {})

/** One entry of a directory. A link, a pipe, a socket and a device are `other`. */
export interface RegistryEntry {
  readonly name: string
  readonly kind: "file" | "directory" | "other"
}

/** One change of a directory's entries, or what makes them durable. */
export type RegistryStep =
  /**
   * Writes a file that was not there, mode 0600, and syncs it. One that dies in between leaves the file with any part of
   * the text, or none.
   */
  | { readonly step: "create"; readonly name: string; readonly text: string }
  /** Replaces `to` by `from`, atomically; durable behind the next `sync` of the directory. */
  | { readonly step: "rename"; readonly from: string; readonly to: string }
  | { readonly step: "unlink"; readonly name: string }
  /** Makes the entries of the directory durable. */
  | { readonly step: "sync" }

export const create = (name: string, text: string): RegistryStep => ({ step: "create", name, text })
export const rename = (from: string, to: string): RegistryStep => ({ step: "rename", from, to })
export const unlink = (name: string): RegistryStep => ({ step: "unlink", name })
export const sync: RegistryStep = { step: "sync" }

/** One file operation failed. `path` is relative to the state directory; `why` an error's name or our sentence. */
export class RegistryFileFailed extends Schema.TaggedError<RegistryFileFailed>()("RegistryFileFailed", {
  step: Schema.String,
  path: Schema.String,
  why: Schema.String
}) {
  override get message(): string {
    return `${this.step} failed at ${this.path}: ${this.why}`
  }
}

export class RegistryFiles extends Context.Service<
  RegistryFiles,
  {
    /** Entries of the directory, in no order; none when there is no such directory. A wrong directory fails. */
    readonly list: (
      directory: RegistryDirectory
    ) => Effect.Effect<Option.Option<ReadonlyArray<RegistryEntry>>, RegistryFileFailed>
    /** Fails unless the entry is of its kind, of the daemon's user, and closed to group and others. Reads nothing. */
    readonly check: (
      directory: RegistryDirectory,
      entry: RegistryEntry
    ) => Effect.Effect<void, RegistryFileFailed>
    /** Text of a regular, private file of at most `registryFileBytesMax` bytes; none when there is no such file. */
    readonly read: (
      directory: RegistryDirectory,
      name: string
    ) => Effect.Effect<Option.Option<string>, RegistryFileFailed>
    /**
     * Does one step after another on entries of the directory and stops at the first that fails, which the failure
     * names; those before it have been done. One trip to the disk, however many they are.
     */
    readonly carryOut: (
      directory: RegistryDirectory,
      steps: ReadonlyArray<RegistryStep>
    ) => Effect.Effect<void, RegistryFileFailed>
    /** Makes a directory directly below the state directory: mode 0700, and 0711 for `runtime`. */
    readonly makeDirectory: (name: string) => Effect.Effect<void, RegistryFileFailed>
    /** Removes an empty directory directly below the state directory. */
    readonly removeDirectory: (name: string) => Effect.Effect<void, RegistryFileFailed>
  }
>()("holdfast/domain/registry/RegistryFiles") {
  declare readonly [OutsideTransaction]: true
}
