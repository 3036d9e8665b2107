/**
 * The heartbeat of this process's leases: one statement renews all of a kind, and what earlier settlements left over
 * is settled behind it. A failed heartbeat takes no lease away at once: each has its term.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { heartbeatIntervalMillis } from "../Bounds.ts"
import type { StorageFailure } from "../persistence/PluginDb.ts"
import { type HeldExecution, HeldLeases } from "./HeldLeases.ts"
import { furtherMarker } from "./Lease.ts"
import { LeaseStore, type RenewedLease } from "./LeaseStore.ts"
import type { Holding, KeptHolding, Register, RenewalOutcome } from "./Register.ts"
import { RepositoryClaims } from "./RepositoryClaims.ts"
import { settlePending } from "./settlement.ts"

/** Renews everything of one register by the statement `renew`; nothing is sent where nothing is held. */
const renewHeld = Effect.fnUntraced(function* <
  Outcome,
  Held extends Holding<Outcome>,
  Answer extends RenewalOutcome
>(
  register: Register<Outcome, Held>,
  renew: (kept: ReadonlyArray<KeptHolding<Held>>) => Effect.Effect<ReadonlyArray<Answer>, StorageFailure>
) {
  const sentAtNanos = yield* Clock.monotonicTimeNanos
  const renewing = Effect.suspend(() => {
    const kept = register.beginBeat(sentAtNanos)
    return kept.length === 0 ? Effect.succeed<ReadonlyArray<Answer>>([]) : renew(kept)
  })
  const outcomes = yield* renewing.pipe(Effect.ensuring(Effect.sync(register.endBeat)))
  register.applyBeat(outcomes, { sentAtNanos, answeredAtNanos: yield* Clock.monotonicTimeNanos })
  return outcomes
})

/** A cancellation that another process has asked for becomes known to the holder. */
const noteCancellation = (held: HeldExecution | undefined, { cancel }: RenewedLease): void => {
  if (held?.phase !== "held") return
  held.cancel = furtherMarker(held.cancel, cancel)
  if (held.cancel !== "none") held.cancelled.openUnsafe()
}

const renewExecutions = Effect.gen(function* () {
  const { executions, written } = yield* HeldLeases
  const store = yield* LeaseStore
  const outcomes = yield* renewHeld(executions, (kept) =>
    store.renew(
      written,
      kept.map(({ held, restorable }) => ({ lease: held.lease, cancel: held.cancel, restorable }))
    )
  )
  for (const renewed of outcomes) noteCancellation(executions.get(renewed.id), renewed)
  return outcomes
})

const renewRepositories = Effect.gen(function* () {
  const { repositories, written } = yield* HeldLeases
  const claims = yield* RepositoryClaims
  return yield* renewHeld(repositories, (kept) =>
    claims.renew(
      written,
      kept.map(({ held, restorable }) => ({ claim: held.claim, restorable }))
    )
  )
})

/**
 * One heartbeat. Answers what became of each execution lease and of each repository, and how many settlements are
 * left. The kinds are renewed side by side: one that the database does not answer for takes no time from the other.
 * Source: SP-LEASE-04.
 */
export const heartbeat = Effect.fn("leases.heartbeat")(function* () {
  const [outcomes, repositories] = yield* Effect.all(
    [Effect.result(renewExecutions), Effect.result(renewRepositories)],
    { concurrency: 2 }
  )
  const settlementsLeft = yield* settlePending()
  return {
    outcomes: yield* Effect.fromResult(outcomes),
    repositories: yield* Effect.fromResult(repositories),
    settlementsLeft
  }
})

/** Beats every `heartbeatIntervalMillis` until it is interrupted; one beat at a time, each cut at the interval. */
export const heartbeatLoop = heartbeat().pipe(
  Effect.timeout(heartbeatIntervalMillis),
  Effect.catch((failure) => Effect.logWarning(`the leases were not renewed: ${failure.message}`)),
  Effect.repeat(Schedule.fixed(heartbeatIntervalMillis))
)
