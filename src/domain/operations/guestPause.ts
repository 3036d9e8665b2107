/**
 * Holds a guest still while something is done, and lets it go on in every way out. Who holds it is noted before it is
 * paused, so that whoever finds it paused after a crash knows that it was left behind. A guest that stands still is the
 * worst that a copy can leave, so nothing comes before letting it go on.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { guestReadyPollMillis, guestResumeTriesMax } from "../Bounds.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { SandboxId } from "../Identity.ts"
import { pauseSandbox, resumeSandbox } from "../registry/lifecycle.ts"
import { observeStep } from "../registry/observeStep.ts"
import type { SandboxStatus } from "../registry/Record.ts"
import { Registry } from "../registry/Registry.ts"
import { type Snapshot, SnapshotRows } from "../runtimes/SnapshotRows.ts"

const program = "operations.guestPause"

const heldStill: ReadonlyArray<SandboxStatus> = ["Pausing", "Paused", "Resuming"]

const resume = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const record = yield* (yield* Registry).get(sandbox)
  if (!heldStill.includes(record.status)) return
  // Half a pause is made a whole one first: from there the way back is known.
  if (record.status === "Pausing") yield* pauseSandbox(sandbox)
  yield* resumeSandbox(sandbox)
})

/**
 * Lets a guest that stands still go on; one that does not, and one that is gone, are left as they are. It tries
 * `guestResumeTriesMax` times, and fails only while the guest is seen to stand still.
 */
export const letGoOn = Effect.fn("operations.letGoOn")(function* (sandbox: SandboxId) {
  const registry = yield* Registry
  const supervisor = yield* GuestSupervisor
  if (!(yield* registry.inventory).has(sandbox)) return
  yield* resume(sandbox).pipe(
    Effect.retry({ schedule: Schedule.spaced(guestReadyPollMillis), times: guestResumeTriesMax - 1 }),
    Effect.catch((failure) =>
      Effect.flatMap(supervisor.inspect(sandbox), ({ _tag }) =>
        _tag === "Paused" ? Effect.fail(failure) : Effect.void
      )
    )
  )
})

/** The guest that an earlier claim has left paused for this snapshot goes on. Source: SP-OPS-03. */
export const letLeftBehindGoOn = Effect.fnUntraced(function* (snapshot: Snapshot) {
  if (snapshot.pausedBy === null) return false
  yield* letGoOn(snapshot.recipe.sandbox)
  return yield* (yield* SnapshotRows).clearPaused(snapshot.rowId, snapshot.pausedBy)
})

/**
 * Does something while the guest is paused. The note that it is must be durable already, under `pausedBy`. However it
 * ends, the guest goes on first; a note that cannot be taken away stays for the sweep.
 */
export const whilePaused = <A, E, R>(
  held: { readonly snapshot: Snapshot; readonly pausedBy: string },
  work: Effect.Effect<A, E, R>
) => {
  const { sandbox } = held.snapshot.recipe
  const release = Effect.gen(function* () {
    yield* observeStep(program, "resume", letGoOn(sandbox))
    yield* Effect.ignore((yield* SnapshotRows).clearPaused(held.snapshot.rowId, held.pausedBy))
  })
  return observeStep(program, "pause", pauseSandbox(sandbox)).pipe(
    Effect.andThen(work),
    Effect.onExit(() => release)
  )
}
