/**
 * Claims: taking the oldest queued operation, the writes of its holder, and giving it back. The dispatcher's contract
 * is here too; what a claimed operation does is left to execution.ts. Source: SP-OPS-02, SP-OPS-06.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { ProcessIdentity } from "../Identity.ts"
import { PluginTx, type StorageFailure } from "../persistence/PluginDb.ts"
import type { Operation } from "./Operation.ts"
import { OperationEvents, progressOf } from "./OperationEvents.ts"
import { type HeldClaim, OperationRows, OperationStore, type Progress } from "./OperationStore.ts"

/** Publishes once the write is durable: at once outside a transaction, after commit inside one. Source: SP-TX-09. */
export const publishDurable = Effect.fnUntraced(function* (operation: Operation) {
  const events = yield* OperationEvents
  const tx = yield* Effect.serviceOption(PluginTx)
  const publish = events.publish(progressOf(operation))
  yield* Option.isSome(tx) ? tx.value.afterCommit(publish) : publish
})

/**
 * Claims the oldest queued operation for this process. None: nothing was to be had when the claim began. Ordinary
 * work of a closed Project is superseded on the way, and published as such. Source: SP-DEL-04.
 */
export const claimNext = Effect.fn("operations.claimNext")(function* (process: ProcessIdentity) {
  const store = yield* OperationStore
  const events = yield* OperationEvents
  const { claimed, superseded } = yield* store.claimNext(process)
  for (const operation of [...superseded, ...Option.toArray(claimed)]) {
    yield* events.publish(progressOf(operation))
  }
  return claimed
})

/**
 * Claims and hands over until a claim that began after the last signal comes back empty; answers how many. `take` may
 * wait for a free worker: what it waits for stays queued for others. A claim that finds nothing proves nothing about
 * a signal given later, so the caller asks again after each one.
 */
export const claimUntilEmpty = Effect.fnUntraced(function* <R>(
  process: ProcessIdentity,
  take: (operation: Operation) => Effect.Effect<void, never, R>
) {
  let taken = 0
  while (true) {
    const claimed = yield* claimNext(process)
    if (Option.isNone(claimed)) return taken
    taken += 1
    yield* take(claimed.value)
  }
})

/**
 * The dispatcher: takes a signal, then claims until empty, for ever. The signal is taken before the claims begin, so
 * one that is given meanwhile starts another round and none is lost. Fails when the database does; the reconciler
 * starts it again. Source: SP-OPS-02.
 */
export const dispatch = <R>(
  process: ProcessIdentity,
  take: (operation: Operation) => Effect.Effect<void, never, R>
): Effect.Effect<never, StorageFailure, R | OperationEvents | OperationStore> =>
  Effect.gen(function* () {
    const events = yield* OperationEvents
    yield* events.awaitWake
    yield* claimUntilEmpty(process, take)
  }).pipe(Effect.forever)

/** Writes one step of the holder and publishes it after it is durable. Refused with ClaimLost. Source: SP-OPS-03. */
export const saveOperation = Effect.fnUntraced(function* (claim: HeldClaim, progress: Progress) {
  const rows = yield* OperationRows
  const saved = yield* rows.saveProgress(claim, progress)
  yield* publishDurable(saved)
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
