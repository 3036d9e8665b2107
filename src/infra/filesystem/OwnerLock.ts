/**
 * The daemon's lock on its state directory: a kernel lock on daemon.lock, tied to a descriptor of this process, so
 * that it dies with it and no stale-lock procedure exists. What the file contains names the holder to people and
 * decides nothing. Source: RG-LAY-02, RG-LAY-03, FC-17.
 */
import { spawnSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { lockHolderBytesMax } from "../../domain/Bounds.ts"
import { RegistryOpenRefused, StateDirectoryHeld } from "../../domain/registry/Registry.ts"

const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = Files.constants
export const lockName = "daemon.lock"
const heldElsewhere = 75

/** Opens the lock file; a link, a pipe and anything but a regular file are refused and left alone. */
const openLock = (path: string): Effect.Effect<number, RegistryOpenRefused> =>
  Effect.try({
    try: () => {
      const descriptor = Files.openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600)
      if (Files.fstatSync(descriptor).isFile()) return descriptor
      Files.closeSync(descriptor)
      throw new Error("not a file")
    },
    catch: (error) => {
      const { code } = error as NodeJS.ErrnoException
      const why = code === "ELOOP" ? "it is a symbolic link" : (code ?? "it is not a regular file")
      return new RegistryOpenRefused({ path: lockName, why })
    }
  })

/** What the holder wrote about itself, cut and without control characters. */
const holderOf = (descriptor: number): string => {
  const buffer = Buffer.alloc(lockHolderBytesMax)
  const length = Files.readSync(descriptor, buffer, 0, buffer.length, 0)
  const text = buffer
    .toString("utf8", 0, length)
    .replace(/[^\x20-\x7e]/g, "")
    .trim()
  return text === "" ? "another process" : text
}

/** The kernel lock belongs to the open file, which this process keeps; the helper only asks for it. */
const lock = (descriptor: number): "held" | "taken" | "failed" => {
  const { status } = spawnSync("flock", ["-n", "-E", String(heldElsewhere), "3"], {
    stdio: ["ignore", "ignore", "ignore", descriptor]
  })
  if (status === 0) return "held"
  return status === heldElsewhere ? "taken" : "failed"
}

/**
 * Holds the state directory while the scope is open. Refused with `StateDirectoryHeld`, which names the holder; then
 * nothing was touched. `holder` is one line about this process, with no secret in it.
 */
export const holdStateDirectory = (
  directory: string,
  holder: string
): Effect.Effect<void, StateDirectoryHeld | RegistryOpenRefused, Scope.Scope> =>
  Effect.gen(function* () {
    const descriptor = yield* Effect.acquireRelease(openLock(Path.join(directory, lockName)), (opened) =>
      Effect.sync(() => Files.closeSync(opened))
    )
    const outcome = lock(descriptor)
    if (outcome === "taken") {
      return yield* new StateDirectoryHeld({ directory, holder: holderOf(descriptor) })
    }
    if (outcome === "failed") {
      return yield* new RegistryOpenRefused({
        path: lockName,
        why: "it cannot be locked: the program flock of util-linux is missing or failed"
      })
    }
    Files.fchmodSync(descriptor, 0o600)
    Files.ftruncateSync(descriptor, 0)
    Files.writeSync(descriptor, `${holder}\n`, 0)
  })
