/**
 * Claims: taking the oldest queued operation, the writes of its holder, and giving it back. The dispatcher's contract
 * is here too; what a claimed operation does is left to execution.ts. Source: SP-OPS-02, SP-OPS-06.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { ProcessIdentity } from "../Identity.ts"
import { keptSpan } from "../KeptSpan.ts"
import { PluginTx, type StorageFailure } from "../persistence/PluginDb.ts"
import type { Operation } from "./Operation.ts"
import { OperationEvents, type OperationProgress, progressOf } from "./OperationEvents.ts"
import { type HeldClaim, OperationRows, OperationStore, type Progress } from "./OperationStore.ts"

/** Publishes once the write is durable: at once outside a transaction, after commit inside one. Source: SP-TX-09. */
export const publishDurable = Effect.fnUntraced(function* (progress: OperationProgress) {
  const events = yield* OperationEvents
  const tx = yield* Effect.serviceOption(PluginTx)
  const publish = events.publish(progress)
  yield* Option.isSome(tx) ? tx.value.afterCommit(publish) : publish
})

const claim = Effect.fnUntraced(function* (process: ProcessIdentity, operationsMax: number) {
  const store = yield* OperationStore
  const events = yield* OperationEvents
  const moved = yield* store.claim(process, operationsMax)
  yield* events.publishAll([...moved.superseded, ...moved.claimed].map(progressOf))
  return moved
}, keptSpan("operations.claim"))

/**
 * Claims the oldest queued operation for this process. None: nothing was to be had when the claim began. Ordinary
 * work of a closed Project is superseded on the way, and published as such. Source: SP-DEL-04.
 */
export const claimNext = Effect.fnUntraced(function* (process: ProcessIdentity) {
  while (true) {
    const { claimed, superseded } = yield* claim(process, 1)
    if (superseded.length === 0) return Option.fromNullishOr(claimed[0])
  }
})

/** Where claimed operations are carried out. */
export interface Workers<R = never> {
  /** Waits until there is room for an operation; answers for how many. */
  readonly room: Effect.Effect<number, never, R>
  /** Takes over an operation for which there was room. */
  readonly take: (operation: Operation) => Effect.Effect<void, never, R>
}

/**
 * Claims as many as there is room for and hands them over, until a claim that began after the last signal gets fewer
 * than it asked for; answers how many. What there is no room for stays queued for others. A claim that finds nothing
 * proves nothing about a signal given later, so the caller asks again after each one.
 */
export const claimUntilEmpty = Effect.fnUntraced(function* <R>(
  process: ProcessIdentity,
  { room, take }: Workers<R>
) {
  let taken = 0
  while (true) {
    const operationsMax = yield* room
    const { claimed, superseded } = yield* claim(process, operationsMax)
    // What is claimed and not handed over would be nobody's until a sweep.
    yield* Effect.uninterruptible(Effect.forEach(claimed, take, { discard: true }))
    taken += claimed.length
    if (claimed.length + superseded.length < operationsMax) return taken
  }
})

/**
 * The dispatcher: takes a signal, then claims until empty, for ever. The signal is taken before the claims begin, so
 * one that is given meanwhile starts another round and none is lost. Fails when the database does; the reconciler
 * starts it again. Source: SP-OPS-02.
 */
export const dispatch = <R>(
  process: ProcessIdentity,
  workers: Workers<R>
): Effect.Effect<never, StorageFailure, R | OperationEvents | OperationStore> =>
  Effect.gen(function* () {
    const events = yield* OperationEvents
    yield* events.awaitWake
    yield* claimUntilEmpty(process, workers)
  }).pipe(Effect.forever)

/** Writes one step of the holder and publishes it after it is durable. Refused with ClaimLost. Source: SP-OPS-03. */
export const saveOperation = Effect.fnUntraced(function* (claim: HeldClaim, progress: Progress) {
  const rows = yield* OperationRows
  const saved = yield* rows.saveProgress(claim, progress)
  yield* publishDurable(progressOf(saved))
  return saved
})

/** Gives an unfinished operation back to the queue with its step and flags; false when the claim was lost already. */
export const releaseClaim = Effect.fn("operations.releaseClaim")(function* (claim: HeldClaim) {
  const store = yield* OperationStore
  const events = yield* OperationEvents
  const released = yield* store.requeueIfClaimedBy(claim)
  if (released) {
    yield* events.wake
  }
  return released
})
