/**
 * Removes whatever a guest has left in a directory, without ever following a link out of it: entries are reached
 * through descriptors of directories that were opened without following, never by a path of several names. A nested
 * directory is first moved up, so that depth costs nothing and an interruption leaves everything inside; names are
 * bytes; directories without permissions are given some. What is mounted inside belongs to somebody else: nothing is
 * removed then. What may be removed is decided by the caller.
 */
import { randomBytes } from "node:crypto"
import * as Files from "node:fs"
import { parseMountinfo } from "../guests/kernel.ts"
import { PrivateFileRefused } from "./privateFiles.ts"

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = Files.constants
/** Opens a directory that may not be read, only to change it. Linux, every architecture that guests run on. */
const openForPath = 0o10000000

const slash = Buffer.from("/")

const descriptorPath = (descriptor: number): Buffer => Buffer.from(`/proc/self/fd/${descriptor}`)

/** A name directly below an open directory. */
const below = (descriptor: number, name: Buffer): Buffer =>
  Buffer.concat([descriptorPath(descriptor), slash, name])

const withDirectory = function* <A>(
  path: Buffer,
  flags: number,
  use: (descriptor: number) => Generator<void, A>
): Generator<void, A> {
  const descriptor = Files.openSync(path, flags | O_DIRECTORY | O_NOFOLLOW)
  try {
    return yield* use(descriptor)
  } finally {
    Files.closeSync(descriptor)
  }
}

const ownerMayAll = 0o700

/** Lets the owner of a directory list, enter and change it. */
const openUp = (path: Buffer): void => {
  const descriptor = Files.openSync(path, openForPath | O_DIRECTORY | O_NOFOLLOW)
  try {
    const mode = Files.fstatSync(descriptor).mode & 0o7777
    // Through the descriptor: a name could have become a link.
    if ((mode & ownerMayAll) !== ownerMayAll) Files.chmodSync(descriptorPath(descriptor), mode | ownerMayAll)
  } finally {
    Files.closeSync(descriptor)
  }
}

/** A mount is entered like a directory: what it shows would be emptied with the rest. */
const refuseMounts = (descriptor: number): void => {
  const inside = `${Files.readlinkSync(descriptorPath(descriptor))}/`
  const mounts = parseMountinfo(Files.readFileSync("/proc/self/mountinfo", "utf8"))
  if (mounts.some((mount) => mount.at.startsWith(inside))) {
    throw new PrivateFileRefused("something is mounted inside: look at it and unmount it")
  }
}

interface Trash {
  /** The directory whose entries are removed, and into which nested ones are moved. */
  readonly top: number
  /** Draws a name that nothing in it has. */
  readonly name: () => Buffer
}

/** Entries of an open directory, without `.` and `..`. */
const entriesOf = function* (descriptor: number): Generator<Files.Dirent<Buffer>> {
  // Node takes and gives names as bytes, which its types do not say: a name need not be text.
  const directory = Files.opendirSync(descriptorPath(descriptor) as unknown as string, {
    encoding: "buffer" as BufferEncoding
  })
  try {
    for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
      yield entry as unknown as Files.Dirent<Buffer>
    }
  } finally {
    directory.closeSync()
  }
}

/** Empties a directory at the top: files go, directories move up beside it. Repeats what a listing has missed. */
const emptyDirectory = function* (descriptor: number, trash: Trash): Generator<void> {
  for (let found = true; found;) {
    found = false
    for (const entry of entriesOf(descriptor)) {
      found = true
      const path = below(descriptor, entry.name)
      if (entry.isDirectory()) {
        openUp(path)
        Files.renameSync(path, below(trash.top, trash.name()))
      } else {
        Files.unlinkSync(path)
      }
      yield
    }
  }
}

const removeAtTop = function* (entry: Files.Dirent<Buffer>, trash: Trash): Generator<void> {
  const path = below(trash.top, entry.name)
  if (!entry.isDirectory()) return Files.unlinkSync(path)
  openUp(path)
  yield* withDirectory(path, O_RDONLY, (descriptor) => emptyDirectory(descriptor, trash))
  Files.rmdirSync(path)
}

/**
 * Removes every entry of the directory but the kept names, one at a time: each step of the generator has removed or
 * moved one entry, so that the caller can rest between. Throws the system's error, or PrivateFileRefused where something
 * is mounted inside; may be started again after it.
 */
export const removeEntries = function* (directory: string, kept: ReadonlySet<string>): Generator<void> {
  const run = randomBytes(6).toString("hex")
  let drawn = 0
  yield* withDirectory(Buffer.from(directory), O_RDONLY, function* (top) {
    refuseMounts(top)
    const trash: Trash = { top, name: () => Buffer.from(`.trash-${run}-${(drawn += 1)}`) }
    for (let found = true; found;) {
      found = false
      for (const entry of entriesOf(top)) {
        if (kept.has(entry.name.toString("latin1"))) continue
        found = true
        yield* removeAtTop(entry, trash)
        yield
      }
    }
  })
}
