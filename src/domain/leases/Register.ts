/**
 * What this process holds of one kind of lease, in memory: the heartbeat renews it, and what is left to settle in the
 * table is remembered here. It decides by the monotonic clock alone whether a lease may still be used, and performs
 * nothing.
 */
import type { LeaseId } from "../Identity.ts"
import type { GuestPlace, LeaseLostReason } from "./Lease.ts"

/**
 * One lease of this process; `Outcome` is how it can be settled.
 * - `admitting`: its holder has not got it yet, so nothing can have been started under it; not renewed.
 * - `held`: something may run under it, or is not known to have ended; it is renewed.
 * - `settling`: its work has ended and its row has to go (or to become a tombstone); retried until it is so.
 * - `settled`: nothing of it is this process's any more.
 */
export interface Holding<Outcome> extends GuestPlace {
  readonly id: LeaseId
  phase: "admitting" | "held" | "settling" | "settled"
  /** Monotonic time before the last successful renewal was sent: the term counts from there. Source: FC-11. */
  renewedAtNanos: bigint
  lost: LeaseLostReason | null
  /** How it was settled first, or null. */
  outcome: Outcome | null
}

/** What the table said of one lease at a heartbeat. */
export interface RenewalOutcome {
  readonly id: LeaseId
  readonly outcome: "renewed" | "restored" | LeaseLostReason
}

/** When a heartbeat was sent and when its answer came, by the monotonic clock. */
export interface BeatTimes {
  readonly sentAtNanos: bigint
  readonly answeredAtNanos: bigint
}

/** A lease that a heartbeat is about. */
export interface KeptHolding<Held> {
  readonly held: Held
  /** The term was not over when the heartbeat was sent: no successor can have come and gone, so the row may be brought back. */
  readonly restorable: boolean
}

/** A lease that its holder has not got yet. It is announced in this form. */
export const admitting = (
  place: GuestPlace & { readonly id: LeaseId },
  sentAtNanos: bigint
): Holding<never> => ({
  id: place.id,
  sandbox: place.sandbox,
  generation: place.generation,
  phase: "admitting",
  renewedAtNanos: sentAtNanos,
  lost: null,
  outcome: null
})

/**
 * What a heartbeat's answer means for the lease that it was about. A row that was brought back only after the term
 * had passed is not used again: a successor may have come and gone meanwhile. `absent` is a row that just went, and
 * the next heartbeat tells more.
 */
const applyRenewal = <Outcome>(
  held: Holding<Outcome>,
  outcome: RenewalOutcome["outcome"],
  beat: BeatTimes,
  termNanos: bigint
): void => {
  if (outcome === "absent") return
  if (outcome === "restored" && beat.answeredAtNanos - held.renewedAtNanos >= termNanos) {
    held.lost ??= "expired"
  } else if (outcome !== "renewed" && outcome !== "restored") {
    held.lost ??= outcome
  } else if (beat.sentAtNanos > held.renewedAtNanos) {
    held.renewedAtNanos = beat.sentAtNanos
  }
}

/** A register of leases of one kind, each with the same term. */
export const makeRegister = <Outcome, Held extends Holding<Outcome>>(termSeconds: number) => {
  const register = new Map<LeaseId, Held>()
  const termNanos = BigInt(termSeconds) * 1_000_000_000n
  let beatsInFlight = 0
  const inPhase = (phase: Held["phase"]): ReadonlyArray<Held> =>
    [...register.values()].filter((held) => held.phase === phase)
  /** Why the lease may not be used at this moment, or null. Counted by the holder's own monotonic clock. */
  const whyInvalid = (held: Held, nowNanos: bigint): LeaseLostReason | null => {
    if (held.phase !== "held") return "settled"
    if (held.lost !== null) return held.lost
    return nowNanos - held.renewedAtNanos < termNanos ? null : "expired"
  }
  return {
    whyInvalid,
    /** Before the insert: so that an admission whose outcome is unknown is settled, not forgotten. */
    announce: (held: Held): void => void register.set(held.id, held),
    /** The admission committed and its holder goes on with the lease. */
    admitted: (id: LeaseId): Held | undefined => {
      const held = register.get(id)
      if (held?.phase === "admitting") held.phase = "held"
      return held
    },
    get: (id: LeaseId): Held | undefined => register.get(id),
    /** Every lease that is held now. */
    held: (): ReadonlyArray<Held> => inPhase("held"),
    /** Begins a heartbeat: what is to be renewed. A lease lost before is not asked about again. */
    beginBeat: (nowNanos: bigint): ReadonlyArray<KeptHolding<Held>> => {
      beatsInFlight += 1
      return inPhase("held")
        .filter((held) => held.lost === null)
        .map((held) => ({ held, restorable: whyInvalid(held, nowNanos) === null }))
    },
    endBeat: (): void => {
      beatsInFlight -= 1
    },
    applyBeat: (outcomes: ReadonlyArray<RenewalOutcome>, beat: BeatTimes): void => {
      for (const { id, outcome } of outcomes) {
        const held = register.get(id)
        if (held?.phase === "held") applyRenewal(held, outcome, beat, termNanos)
      }
    },
    /** What the next heartbeat has to settle. */
    settling: (): ReadonlyArray<Held> => inPhase("settling"),
    /**
     * Whether a settlement that begins now is the last word. A heartbeat on its way may bring the row back after it
     * was deleted; then the lease stays in the register and is settled once more behind that heartbeat.
     */
    settlesForGood: (): boolean => beatsInFlight === 0,
    forget: (held: Held): void => {
      held.phase = "settled"
      register.delete(held.id)
    },
    size: (): number => register.size
  }
}

export type Register<Outcome, Held extends Holding<Outcome>> = ReturnType<typeof makeRegister<Outcome, Held>>
