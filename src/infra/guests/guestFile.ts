/**
 * A file that a guest's user reads: made whole where none was, for nobody but the daemon until it is given over.
 */
import * as Files from "node:fs"

const ownerOnly = 0o600

/** `owner`: host user that it is given to, or null where it stays the daemon's. Throws where something is there. */
export const writeGuestFile = (
  path: string,
  content: string | Uint8Array,
  { mode = ownerOnly, owner }: { readonly mode?: number; readonly owner: number | null }
): void => {
  Files.writeFileSync(path, content, { flag: "wx", mode: ownerOnly })
  if (mode !== ownerOnly) Files.chmodSync(path, mode)
  if (owner !== null) Files.lchownSync(path, owner, owner)
}
