/**
 * The end of a lease in the table: the row goes, or becomes the tombstone of a cancellation. A settlement that the
 * database did not carry out, or that a heartbeat on its way may undo, stays in the register and is done again
 * behind the next heartbeat.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { AbsenceProof } from "../guests/AbsenceProof.ts"
import { type HeldLease, HeldLeases } from "./HeldLeases.ts"
import { ExecutionEvidence, furtherMarker, provesEnded } from "./Lease.ts"
import { LeaseStore, type SettledLease } from "./LeaseStore.ts"

/** Settles one lease whose execution has ended. Repeating it answers the first outcome. Source: SP-LEASE-03. */
export const settle = Effect.fnUntraced(function* (held: HeldLease) {
  const register = yield* HeldLeases
  const store = yield* LeaseStore
  if (held.phase === "settled") return held.outcome ?? "absent"
  held.phase = "settling"
  const forGood = register.settlesForGood()
  const outcome: SettledLease =
    held.cancel === "none"
      ? yield* store.settle(held.lease)
      : (yield* store.verifyCancel(held.lease))
        ? "cancelled"
        : "absent"
  held.outcome ??= outcome
  if (outcome === "cancelled") held.cancel = furtherMarker(held.cancel, "verified")
  if (forGood) register.forget(held)
  return held.outcome
})

/** Settles what earlier settlements left over; answers how many are still left. */
export const settlePending = Effect.fn("leases.settlePending")(function* () {
  const register = yield* HeldLeases
  yield* Effect.forEach(register.settling(), (held) => Effect.exit(settle(held)), { discard: true })
  return register.settling().length
})

/**
 * Ends every lease of this process whose guest the proof is about: the retained ones, whose holders had no evidence.
 * Called by whoever stopped or removed the guest, once it holds the proof. Source: SP-LEASE-06, BX-02.
 */
export const finalizeProvenGone = Effect.fn("leases.finalizeProvenGone")(function* (proof: AbsenceProof) {
  const register = yield* HeldLeases
  const evidence = ExecutionEvidence.cases.GuestGone.make({ proof })
  const ended = register
    .held()
    .filter((held) => provesEnded({ sandbox: held.sandbox, generation: held.lease.generation }, evidence))
  const settled = yield* Effect.forEach(ended, (held) => settle(held).pipe(Effect.option))
  return settled.filter(Option.isSome).length
}, Effect.uninterruptible)
