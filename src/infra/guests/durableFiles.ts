/**
 * Several small files of one directory made durable together. They are written at the call and synced beside each
 * other, so that the caller can do other work meanwhile: of a launch's time little is writing and much is the disk.
 */
import * as Files from "node:fs"
import * as Path from "node:path"

const { O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY } = Files.constants
/** Over what was left there, never through a link, and without waiting for the reader of a pipe. */
const toFill = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK
const ownerOnly = 0o600

const sync = (descriptor: number): Promise<void> =>
  new Promise((resolve, reject) => {
    Files.fsync(descriptor, (error) => (error === null ? resolve() : reject(error)))
  })

/** Waits for all of them, also behind one that failed: their descriptors are closed next. */
const syncAll = async (descriptors: ReadonlyArray<number>): Promise<void> => {
  const outcomes = await Promise.allSettled(descriptors.map(sync))
  const failed = outcomes.find((outcome) => outcome.status === "rejected")
  if (failed !== undefined) throw failed.reason
}

/** Makes the entries of directories durable. */
export const syncDirectories = async (directories: ReadonlyArray<string>): Promise<void> => {
  const opened: Array<number> = []
  try {
    for (const directory of directories) {
      opened.push(Files.openSync(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW))
    }
    await syncAll(opened)
  } finally {
    for (const descriptor of opened) Files.closeSync(descriptor)
  }
}

/** Name under which a file is written before it replaces the one of its name. It may be there already, and empty. */
export const unnamed = (name: string): string => `.${name}.new`

interface Replacement {
  readonly path: string
  readonly temporary: string
  readonly descriptor: number
}

/**
 * Replaces files of the directory by synced content, mode 0600. All are written when this returns, and each is synced
 * before it gets its name; the names are durable behind `syncDirectories`. One caller at a time for one directory.
 */
export const replaceFiles = async (
  directory: string,
  files: ReadonlyArray<readonly [name: string, content: string]>
): Promise<void> => {
  const written: Array<Replacement> = []
  try {
    for (const [name, content] of files) {
      const temporary = Path.join(directory, unnamed(name))
      const descriptor = Files.openSync(temporary, toFill, ownerOnly)
      written.push({ path: Path.join(directory, name), temporary, descriptor })
      Files.writeFileSync(descriptor, content)
    }
    await syncAll(written.map(({ descriptor }) => descriptor))
    for (const { path, temporary } of written) Files.renameSync(temporary, path)
  } catch (error) {
    for (const { temporary } of written) Files.rmSync(temporary, { force: true })
    throw error
  } finally {
    for (const { descriptor } of written) Files.closeSync(descriptor)
  }
}
