/**
 * Who holds a state directory, found by looking: the lock is not asked for, since even that would keep out a daemon
 * that starts at the same moment. The kernel names the lock in what it tells of an open file; processes of other users
 * are seen by root only. It decides nothing: a daemon may start or end right behind the look. Source: RG-LAY-03.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import { lockHolderBytesMax } from "../../domain/Bounds.ts"
import { ownerFault } from "./durable.ts"
import { errorName } from "./privateFiles.ts"
import { lockName } from "./OwnerLock.ts"
import { readOnlyCalls } from "./readOnlyCalls.ts"

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = Files.constants

export interface LockView {
  /** What the holder says of itself with its pid; null: nobody is seen to hold it. */
  readonly holder: string | null
  /** Why no daemon could take the lock, whoever holds it; null: it could. */
  readonly fault: string | null
}

/** Names of a directory below /proc; none where the process has gone or is another user's. */
const namesOf = (path: string): ReadonlyArray<string> => {
  try {
    return Files.readdirSync(path)
  } catch {
    return []
  }
}

const isLockedAt = (process: string, descriptor: string, lock: Files.Stats): boolean => {
  try {
    const found = Files.statSync(`/proc/${process}/fd/${descriptor}`)
    if (found.ino !== lock.ino || found.dev !== lock.dev) return false
    return Files.readFileSync(`/proc/${process}/fdinfo/${descriptor}`, "latin1").includes("FLOCK")
  } catch {
    return false
  }
}

const findProcess = (lock: Files.Stats): string | null => {
  for (const process of namesOf("/proc").filter((name) => /^\d+$/.test(name))) {
    if (namesOf(`/proc/${process}/fd`).some((each) => isLockedAt(process, each, lock))) return process
  }
  return null
}

/** The first printable words of the lock file. */
const wordsOf = (path: string): string => {
  const descriptor = readOnlyCalls.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const buffer = Buffer.alloc(lockHolderBytesMax)
    const length = Files.readSync(descriptor, buffer, 0, buffer.length, 0)
    return buffer.toString("latin1", 0, length).replace(/[^\x20-\x7e]/g, "")
  } finally {
    Files.closeSync(descriptor)
  }
}

/** Looks at the lock of a state directory; changes nothing, also where there is none. */
export const lookAtLock = (stateDirectory: string): LockView => {
  const path = Path.join(stateDirectory, lockName)
  try {
    const lock = Files.lstatSync(path, { throwIfNoEntry: false })
    if (lock === undefined) return { holder: null, fault: null }
    if (!lock.isFile()) return { holder: null, fault: "it is a link or not a regular file" }
    const fault = ownerFault(lock)
    if (fault !== null) return { holder: null, fault }
    const process = findProcess(lock)
    if (process === null) return { holder: null, fault: null }
    const words = wordsOf(path).trim()
    return { holder: words === "" ? `process ${process}` : `${words} (process ${process})`, fault: null }
  } catch (error) {
    return { holder: null, fault: `it cannot be looked at: ${errorName(error)}` }
  }
}
