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
 * Arguments: a directory, the number of its pipes and their names, for each lock; or nothing, for a lock alone. The
 * locks are the descriptors from 3 on. Nothing is touched before its lock is held.
 */
const script = `lock=3
while
  flock -n -E ${heldElsewhere} $lock || exit $?
  [ $# -gt 0 ]
do
  [ ! -e "$1" ] || rm -rf -- "$1"
  mkdir -m 711 -- "$1" && cd -- "$1" || exit 1
  count=$2 names=
  shift 2
  while [ $count -gt 0 ]; do
    names="$names $1" count=$((count - 1))
    shift
  done
  mkfifo -m 600 -- $names || exit 1
  [ $# -gt 0 ] || exit 0
  lock=$((lock + 1))
done`

export type LockOutcome = "held" | "taken elsewhere" | "failed"

/** Pipes to make in a fresh directory once the lock is held. */
export interface PipesWanted {
  readonly directory: string
  readonly names: ReadonlyArray<string>
}

/**
 * Takes the locks on open files, and makes for each the pipes once it is held, by one program. The locks stay with the
 * descriptors, also those that were taken before one failed. Paths are absolute, names without blanks.
 */
export const lockDescriptors = (
  descriptors: ReadonlyArray<number>,
  pipes: ReadonlyArray<PipesWanted>
): Effect.Effect<LockOutcome> => {
  const wanted = pipes.flatMap(({ directory, names }) => [directory, String(names.length), ...names])
  return Effect.map(
    runProgram({
      argv: ["/bin/sh", "-c", script, "holdfast-lock", ...wanted],
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
    return yield* lockDescriptors([descriptor], pipes === null ? [] : [pipes])
  })
