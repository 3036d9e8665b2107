/**
 * What this process holds: the register of its execution leases in memory, which the heartbeat renews. It decides
 * by the monotonic clock alone whether a lease may still be used, and remembers what is left to settle in the table.
 * It performs nothing; execution.ts does.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { executionLeaseSeconds } from "../Bounds.ts"
import type { LeaseId, ProcessIdentity, SandboxId } from "../Identity.ts"
import { Processes } from "../Processes.ts"
import type { StorageFailure } from "../persistence/PluginDb.ts"
import { type CancelMarker, furtherMarker, type Lease, type LeaseLostReason } from "./Lease.ts"
import type { KeptLease, RenewedLease, SettledLease } from "./LeaseStore.ts"

const termNanos = BigInt(executionLeaseSeconds) * 1_000_000_000n

/**
 * One lease of this process.
 * - `admitting`: its holder has not got it yet, so nothing can have been started under it; not renewed.
 * - `held`: something may run under it, or is not known to have ended; it is renewed.
 * - `settling`: its execution has ended and its row has to go (or to become a tombstone); retried until it is so.
 * - `settled`: nothing of it is this process's any more.
 */
export interface HeldLease {
  readonly lease: Lease
  readonly sandbox: SandboxId
  phase: "admitting" | "held" | "settling" | "settled"
  /** Monotonic time before the last successful renewal was sent: the term counts from there. Source: FC-11. */
  renewedAtNanos: bigint
  lost: LeaseLostReason | null
  cancel: CancelMarker
  /** Opens when a cancellation is known. */
  readonly cancelled: Latch.Latch
  /** How it was settled first, or null. */
  outcome: SettledLease | null
  /** The latest writing of the cancellation's intent. Source: SP-LEASE-05. */
  intent: Fiber.Fiber<unknown, StorageFailure> | null
}

/** Why the lease may not be used at this moment, or null. Counted by the holder's own monotonic clock. */
export const whyInvalid = (held: HeldLease, nowNanos: bigint): LeaseLostReason | null => {
  if (held.phase !== "held") return "settled"
  if (held.lost !== null) return held.lost
  return nowNanos - held.renewedAtNanos < termNanos ? null : "expired"
}

/** When a heartbeat was sent and when its answer came, by the monotonic clock. */
export interface BeatTimes {
  readonly sentAtNanos: bigint
  readonly answeredAtNanos: bigint
}

/**
 * What a heartbeat's answer means for the lease that it was about. A row that was brought back only after the term
 * had passed is not used again: a successor may have come and gone meanwhile. `absent` is a row that just went, and
 * the next heartbeat tells more.
 */
const applyRenewal = (held: HeldLease, renewed: RenewedLease, beat: BeatTimes): void => {
  held.cancel = furtherMarker(held.cancel, renewed.cancel)
  if (held.cancel !== "none") held.cancelled.openUnsafe()
  if (renewed.outcome === "absent") return
  if (renewed.outcome === "restored" && beat.answeredAtNanos - held.renewedAtNanos >= termNanos) {
    held.lost ??= "expired"
  } else if (renewed.outcome !== "renewed" && renewed.outcome !== "restored") {
    held.lost ??= renewed.outcome
  } else if (beat.sentAtNanos > held.renewedAtNanos) {
    held.renewedAtNanos = beat.sentAtNanos
  }
}

const makeHeldLeases = (process: ProcessIdentity) => {
  const register = new Map<LeaseId, HeldLease>()
  let beatsInFlight = 0
  return {
    process,
    /** The written form under which this process stands in rows. */
    written: process.toString(),
    /** Before the insert: so that an admission whose outcome is unknown is settled, not forgotten. */
    announce: (lease: Lease, sandbox: SandboxId, sentAtNanos: bigint): void => {
      register.set(lease.id, {
        lease,
        sandbox,
        phase: "admitting",
        renewedAtNanos: sentAtNanos,
        lost: null,
        cancel: "none",
        cancelled: Latch.makeUnsafe(false),
        outcome: null,
        intent: null
      })
    },
    /** The admission committed and its holder goes on with the lease. */
    admitted: (id: LeaseId): HeldLease | undefined => {
      const held = register.get(id)
      if (held?.phase === "admitting") held.phase = "held"
      return held
    },
    get: (id: LeaseId): HeldLease | undefined => register.get(id),
    /** Every lease that is held now. */
    held: (): ReadonlyArray<HeldLease> => [...register.values()].filter((held) => held.phase === "held"),
    /** Begins a heartbeat: what is to be renewed. A lease lost before is not asked about again. */
    beginBeat: (nowNanos: bigint): ReadonlyArray<KeptLease> => {
      beatsInFlight += 1
      return [...register.values()]
        .filter((held) => held.phase === "held" && held.lost === null)
        .map((held) => ({
          lease: held.lease,
          cancel: held.cancel,
          restorable: whyInvalid(held, nowNanos) === null
        }))
    },
    endBeat: (): void => {
      beatsInFlight -= 1
    },
    applyBeat: (outcomes: ReadonlyArray<RenewedLease>, beat: BeatTimes): void => {
      for (const renewed of outcomes) {
        const held = register.get(renewed.id)
        if (held?.phase === "held") applyRenewal(held, renewed, beat)
      }
    },
    /** What the next heartbeat has to settle. */
    settling: (): ReadonlyArray<HeldLease> =>
      [...register.values()].filter((held) => held.phase === "settling"),
    /**
     * Whether a settlement that begins now is the last word. A heartbeat on its way may bring the row back after it
     * was deleted; then the lease stays in the register and is settled once more behind that heartbeat.
     */
    settlesForGood: (): boolean => beatsInFlight === 0,
    forget: (held: HeldLease): void => {
      held.phase = "settled"
      register.delete(held.lease.id)
    },
    size: (): number => register.size
  }
}

export class HeldLeases extends Context.Service<HeldLeases, ReturnType<typeof makeHeldLeases>>()(
  "holdfast/domain/leases/HeldLeases"
) {
  /** The register of this process; one a running daemon. */
  static readonly layer: Layer.Layer<HeldLeases, never, Processes> = Layer.effect(
    HeldLeases,
    Processes.use((processes) => Effect.sync(() => makeHeldLeases(processes.current)))
  )
}
