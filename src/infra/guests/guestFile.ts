/**
 * A file that a guest's user reads: for nobody but the daemon until it is given over.
 */
import * as Files from "node:fs"

const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_TRUNC, O_WRONLY } = Files.constants
const toFill = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK
const ownerOnly = 0o600

interface GuestFileOptions {
  readonly mode?: number
  /** Host user that it is given to, or null where it stays the daemon's. */
  readonly owner: number | null
}

/**
 * Writes the file where no guest reaches, over an empty one that was made ahead or a new one. Throws where a link
 * stands.
 */
export const fillGuestFile = (
  path: string,
  content: string,
  { mode = ownerOnly, owner }: GuestFileOptions
): void => {
  const descriptor = Files.openSync(path, toFill, ownerOnly)
  try {
    Files.writeFileSync(descriptor, content)
    if (mode !== ownerOnly) Files.fchmodSync(descriptor, mode)
    if (owner !== null) Files.fchownSync(descriptor, owner, owner)
  } finally {
    Files.closeSync(descriptor)
  }
}

/** Makes the file whole where none was. Throws where something is there. */
export const writeGuestFile = (
  path: string,
  content: string | Uint8Array,
  { mode = ownerOnly, owner }: GuestFileOptions
): void => {
  Files.writeFileSync(path, content, { flag: "wx", mode: ownerOnly })
  if (mode !== ownerOnly) Files.chmodSync(path, mode)
  if (owner !== null) Files.lchownSync(path, owner, owner)
}
