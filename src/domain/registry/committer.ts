/**
 * The commit lock of the registry, held by one leader at a time: who comes and finds none leads, takes what has queued
 * as a batch, commits it, and hands the lead to the head of what has queued meanwhile. So writers that wait anyway
 * share one sync of the directory, and one writer alone has two flushes. Readers never come here. What is decided, and
 * what is put on disk, stands in commitDecision.ts and commitBatch.ts. Source: RG-COM-03.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Result from "effect/Result"
import { registryBatchMax } from "../Bounds.ts"
import type { NodeId, SandboxId } from "../Identity.ts"
import { makeBatchCommit } from "./commitBatch.ts"
import { type Change, type Pending, type Refusal, type Waiting } from "./commitDecision.ts"
import type { Inventory } from "./Inventory.ts"
import type { SandboxRecord } from "./Record.ts"
import type { RegistryError } from "./Registry.ts"

/** A batch from the head of the queue: at most one mutation a sandbox, since each sees the last committed one. */
const takeBatch = (queue: Array<Waiting>): ReadonlyArray<Waiting> => {
  const seen = new Set<SandboxId>()
  const end = queue.findIndex(
    (waiting) => seen.size === registryBatchMax || seen.has(waiting.sandbox) || !seen.add(waiting.sandbox)
  )
  return queue.splice(0, end === -1 ? queue.length : end)
}

export const makeCommitter = Effect.fnUntraced(function* (owner: NodeId, opened: Inventory) {
  const batches = yield* makeBatchCommit(owner, opened)
  const queue: Array<Waiting> = []
  let hasLeader = false

  /** Commits what waits at the head of the queue, then wakes those who were answered and at last the next leader. */
  const lead = Effect.gen(function* () {
    hasLeader = true
    const batch = takeBatch(queue)
    yield* batches.commit(batch)
    for (const { wake } of batch) yield* Deferred.succeed(wake, undefined)
    const next = queue[0]
    if (next === undefined) hasLeader = false
    else yield* Deferred.succeed(next.wake, undefined)
  })

  /** A mutation that has been queued is committed whoever hangs up. */
  const mutate = <E extends Refusal>(
    sandbox: SandboxId,
    decide: (pending: Pending) => Result.Result<Change, E>
  ): Effect.Effect<SandboxRecord, E | RegistryError> =>
    Effect.gen(function* () {
      const waiting: Waiting = { sandbox, decide, exit: undefined, wake: Deferred.makeUnsafe<void>() }
      queue.push(waiting)
      if (hasLeader) {
        yield* Deferred.await(waiting.wake)
        // Those who were answered with the last batch come back first, and share this one.
        if (waiting.exit === undefined) yield* Effect.yieldNow
      }
      if (waiting.exit === undefined) yield* lead
      // The queue holds mutations of every kind; a refusal in this one's exit is an answer of its own `decide`.
      return yield* waiting.exit as unknown as Exit.Exit<SandboxRecord, E | RegistryError>
    }).pipe(Effect.uninterruptible)

  return { mutate, committed: batches.committed, charges: batches.charges, failure: batches.failure }
})
