/**
 * Host users of guests. Under a root daemon every sandbox has one of its own, kept while anything of it is kept; under
 * another daemon all share the daemon's own.
 */
import * as Files from "node:fs"
import * as Bounds from "../../domain/Bounds.ts"
import { isSandboxId, type SandboxId } from "../../domain/Identity.ts"
import { folderOf, readRun, readTombstone, runtimeDirectory } from "./folders.ts"

export interface UserIds {
  /** The sandbox's user, its former one when it had one. Undefined: none is free. */
  readonly take: (sandbox: SandboxId, former: number | null) => number | undefined
  /** Nothing of the sandbox is left that its user could own. */
  readonly giveBack: (sandbox: SandboxId) => void
  readonly isPrivate: boolean
}

/** Users of the sandboxes that still have state here. */
const retained = (stateDirectory: string): Map<SandboxId, number> => {
  const found = new Map<SandboxId, number>()
  for (const name of Files.readdirSync(runtimeDirectory(stateDirectory))) {
    if (!isSandboxId(name)) continue
    const folder = folderOf(stateDirectory, name)
    if (readTombstone(folder) !== undefined) continue
    const run = readRun(folder)
    if (run !== undefined) found.set(name, run.userId)
  }
  return found
}

/** Two state directories on one machine begin at different places, so that their guests rarely share a user. */
const firstOf = (stateDirectory: string): number =>
  Number(Files.statSync(stateDirectory, { bigint: true }).ino % BigInt(Bounds.guestUserIdsMax))

export const privateUserIds = (stateDirectory: string): UserIds => {
  const taken = retained(stateDirectory)
  const first = firstOf(stateDirectory)
  return {
    isPrivate: true,
    take: (sandbox, former) => {
      const known = taken.get(sandbox) ?? former
      if (known !== null) {
        taken.set(sandbox, known)
        return known
      }
      const used = new Set(taken.values())
      for (let offset = 0; offset < Bounds.guestUserIdsMax; offset += 1) {
        const candidate = Bounds.guestUserIdFirst + ((first + offset) % Bounds.guestUserIdsMax)
        if (used.has(candidate)) continue
        taken.set(sandbox, candidate)
        return candidate
      }
      return undefined
    },
    giveBack: (sandbox) => void taken.delete(sandbox)
  }
}

export const sharedUserId = (userId: number): UserIds => ({
  isPrivate: false,
  take: () => userId,
  giveBack: () => undefined
})
