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

/** Descriptor 3 is the lock. Nothing is touched before it is held. */
const script = `flock -n -E ${heldElsewhere} 3 || exit $?
[ $# -gt 0 ] || exit 0
rm -rf -- "$1" && mkdir -m 711 -- "$1" && cd -- "$1" && shift && exec mkfifo -m 600 -- "$@"`

export type LockOutcome = "held" | "taken elsewhere" | "failed"

/** Pipes to make in a fresh directory once the lock is held. */
export interface PipesWanted {
  readonly directory: string
  readonly names: ReadonlyArray<string>
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
    const wanted = pipes === null ? [] : [pipes.directory, ...pipes.names]
    const { status } = yield* runProgram({
      argv: ["/bin/sh", "-c", script, "holdfast-lock", ...wanted],
      stdio: ["ignore", "ignore", "ignore", descriptor]
    })
    return status === 0 ? "held" : status === heldElsewhere ? "taken elsewhere" : "failed"
  })
