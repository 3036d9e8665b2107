/**
 * The owner lock of one sandbox: a kernel lock on owner.lock, tied to a descriptor that no child inherits, so that it
 * dies with the daemon and a guest can neither keep nor drop it. Taken by handing the descriptor to `flock` for a
 * moment. In the same breath the pipes of an agent can be made, since only a program can make them.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Files from "node:fs"
import { runProgram } from "./programs.ts"

const { O_CREAT, O_NOFOLLOW, O_RDWR } = Files.constants
const heldElsewhere = 75

/**
 * Arguments: the number of locks, which are the descriptors from 3 on; then a directory and the names of its pipes, or
 * nothing. Nothing is touched before every lock is held.
 */
const script = `lock=3 count=$1
shift
while [ $count -gt 0 ]; do
  flock -n -E ${heldElsewhere} $lock || exit $?
  lock=$((lock + 1)) count=$((count - 1))
done
[ $# -gt 0 ] || exit 0
[ ! -e "$1" ] || rm -rf -- "$1"
mkdir -m 711 -- "$1" && cd -- "$1" || exit 1
shift
exec mkfifo -m 600 -- "$@"`

export type LockOutcome = "held" | "taken elsewhere" | "failed"

/** Pipes to make in a fresh directory once the lock is held. */
export interface PipesWanted {
  readonly directory: string
  readonly names: ReadonlyArray<string>
}

/**
 * Takes the locks on open files, and makes the pipes once they are held, by one program. The locks stay with the
 * descriptors, also those that were taken before one failed.
 */
export const lockDescriptors = (
  descriptors: ReadonlyArray<number>,
  pipes: PipesWanted | null
): Effect.Effect<LockOutcome> => {
  const wanted = pipes === null ? [] : [pipes.directory, ...pipes.names]
  return Effect.map(
    runProgram({
      argv: ["/bin/sh", "-c", script, "holdfast-lock", String(descriptors.length), ...wanted],
      stdio: ["ignore", "ignore", "ignore", ...descriptors]
    }),
    ({ status }) => (status === 0 ? "held" : status === heldElsewhere ? "taken elsewhere" : "failed")
  )
}

/** Takes the lock while the scope is open; `held` or why not. The folder must be there. */
export const takeOwnerLock = (
  path: string,
  pipes: PipesWanted | null
): Effect.Effect<LockOutcome, never, Scope.Scope> =>
  Effect.gen(function* () {
    const descriptor = yield* Effect.acquireRelease(
      Effect.sync(() => Files.openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)),
      (opened) => Effect.sync(() => Files.closeSync(opened))
    )
    // To its end: a program that is killed half way may leave a child that holds the lock for a moment longer.
    return yield* Effect.uninterruptible(lockDescriptors([descriptor], pipes))
  })
