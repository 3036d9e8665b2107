/**
 * Kernel locks on files, and the daemon's lock on its state directory. A lock is tied to a descriptor of this process
 * that no child inherits: it dies with the process, so no procedure for a stale lock exists. The program `flock` asks
 * for it on the descriptor that is handed to it; it belongs to the open file, and stays. What daemon.lock contains
 * names the holder to people and decides nothing. Source: RG-LAY-01, RG-LAY-02, RG-LAY-03, FC-17.
 */
import { spawnSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { lockHolderBytesMax } from "../../domain/Bounds.ts"
import { RegistryOpenRefused, StateDirectoryHeld } from "../../domain/registry/Registry.ts"
import { below, openDirectory, ownerFault } from "./durable.ts"
import { errorName, PrivateFileRefused } from "./privateFiles.ts"

// Node opens every file close-on-exec.
const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = Files.constants
export const lockName = "daemon.lock"
const fileMode = 0o600
const heldElsewhere = 75

/**
 * Opens a lock file, which need not be there; the caller closes it. Refuses a link, anything but a regular file and
 * another user's, and leaves them alone; makes it private. Throws.
 */
export const openLockFile = (path: string): number => {
  const descriptor = Files.openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, fileMode)
  try {
    const found = Files.fstatSync(descriptor)
    if (!found.isFile()) throw new PrivateFileRefused("it is not a regular file")
    const fault = ownerFault(found)
    if (fault !== null) throw new PrivateFileRefused(fault)
    return descriptor
  } catch (error) {
    Files.closeSync(descriptor)
    throw error
  }
}

/**
 * Locks an open file for as long as its descriptor is open, without waiting. `held elsewhere` when another
 * descriptor, of this process or another one, has it. Blocks the event loop for some milliseconds.
 */
export const lockDescriptor = (descriptor: number): "held" | "held elsewhere" | "failed" => {
  const { status } = spawnSync("flock", ["-n", "-E", String(heldElsewhere), "3"], {
    stdio: ["ignore", "ignore", "ignore", descriptor]
  })
  if (status === 0) return "held"
  return status === heldElsewhere ? "held elsewhere" : "failed"
}

/** What the holder wrote about itself, cut and without control characters. */
const holderOf = (descriptor: number): string => {
  const buffer = Buffer.alloc(lockHolderBytesMax)
  const length = Files.readSync(descriptor, buffer, 0, buffer.length, 0)
  const text = buffer
    .toString("latin1", 0, length)
    .replace(/[^\x20-\x7e]/g, "")
    .trim()
  return text === "" ? "a process that has not said who it is" : text
}

/** Whether the name still leads to the file that was locked: somebody may have removed it by hand meanwhile. */
const isSameFile = (path: string, descriptor: number): boolean => {
  const [named, locked] = [Files.lstatSync(path, { throwIfNoEntry: false }), Files.fstatSync(descriptor)]
  return named?.ino === locked.ino && named.dev === locked.dev
}

/** What the file says is for people, so a disk that does not take it is no reason not to start. */
const announce = (descriptor: number, holder: string): void => {
  try {
    Files.fchmodSync(descriptor, fileMode)
    Files.ftruncateSync(descriptor, 0)
    Files.writeSync(descriptor, `${holder}\n`, 0)
  } catch {
    // Nothing is decided by it.
  }
}

const opened = (open: () => number, path: string) =>
  Effect.acquireRelease(
    Effect.try({ try: open, catch: (error) => new RegistryOpenRefused({ path, why: errorName(error) }) }),
    (descriptor) => Effect.sync(() => Files.closeSync(descriptor))
  )

/**
 * Holds the state directory, which must be there, while the scope is open. Refused with `StateDirectoryHeld`, which
 * names the holder, and with `RegistryOpenRefused` where directory or lock file are not private files of ours;
 * nothing was touched then. `holder` is one line about this process, with no secret in it.
 */
export const holdStateDirectory = (
  directory: string,
  holder: string
): Effect.Effect<void, StateDirectoryHeld | RegistryOpenRefused, Scope.Scope> =>
  Effect.gen(function* () {
    const folder = yield* opened(() => openDirectory(directory), ".")
    const path = below(folder, lockName)
    const descriptor = yield* opened(() => openLockFile(path), lockName)
    const outcome = lockDescriptor(descriptor)
    if (outcome === "held elsewhere") {
      return yield* new StateDirectoryHeld({
        directory: Path.resolve(directory),
        holder: holderOf(descriptor)
      })
    }
    if (outcome === "failed") {
      return yield* new RegistryOpenRefused({
        path: lockName,
        why: "it cannot be locked: install the program flock of util-linux"
      })
    }
    if (!isSameFile(path, descriptor)) {
      return yield* new RegistryOpenRefused({
        path: lockName,
        why: "it was replaced while it was taken: find out by whom, and start again"
      })
    }
    announce(descriptor, holder)
  })
