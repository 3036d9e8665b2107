/**
 * The heartbeat of this process's leases: one statement renews all of them, and what earlier settlements left over
 * is settled behind it. A failed heartbeat takes no lease away at once: each has its term.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { heartbeatIntervalMillis } from "../Bounds.ts"
import { HeldLeases } from "./HeldLeases.ts"
import { LeaseStore, type RenewedLease } from "./LeaseStore.ts"
import { settlePending } from "./settlement.ts"

const renewHeld = Effect.fnUntraced(function* () {
  const register = yield* HeldLeases
  const store = yield* LeaseStore
  const sentAtNanos = yield* Clock.monotonicTimeNanos
  const renewing = Effect.suspend(() => {
    const kept = register.beginBeat(sentAtNanos)
    return kept.length === 0
      ? Effect.succeed<ReadonlyArray<RenewedLease>>([])
      : store.renew(register.written, kept)
  })
  const outcomes = yield* renewing.pipe(Effect.ensuring(Effect.sync(register.endBeat)))
  register.applyBeat(outcomes, { sentAtNanos, answeredAtNanos: yield* Clock.monotonicTimeNanos })
  return outcomes
})

/** One heartbeat. Answers what became of each lease, and how many settlements are left. Source: SP-LEASE-04. */
export const heartbeat = Effect.fn("leases.heartbeat")(function* () {
  const outcomes = yield* renewHeld().pipe(Effect.result)
  const settlementsLeft = yield* settlePending()
  return { outcomes: yield* Effect.fromResult(outcomes), settlementsLeft }
})

/** Beats every `heartbeatIntervalMillis` until it is interrupted; one beat at a time, each cut at the interval. */
export const heartbeatLoop = heartbeat().pipe(
  Effect.timeout(heartbeatIntervalMillis),
  Effect.catch((failure) => Effect.logWarning(`the leases were not renewed: ${failure.message}`)),
  Effect.repeat(Schedule.fixed(heartbeatIntervalMillis))
)
