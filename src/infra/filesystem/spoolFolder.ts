/**
 * The folder of the orphan spool, held open: records written whole or not at all, unfinished ones taken or dropped, and
 * everything else put aside. What a record is, its reader says. Every function throws what the disk does.
 */
import { randomBytes } from "node:crypto"
import {
  orphanSpoolFileBytesMax,
  orphanSpoolFilesMax,
  orphanSpoolQuarantineMax
} from "../../domain/Bounds.ts"
import {
  below,
  createSynced,
  type FileCalls,
  isMissing,
  makeDirectory,
  openDirectory,
  readPrivate
} from "./durable.ts"
import { PrivateFileRefused } from "./privateFiles.ts"

export interface SpoolFolder {
  readonly calls: FileCalls
  /** Descriptor of the open folder. */
  readonly folder: number
}

const quarantineName = "quarantine"
const namePattern = /^[0-9a-f]{64}\.json$/
const temporaryPattern = /^\.([0-9a-f]{64}\.json)\.tmp$/
const quarantinedNameCharacters = 200

/** Runs with the folder open. It must be a private one of ours and no link. */
export const inFolder = <A>(path: string, calls: FileCalls, run: (spool: SpoolFolder) => A): A => {
  const folder = openDirectory(path, calls)
  try {
    return run({ calls, folder })
  } finally {
    calls.closeSync(folder)
  }
}

const namesIn = (calls: FileCalls, folder: number): ReadonlyArray<string> =>
  calls.readdirSync(below(folder, "."), { withFileTypes: true }).map(({ name }) => name)

const unlinkIfThere = ({ calls, folder }: SpoolFolder, name: string): void => {
  try {
    calls.unlinkSync(below(folder, name))
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

const publish = ({ calls, folder }: SpoolFolder, temporary: string, name: string): void => {
  calls.renameSync(below(folder, temporary), below(folder, name))
  calls.fsyncSync(folder)
}

/** Writes a file durably in the place of a former one of that name. False where there is no room for it. */
export const writeFile = (spool: SpoolFolder, name: string, text: string): boolean => {
  const { calls, folder } = spool
  const others = namesIn(calls, folder).filter((each) => each !== name && each !== quarantineName)
  if (others.length >= orphanSpoolFilesMax || Buffer.byteLength(text) > orphanSpoolFileBytesMax) return false
  const temporary = `.${name}.tmp`
  // Left behind by a process that was killed; it meant to say the same.
  unlinkIfThere(spool, temporary)
  // Driven to its end at once: whoever writes here waits for the disk.
  for (const _ of createSynced(below(folder, temporary), text, calls));
  publish(spool, temporary, name)
  return true
}

export const removeFile = (spool: SpoolFolder, name: string): void => {
  unlinkIfThere(spool, name)
  spool.calls.fsyncSync(spool.folder)
}

const openQuarantine = ({ calls, folder }: SpoolFolder): number => {
  try {
    makeDirectory(below(folder, quarantineName), calls)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
  }
  return openDirectory(below(folder, quarantineName), calls)
}

/** Puts the entry aside, whatever it is: a link is moved and not followed. Whether it could be; it stays otherwise. */
const putAside = (spool: SpoolFolder, name: string): boolean => {
  const { calls, folder } = spool
  try {
    const quarantine = openQuarantine(spool)
    try {
      if (namesIn(calls, quarantine).length >= orphanSpoolQuarantineMax) return false
      const aside = `${name.slice(0, quarantinedNameCharacters)}.${randomBytes(4).toString("hex")}`
      calls.renameSync(below(folder, name), below(quarantine, aside))
      calls.fsyncSync(quarantine)
      calls.fsyncSync(folder)
      return true
    } finally {
      calls.closeSync(quarantine)
    }
  } catch {
    return false
  }
}

const countQuarantined = ({ calls, folder }: SpoolFolder): number => {
  try {
    return inFolder(
      below(folder, quarantineName),
      calls,
      (quarantine) => namesIn(calls, quarantine.folder).length
    )
  } catch (error) {
    if (isMissing(error)) return 0
    throw error
  }
}

/** Errors that are the entry's own; any other, such as too many open files, says nothing about it. */
const faultsOfEntries = new Set(["ELOOP", "ENXIO", "EACCES"])

/** Text of a record's file, or undefined where it is none that could be read as one. */
const textOf = ({ calls, folder }: SpoolFolder, name: string): string | undefined => {
  try {
    return readPrivate(folder, name, orphanSpoolFileBytesMax, calls)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (error instanceof PrivateFileRefused || faultsOfEntries.has(code ?? "")) return undefined
    throw error
  }
}

export interface SpoolContent<A> {
  readonly records: ReadonlyArray<A>
  /** Entries that are no records: those put aside now or before, and those that could not be. */
  readonly quarantined: number
}

/**
 * Reads every record and puts aside what is none. A record that was written whole and has no name yet was never
 * confirmed, and is as true as another; half of one is nothing. `read` answers undefined for what it cannot read.
 */
export const readFolder = <A>(
  spool: SpoolFolder,
  read: (text: string, name: string) => A | undefined
): SpoolContent<A> => {
  const records = new Map<string, A>()
  let stuck = 0
  const recordAt = (entry: string, name: string): A | undefined => {
    const text = textOf(spool, entry)
    return text === undefined ? undefined : read(text, name)
  }
  const take = (entry: string): void => {
    const unfinished = temporaryPattern.exec(entry)?.[1]
    const record =
      unfinished === undefined && !namePattern.test(entry) ? undefined : recordAt(entry, unfinished ?? entry)
    if (record !== undefined) {
      if (unfinished !== undefined) publish(spool, entry, unfinished)
      records.set(unfinished ?? entry, record)
    } else if (unfinished !== undefined) unlinkIfThere(spool, entry)
    else if (!putAside(spool, entry)) stuck += 1
  }
  for (const entry of namesIn(spool.calls, spool.folder)) {
    if (entry === quarantineName) continue
    try {
      take(entry)
    } catch (error) {
      // Gone since the folder was listed: another flush has imported it.
      if (!isMissing(error)) throw error
    }
  }
  return { records: [...records.values()], quarantined: countQuarantined(spool) + stuck }
}
