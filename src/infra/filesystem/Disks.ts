/**
 * Adapter of the runtimes' disks: directories below disks/ of the state directory, one root a Project. Removal follows
 * no link and copes with whatever a guest has left. Source: SP-DEL-10, RG-DEL-08.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { DiskFailure, Disks } from "../../domain/runtimes/Disks.ts"
import { errorName, syncDirectory } from "./privateFiles.ts"
import { removeEntries } from "./treeRemoval.ts"

/** Root of all disks below a state directory. */
export const disksRootOf = (stateDirectory: string): string => Path.join(stateDirectory, "disks")

const nothingKept: ReadonlySet<string> = new Set()
/** Entries removed before other work of the process gets its turn. */
const removalsAtOnce = 256

const makePrivate = (path: string): void => {
  try {
    Files.mkdirSync(path, { mode: 0o700 })
    Files.chmodSync(path, 0o700)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    if (!Files.lstatSync(path).isDirectory()) throw error
  }
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT"

/** Empties the tree in turns with the rest of the process, then removes the directory itself. */
const removeTree = async (path: string): Promise<void> => {
  try {
    if (!Files.lstatSync(path).isDirectory()) {
      Files.unlinkSync(path)
      return
    }
  } catch (error) {
    if (isMissing(error)) return
    throw error
  }
  let removed = 0
  for (const _ of removeEntries(path, nothingKept)) {
    removed += 1
    if (removed % removalsAtOnce === 0) await new Promise<void>((resume) => setImmediate(resume))
  }
  Files.rmdirSync(path)
}

const attempt = <A>(step: string, path: string, run: () => Promise<A>): Effect.Effect<A, DiskFailure> =>
  Effect.tryPromise({
    try: run,
    catch: (error) => new DiskFailure({ path, step, why: errorName(error) })
  }).pipe(Effect.uninterruptible)

/** Disks of one state directory, whose `disks/` must be there. */
export const layer = (options: { readonly stateDirectory: string }): Layer.Layer<Disks> => {
  const root = disksRootOf(options.stateDirectory)
  /** A path that is not strictly below the root never reaches the disk: the caller's mistake, not the world's. */
  const ours = (path: string): Effect.Effect<string> => {
    const relative = Path.relative(root, path)
    const inside = relative !== "" && !relative.startsWith("..") && !Path.isAbsolute(relative)
    return inside && Path.normalize(path) === path
      ? Effect.succeed(path)
      : Effect.die(new Error("a disk operation was asked for a path outside of the disks directory"))
  }
  return Layer.succeed(
    Disks,
    Disks.of({
      rootOf: (project) => Path.join(root, String(project)),
      pathOf: (project, disk) => Path.join(root, String(project), disk),
      ensure: (path) =>
        Effect.flatMap(ours(path), () =>
          attempt("make", path, async () => {
            const parent = Path.dirname(path)
            if (parent !== root) {
              makePrivate(parent)
              // A guest's user has to pass through; it still needs the disk's own permission.
              Files.chmodSync(parent, 0o711)
            }
            makePrivate(path)
            await syncDirectory(parent)
            await syncDirectory(root)
          })
        ),
      remove: (path) =>
        Effect.flatMap(ours(path), () =>
          attempt("remove", path, async () => {
            await removeTree(path)
            await syncDirectory(Path.dirname(path)).catch((error) => {
              if (!isMissing(error)) throw error
            })
          })
        ),
      exists: (path) =>
        Effect.flatMap(ours(path), () => attempt("look at", path, async () => Files.existsSync(path)))
    })
  )
}
