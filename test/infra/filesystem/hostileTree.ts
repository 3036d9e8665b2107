/**
 * What a guest may leave behind, for tests of the removal: a private directory as a sandbox has one, a victim outside of
 * it that must come to no harm, another user's eyes, and a hand between two system calls of the removal.
 */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import { createRequire, syncBuiltinESMExports } from "node:module"
import * as Path from "node:path"
import { removeEntries } from "../../../src/infra/filesystem/treeRemoval.ts"
import { makeStateDirectory } from "../../suites/guestHarness.ts"

export const kept: ReadonlySet<string> = new Set(["tombstone.json", "owner.lock"])
export const isRoot = process.getuid?.() === 0
export const nobody = 65_534

export interface HostileTree {
  /** Holds the two below and nothing else. */
  readonly home: string
  /** What is removed but for the kept names. */
  readonly directory: string
  /** Where the guest did what it wanted. */
  readonly workspace: string
  /** Outside: a directory with a file and a directory. */
  readonly victim: string
}

const longAgo = new Date("2001-02-03T04:05:06Z")

const makeVictim = (victim: string): void => {
  Files.mkdirSync(Path.join(victim, "inner"), { recursive: true })
  Files.writeFileSync(Path.join(victim, "file"), "ours", { mode: 0o640 })
  Files.writeFileSync(Path.join(victim, "inner/file"), "ours too", { mode: 0o400 })
  // Without what the removal gives a directory of the guest: if it were touched, this would be seen.
  Files.chmodSync(Path.join(victim, "inner"), 0o555)
  Files.chmodSync(victim, 0o550)
  for (const name of ["file", "inner/file", "inner", ""]) {
    Files.utimesSync(Path.join(victim, name), longAgo, longAgo)
  }
}

const clean = (home: string): void => {
  for (const name of ["victim", "victim/inner"]) {
    const path = Path.join(home, name)
    if (Files.existsSync(path)) Files.chmodSync(path, 0o700)
  }
  Files.rmSync(home, { recursive: true, force: true })
}

/** A sandbox's directory with a workspace, and a victim beside it; in memory where there is such a place. */
export const makeTree = Effect.acquireRelease(
  Effect.sync((): HostileTree => {
    const home = makeStateDirectory(Files.existsSync("/dev/shm") ? "/dev/shm" : undefined)
    const directory = Path.join(home, "sandbox")
    const workspace = Path.join(directory, "run/workspace")
    Files.mkdirSync(workspace, { recursive: true })
    for (const name of kept) Files.writeFileSync(Path.join(directory, name), name)
    const victim = Path.join(home, "victim")
    makeVictim(victim)
    return { home, directory, workspace, victim }
  }),
  ({ home }) => Effect.sync(() => clean(home))
)

/** Everything about the victim that a removal could change. */
export const victimOf = ({ victim }: HostileTree) =>
  ["", "file", "inner", "inner/file"].map((name) => {
    const path = Path.join(victim, name)
    const { gid, mode, mtimeMs, nlink, uid } = Files.lstatSync(path)
    const content = name.endsWith("file") ? Files.readFileSync(path, "utf8") : Files.readdirSync(path)
    return { name, uid, gid, mode, mtimeMs, nlink, content }
  })

/** Removes all but the kept entries at one go; answers the number of steps. */
export const removeAll = ({ directory }: HostileTree): number => [...removeEntries(directory, kept)].length

export const entriesLeft = ({ directory }: HostileTree): ReadonlyArray<string> =>
  Files.readdirSync(directory).toSorted()

export const keptNames: ReadonlyArray<string> = [...kept].toSorted()

/** Runs a synchronous act as another user, where this process may become one. */
export const asUser = <A>(user: number, run: () => A): A => {
  if (!isRoot) return run()
  process.setegid?.(user)
  process.seteuid?.(user)
  try {
    return run()
  } finally {
    process.seteuid?.(0)
    process.setegid?.(0)
  }
}

export type Call = "openSync" | "opendirSync" | "renameSync" | "rmdirSync" | "unlinkSync" | "chmodSync"

// The object behind the module, whose changes every importer is told of.
const calls: Record<Call, (...given: ReadonlyArray<unknown>) => unknown> = createRequire(import.meta.url)(
  "node:fs"
)

/**
 * Runs an act while something happens right before a call of the file system: `strike` is given the call's first
 * argument, and answers whether it has struck, which it does once. Answers whether it ever did.
 */
export const between = (call: Call, strike: (path: unknown) => boolean, run: () => void): boolean => {
  const original = calls[call]
  let struck = false
  calls[call] = (...given) => {
    if (!struck) {
      // Its own calls are not looked at.
      struck = true
      struck = strike(given[0])
    }
    return Reflect.apply(original, undefined, given)
  }
  syncBuiltinESMExports()
  try {
    run()
  } finally {
    calls[call] = original
    syncBuiltinESMExports()
  }
  return struck
}
