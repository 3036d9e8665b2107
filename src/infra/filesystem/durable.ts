/**
 * Private files in directories that are held open: created synced, read bounded, opened below the directory's own
 * descriptor and never through a link. What the files mean, and the order of the steps, is decided elsewhere.
 */
import { isUtf8 } from "node:buffer"
import * as Files from "node:fs"
import * as Path from "node:path"
import { PrivateFileRefused } from "./privateFiles.ts"

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = Files.constants
const fileMode = 0o600
const directoryMode = 0o700
const othersMask = 0o077
const permissionMask = 0o777

/** What is looked at of a file. */
export type FileFacts = Pick<Files.Stats, "mode" | "uid" | "size" | "isFile" | "isDirectory">
export type EntryFacts = Pick<Files.Dirent, "name" | "isFile" | "isDirectory">

/**
 * The calls to the system that a durable write is made of, each in the one form in which it is used. Node's own fit; a
 * reader that must change nothing and a test put theirs in between.
 */
export interface FileCalls {
  readonly openSync: (path: string, flags: number, mode?: number) => number
  readonly closeSync: (descriptor: number) => void
  readonly fstatSync: (descriptor: number) => FileFacts
  readonly readSync: (
    descriptor: number,
    buffer: Buffer,
    at: number,
    length: number,
    position: number
  ) => number
  readonly readdirSync: (path: string, options: { readonly withFileTypes: true }) => ReadonlyArray<EntryFacts>
  readonly lstatSync: (path: string) => FileFacts
  readonly mkdirSync: (path: string, options: { readonly mode: number }) => void
  readonly chmodSync: (path: string, mode: number) => void
  readonly rmdirSync: (path: string) => void
  readonly fchmodSync: (descriptor: number, mode: number) => void
  readonly writeSync: (descriptor: number, bytes: Buffer, at: number, length: number) => number
  readonly fsyncSync: (descriptor: number) => void
  readonly renameSync: (from: string, to: string) => void
  readonly unlinkSync: (path: string) => void
}

/** Whether the call failed because the thing itself is not there. */
export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT"

/** The user of this process, who never changes; asked once, since an open looks at thousands of files. */
const ownUser = process.geteuid?.()

/** Whether it is this process's user's, as a sentence or null. */
export const ownerFault = (found: FileFacts): string | null =>
  found.uid === ownUser ? null : "it belongs to another user"

/** Why somebody else could read or write it, or null. Source: RG-LAY-01. */
const privacyFault = (found: FileFacts): string | null => {
  const mode = found.mode & permissionMask
  if ((mode & othersMask) === 0) return ownerFault(found)
  return `its mode is ${mode.toString(8)}, and group and others may have no access: take it away from them`
}

const requirePrivate = (found: FileFacts): void => {
  const fault = privacyFault(found)
  if (fault !== null) throw new PrivateFileRefused(fault)
}

/** A name below an open directory: the directory cannot be swapped underneath. */
export const below = (directory: number, name: string): string => `/proc/self/fd/${directory}/${name}`

/** Opens a private directory without following a link; the caller closes it. */
export const openDirectory = (path: string, calls: FileCalls = Files): number => {
  const descriptor = calls.openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  try {
    requirePrivate(calls.fstatSync(descriptor))
    return descriptor
  } catch (error) {
    calls.closeSync(descriptor)
    throw error
  }
}

/** Makes a directory of mode 0700, whatever the umask; one that is there is an error. */
export const makeDirectory = (path: string, calls: FileCalls = Files): void => {
  calls.mkdirSync(path, { mode: directoryMode })
  calls.chmodSync(path, directoryMode)
}

/**
 * Makes the directory of mode 0700 durably, or refuses the one that is there when it is a link, of another user, or
 * open to others; it is never repaired. Throws. Source: RG-LAY-01, RG-LAY-02.
 */
export const ensurePrivateDirectory = (path: string): void => {
  let isMade = true
  try {
    makeDirectory(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    isMade = false
  }
  Files.closeSync(openDirectory(path))
  if (!isMade) return
  const parent = Files.openSync(Path.dirname(Path.resolve(path)), O_RDONLY | O_DIRECTORY)
  try {
    Files.fsyncSync(parent)
  } finally {
    Files.closeSync(parent)
  }
}

/** Fails unless the entry is a private file or directory of ours, whatever its content. */
export const checkEntry = (
  directory: number,
  entry: { readonly name: string; readonly kind: string },
  calls: FileCalls = Files
): void => {
  const found = calls.lstatSync(below(directory, entry.name))
  const kind = found.isFile() ? "file" : found.isDirectory() ? "directory" : "other"
  if (kind === "other") throw new PrivateFileRefused("it is a link, a pipe, a socket or a device")
  if (kind !== entry.kind) throw new PrivateFileRefused(`it is a ${kind} where a ${entry.kind} belongs`)
  requirePrivate(found)
}

const readWhole = (descriptor: number, length: number, calls: FileCalls): Buffer => {
  const buffer = Buffer.allocUnsafe(length)
  let at = 0
  while (at < length) {
    const count = calls.readSync(descriptor, buffer, at, length - at, at)
    if (count === 0) throw new PrivateFileRefused("it became shorter while it was read")
    at += count
  }
  return buffer
}

/**
 * Text of a private regular file of at most `bytesMax` bytes. Refuses a link, anything but a regular file, another
 * user's, one that is open to others, a larger one before it is read, and bytes that are not UTF-8. Never waits for a
 * pipe. Throws. Source: RG-LAY-02, RG-LAY-08.
 */
export const readPrivate = (
  directory: number,
  name: string,
  bytesMax: number,
  calls: FileCalls = Files
): string => {
  const descriptor = calls.openSync(below(directory, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const found = calls.fstatSync(descriptor)
    if (!found.isFile()) throw new PrivateFileRefused("it is not a regular file")
    requirePrivate(found)
    if (found.size > bytesMax) throw new PrivateFileRefused(`it is larger than ${bytesMax} bytes`)
    const bytes = readWhole(descriptor, found.size, calls)
    if (!isUtf8(bytes)) throw new PrivateFileRefused("it is not UTF-8 text")
    return bytes.toString("utf8")
  } finally {
    calls.closeSync(descriptor)
  }
}

/** What a program of calls is about to ask the system for. It stops there, for whoever drives it. */
export type Call = "open" | "fchmod" | "write" | "fsync" | "rename" | "unlink"

/** A program of calls that change the disk; its driver goes on at once, or lets others go first. */
export type Calls = Generator<Call, void>

/**
 * Creates a file of mode 0600 that must not be there, whatever the umask, writes it whole and syncs it. A failure
 * leaves the file as far as it came.
 */
export function* createSynced(path: string, text: string, calls: FileCalls): Calls {
  yield "open"
  const descriptor = calls.openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, fileMode)
  try {
    // The look is cheap, the change is a write of its own and almost never needed.
    if ((calls.fstatSync(descriptor).mode & permissionMask) !== fileMode) {
      yield "fchmod"
      calls.fchmodSync(descriptor, fileMode)
    }
    const bytes = Buffer.from(text)
    // However few the system takes at a time.
    for (let at = 0; at < bytes.length;) {
      yield "write"
      at += calls.writeSync(descriptor, bytes, at, bytes.length - at)
    }
    yield "fsync"
    calls.fsyncSync(descriptor)
  } finally {
    calls.closeSync(descriptor)
  }
}
