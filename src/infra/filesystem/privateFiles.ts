/**
 * Small private files of one sandbox's run state: written whole and synced, read bounded, never through a link. Each
 * call is one step of a program that knows the order; nothing here decides what the content means.
 */
import * as Files from "node:fs"
import { open, rename } from "node:fs/promises"
import { randomBytes } from "node:crypto"
import * as Path from "node:path"

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = Files.constants

/** What a few names mean wherever files of ours are opened: something else stands in their place. */
const sentences: ReadonlyMap<string, string> = new Map([
  ["ELOOP", "it is a symbolic link"],
  ["ENOTDIR", "it is a link or not a directory"],
  ["ENXIO", "it is a pipe that nobody reads, a socket or a device, not a regular file"]
])

/** Why a call failed: a sentence of ours where we have one, else the system's name of the error; never a foreign text. */
export const errorName = (error: unknown): string => {
  if (error instanceof PrivateFileRefused) return error.message
  const { code } = (error ?? {}) as NodeJS.ErrnoException
  return typeof code === "string" ? (sentences.get(code) ?? code) : "an error without a name"
}

/** The file is not what a private file of ours is. The message is a sentence of ours. */
export class PrivateFileRefused extends Error {}

/** As long as what is drawn for a temporary name, where only the length of a path is asked. */
export const drawnSuffix = "XXXXXX"

/** Makes the entries of a directory durable. */
export const syncDirectory = async (directory: string): Promise<void> => {
  const handle = await open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * Replaces a file of the directory by synced content, mode 0600. The name itself is durable only behind
 * `syncDirectory`, so that one sync can serve several files.
 */
export const replaceFile = async (directory: string, name: string, content: string): Promise<void> => {
  const temporary = Path.join(directory, `.${name}.${randomBytes(8).toString("hex")}`)
  const handle = await open(temporary, "wx", 0o600)
  try {
    await handle.writeFile(content)
    await handle.sync()
  } catch (error) {
    await handle.close()
    Files.rmSync(temporary, { force: true })
    throw error
  }
  await handle.close()
  await rename(temporary, Path.join(directory, name))
}

/**
 * Text of a regular file of at most `bytesMax` bytes, or undefined when there is none. A link, a pipe, a device and a
 * larger file are refused before anything is read; opening never waits.
 */
export const readPrivateFile = (path: string, bytesMax: number): string | undefined => {
  let descriptor: number
  try {
    descriptor = Files.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw error
  }
  try {
    const found = Files.fstatSync(descriptor)
    if (!found.isFile()) throw new PrivateFileRefused("it is not a regular file")
    if (found.size > bytesMax) throw new PrivateFileRefused(`it is larger than ${bytesMax} bytes`)
    return Files.readFileSync(descriptor, "utf8")
  } finally {
    Files.closeSync(descriptor)
  }
}

/** Makes a directory with exactly this mode, whatever the umask, or leaves the one that is there; whether it made it. */
export const ensureDirectory = (path: string, mode: number): boolean => {
  try {
    Files.mkdirSync(path, { mode })
    Files.chmodSync(path, mode)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    if (!Files.lstatSync(path).isDirectory()) throw new PrivateFileRefused("it is not a directory")
    return false
  }
}
