/**
 * The end of a lease in the table: the row goes, or becomes the tombstone of a cancellation. A settlement that the
 * database did not carry out, or that a heartbeat on its way may undo, stays in the register and is done again
 * behind the next heartbeat.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { AbsenceProof } from "../guests/AbsenceProof.ts"
import type { StorageFailure } from "../persistence/PluginDb.ts"
import { type HeldExecution, HeldLeases, type HeldRepository } from "./HeldLeases.ts"
import { ExecutionEvidence, furtherMarker, provesEnded } from "./Lease.ts"
import { LeaseStore } from "./LeaseStore.ts"
import type { Holding, Register } from "./Register.ts"
import { RepositoryClaims } from "./RepositoryClaims.ts"

/** Whether what ran under a lease is known to have ended; before its holder had it, nothing can have begun. */
export const isEnded = <Outcome>(
  held: Holding<Outcome>,
  evidence: Option.Option<ExecutionEvidence>
): boolean => held.phase !== "held" || Option.exists(evidence, (found) => provesEnded(held, found))

/** Ends one lease by the statement `end`. Repeating it answers the first outcome. */
const settleHeld = Effect.fnUntraced(function* <Outcome, Held extends Holding<Outcome>>(
  register: Register<Outcome, Held>,
  held: Held,
  end: Effect.Effect<Outcome, StorageFailure>
) {
  held.phase = "settling"
  const forGood = register.settlesForGood()
  const outcome = yield* end
  held.outcome ??= outcome
  if (forGood) register.forget(held)
  return held.outcome
})

/** Settles one execution lease whose command has ended. Repeating it answers the first outcome. Source: SP-LEASE-03. */
export const settle = Effect.fnUntraced(function* (held: HeldExecution) {
  const { executions } = yield* HeldLeases
  const store = yield* LeaseStore
  if (held.phase === "settled") return held.outcome ?? "absent"
  const verified = Effect.map(store.verifyCancel(held.lease), (left) => {
    if (left) held.cancel = furtherMarker(held.cancel, "verified")
    return left ? ("cancelled" as const) : ("absent" as const)
  })
  return yield* settleHeld(executions, held, held.cancel === "none" ? store.settle(held.lease) : verified)
})

/** Releases one repository that is worked on no more. Repeating it answers the first outcome. Source: SP-LEASE-03. */
export const settleClaim = Effect.fnUntraced(function* (held: HeldRepository) {
  const { repositories } = yield* HeldLeases
  const claims = yield* RepositoryClaims
  if (held.phase === "settled") return held.outcome ?? "absent"
  return yield* settleHeld(repositories, held, claims.release(held.claim))
})

/** Settles what earlier settlements left over; answers how many are still left. */
export const settlePending = Effect.fn("leases.settlePending")(function* () {
  const { executions, repositories } = yield* HeldLeases
  yield* Effect.forEach(executions.settling(), (held) => Effect.exit(settle(held)), { discard: true })
  yield* Effect.forEach(repositories.settling(), (held) => Effect.exit(settleClaim(held)), { discard: true })
  return executions.settling().length + repositories.settling().length
})

/**
 * Ends every lease of this process whose guest the proof is about: the retained ones, whose holders had no evidence.
 * Called by whoever stopped or removed the guest, once it holds the proof. Source: SP-LEASE-06, BX-02.
 */
export const finalizeProvenGone = Effect.fn("leases.finalizeProvenGone")(function* (proof: AbsenceProof) {
  const { executions, repositories } = yield* HeldLeases
  const evidence = ExecutionEvidence.cases.GuestGone.make({ proof })
  const settled = [
    ...(yield* Effect.forEach(
      executions.held().filter((held) => provesEnded(held, evidence)),
      (held) => Effect.option(settle(held))
    )),
    ...(yield* Effect.forEach(
      repositories.held().filter((held) => provesEnded(held, evidence)),
      (held) => Effect.option(settleClaim(held))
    ))
  ]
  return settled.filter(Option.isSome).length
}, Effect.uninterruptible)
