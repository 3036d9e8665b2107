/**
 * Reclaims one sandbox for good: ends its guest, proves the absence, fences the id by a tombstone, then removes what
 * is left. Resumable after any step from what is on disk. The registry's record and reservation are the caller's: it
 * gives them back for the proof that this program answers, and for nothing else. Source: RG-DEL-01 to RG-DEL-08.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { AbsenceProof } from "../guests/AbsenceProof.ts"
import { proveAbsence } from "../guests/absence.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { Generation, SandboxId } from "../Identity.ts"
import { StepObserver } from "../StepObserver.ts"
import { RunState } from "./RunState.ts"
import type { Provenance } from "./Provenance.ts"
import { Tombstone } from "./Tombstone.ts"

/** The steps in their order; each may be repeated. */
export const reclamationSteps = ["end", "prove", "lock", "tombstone", "groups", "files"] as const
export type ReclamationStep = (typeof reclamationSteps)[number]

const step = <A, E, R>(name: ReclamationStep, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const observer = yield* StepObserver
    yield* observer.before("reclamation.reclaimSandbox", name)
    const answer = yield* effect
    yield* observer.after("reclamation.reclaimSandbox", name)
    return answer
  })

/**
 * `generation` is the one that the caller's record has reached, also when its launch was never prepared; `provenance` is
 * what the tombstone shall remember of that record.
 */
export interface ReclaimOptions {
  readonly graceMillis: number
  readonly generation?: Generation
  readonly provenance?: Provenance
}

const prove = Effect.fnUntraced(function* (sandbox: SandboxId, generation: Generation | undefined) {
  const supervisor = yield* GuestSupervisor
  const observation = yield* supervisor.inspect(sandbox)
  const observedAtMillis = yield* Clock.currentTimeMillis
  return yield* Effect.fromResult(proveAbsence(sandbox, observation, { observedAtMillis, generation }))
})

/**
 * Publishes the tombstone with a proof that was observed under the owner lock: a launch that had got in between the
 * first proof and the lock makes it fail. A tombstone that is already there is kept, and its proof answered.
 */
const publish = Effect.fnUntraced(function* (sandbox: SandboxId, { provenance, generation }: ReclaimOptions) {
  const runState = yield* RunState
  const published = yield* runState.readTombstone(sandbox)
  const tombstone = Option.isSome(published)
    ? published.value
    : new Tombstone({
        version: 1,
        sandbox,
        proof: yield* prove(sandbox, generation),
        ...(provenance === undefined ? {} : { provenance })
      })
  yield* runState.publishTombstone(tombstone)
  return tombstone.proof
})

const endAndProve = Effect.fnUntraced(function* (sandbox: SandboxId, options: ReclaimOptions) {
  const supervisor = yield* GuestSupervisor
  yield* step("end", supervisor.end(sandbox, { graceMillis: options.graceMillis }))
  yield* step("prove", prove(sandbox, options.generation))
})

/**
 * Ends, proves, locks, publishes the tombstone, removes cgroups and private files, and answers the proof. A sandbox
 * with a tombstone is taken up behind it. Refused with `absence_not_proved` where the guest is not provably gone, and
 * with `invalid_guest_state` while somebody launches it; any failure leaves what is needed to go on. Repeatable; the
 * answer is the published proof, the same one each time. Needs nothing of the launch: image, disk and arguments may be
 * long gone. Source: RG-DEL-03, RG-DEL-04, RG-DEL-05, RG-DEL-06.
 */
export const reclaimSandbox = Effect.fn("reclamation.reclaimSandbox")(function* (
  sandbox: SandboxId,
  options: ReclaimOptions
) {
  const supervisor = yield* GuestSupervisor
  const runState = yield* RunState
  const published = yield* runState.readTombstone(sandbox)
  if (Option.isNone(published)) yield* endAndProve(sandbox, options)
  return yield* Effect.scoped(
    Effect.gen(function* () {
      yield* step("lock", supervisor.lockOwner(sandbox))
      const proof: AbsenceProof = yield* step("tombstone", publish(sandbox, options))
      yield* step("groups", supervisor.removeGroups(sandbox))
      yield* step("files", runState.reclaim(sandbox))
      return proof
    })
  )
})
