/**
 * The commit barrier of the registry. One leader at a time takes what has queued and commits it as a batch: decisions
 * one after another against the state that the earlier ones of the batch would make, then each record written and
 * synced, then renames and unlinks in their order, then one sync of the directory, then memory, then the answers.
 *
 *     queue ─► decide (serial) ─► create + fsync (side by side) ─► rename / unlink (serial) ─► fsync dir ─► memory
 *              a refusal answers    a failure fails only its own     from here on a failure is uncertain: the latch
 *
 * Who is uncertain when a rename, an unlink or the directory's sync fails: every mutation of the batch that had been
 * written. Those before it have changed the directory and are not durable, its own may have happened although the
 * call failed, and those after it cannot be answered "not written" by a registry whose disk is in doubt. All of them
 * answer `StorageFailed`; nothing is undone or cleaned up, since that would write from memory. The next open reads
 * whichever state survived, for each record either the one before or the one after.
 *
 * What a batch frees counts only for later batches: a removal's reservation, and the bytes by which a record shrinks,
 * so that no admission rests on a change that is not durable yet. Readers never come here. Source: RG-COM.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { registryBatchMax } from "../Bounds.ts"
import { Identifiers } from "../Identifiers.ts"
import type { NodeId, SandboxId } from "../Identity.ts"
import { headerBytesOf, recordBytes } from "./charges.ts"
import { chargesOf, type Inventory, withoutRecord, withRecord } from "./Inventory.ts"
import type { SandboxRecord } from "./Record.ts"
import { type NodeCharges, RegistryWriteFailed, StorageFailed } from "./Registry.ts"
import { type RegistryFileFailed, RegistryFiles } from "./RegistryFiles.ts"

interface Keep {
  readonly _tag: "Keep"
  readonly record: SandboxRecord
}
interface Put {
  readonly _tag: "Put"
  readonly record: SandboxRecord
  readonly text: string
  readonly bytes: number
}
interface Remove {
  readonly _tag: "Remove"
  readonly record: SandboxRecord
}

/** What a mutation wants to do, decided against the pending state. */
export type Change = Keep | Put | Remove

export const putOf = (record: SandboxRecord): Put => {
  const text = JSON.stringify(record)
  return { _tag: "Put", record, text, bytes: recordBytes(record.id, text) }
}

/**
 * The state that a decision sees: what is committed, with the earlier puts of its batch. Its charges count what the
 * batch adds and not what it frees.
 */
export interface Pending {
  readonly inventory: Inventory
  readonly charges: NodeCharges
}

interface Refusal {
  readonly _tag: string
}

interface Waiting {
  readonly sandbox: SandboxId
  readonly decide: (pending: Pending) => Result.Result<Change, Refusal>
  /** Set once, when the mutation is answered. */
  exit: Exit.Exit<SandboxRecord, Refusal> | undefined
  /** Wakes the waiter: it is answered, or it is the next leader. */
  readonly wake: Deferred.Deferred<void>
}

interface Decided {
  readonly waiting: Waiting
  readonly change: Put | Remove
  readonly temporary: string
}

const fileOf = (sandbox: SandboxId): string => `${sandbox}.json`

/** A batch from the head of the queue: at most one mutation a sandbox, since each sees the last committed one. */
const takeBatch = (queue: Array<Waiting>): ReadonlyArray<Waiting> => {
  const seen = new Set<SandboxId>()
  const end = queue.findIndex(
    (waiting) => seen.size === registryBatchMax || seen.has(waiting.sandbox) || !seen.add(waiting.sandbox)
  )
  return queue.splice(0, end === -1 ? queue.length : end)
}

/** Asks one decision; one that throws is its caller's defect and nobody else's. */
const ask = (waiting: Waiting, pending: Pending): Exit.Exit<Change, Refusal> => {
  try {
    const decision = waiting.decide(pending)
    return Result.isSuccess(decision) ? Exit.succeed(decision.success) : Exit.fail(decision.failure)
  } catch (defect) {
    return Exit.die(defect)
  }
}

/** The pending state behind one put: what it adds counts at once, what it frees does not. */
const afterPut = (pending: Pending, put: Put, headerBytes: number): Pending => {
  const inventory = withRecord(pending.inventory, put)
  const charges = chargesOf(inventory, headerBytes)
  const grownBy = charges.snapshotBytes - chargesOf(pending.inventory, headerBytes).snapshotBytes
  const snapshotBytes = pending.charges.snapshotBytes + Math.max(0, grownBy)
  return { inventory, charges: { ...charges, snapshotBytes } }
}

/** Decides a batch serially; answers refusals and what changes nothing, and returns what has to be written. */
const decideBatch = (
  batch: ReadonlyArray<Waiting>,
  committed: Inventory,
  headerBytes: number
): ReadonlyArray<Omit<Decided, "temporary">> => {
  const decided: Array<Omit<Decided, "temporary">> = []
  let pending: Pending = { inventory: committed, charges: chargesOf(committed, headerBytes) }
  for (const waiting of batch) {
    const exit = ask(waiting, pending)
    if (Exit.isFailure(exit)) {
      waiting.exit = Exit.failCause(exit.cause)
    } else if (exit.value._tag === "Keep") {
      waiting.exit = Exit.succeed(exit.value.record)
    } else {
      decided.push({ waiting, change: exit.value })
      if (exit.value._tag === "Put") pending = afterPut(pending, exit.value, headerBytes)
    }
  }
  return decided
}

export const makeCommitter = Effect.fnUntraced(function* (owner: NodeId, opened: Inventory) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  const headerBytes = headerBytesOf(owner)
  const ownerPrefix = `{"version":2,"owner":"${owner}","record":`
  const queue: Array<Waiting> = []
  let committed = opened
  let failedDuring: string | null = null
  let hasLeader = false

  /** Writes and syncs one temporary; answers the mutation when that fails, which is its own misfortune. */
  const write = ({ change, temporary, waiting }: Decided): Effect.Effect<void> =>
    change._tag === "Remove"
      ? Effect.void
      : files.create("records", temporary, `${ownerPrefix}${change.text}}`).pipe(
          Effect.catch(({ step, why }: RegistryFileFailed) => {
            waiting.exit = Exit.fail(new RegistryWriteFailed({ sandbox: waiting.sandbox, step, why }))
            return Effect.ignore(files.unlink("records", temporary))
          })
        )

  const publish = Effect.fnUntraced(function* (written: ReadonlyArray<Decided>) {
    for (const { change, temporary, waiting } of written) {
      yield* change._tag === "Put"
        ? files.rename("records", temporary, fileOf(waiting.sandbox))
        : files.unlink("records", fileOf(waiting.sandbox))
    }
    yield* files.sync("records")
  })

  /** Memory follows the disk, all of a batch at once. */
  const remember = (written: ReadonlyArray<Decided>): void => {
    let next = committed
    for (const { change, waiting } of written) {
      next =
        change._tag === "Remove"
          ? withoutRecord(next, waiting.sandbox)
          : withRecord(next, { record: change.record, bytes: change.bytes })
    }
    committed = next
    for (const { change, waiting } of written) waiting.exit = Exit.succeed(change.record)
  }

  /** Closes the latch: from now on every access is refused. */
  const fail = (during: string, unanswered: ReadonlyArray<Waiting>): void => {
    failedDuring ??= during
    const exit = Exit.fail(new StorageFailed({ during: failedDuring }))
    for (const waiting of unanswered) waiting.exit ??= exit
  }

  const commit = Effect.fnUntraced(function* (batch: ReadonlyArray<Waiting>) {
    if (failedDuring !== null) return fail(failedDuring, batch)
    const decided: Array<Decided> = []
    for (const each of decideBatch(batch, committed, headerBytes)) {
      decided.push({ ...each, temporary: `.record-${yield* uuid}` })
    }
    yield* decided.length === 1
      ? write(decided[0]!)
      : Effect.forEach(decided, write, { concurrency: "unbounded", discard: true })
    const written = decided.filter(({ waiting }) => waiting.exit === undefined)
    if (written.length === 0) return
    const published = yield* Effect.result(publish(written))
    if (Result.isSuccess(published)) return remember(written)
    const { message, path, step } = published.failure
    fail(`${step} of ${path}`, batch)
    yield* Effect.logError(`the registry's storage failed: ${message}`)
  })

  /** Commits what waits at the head of the queue, then wakes those who were answered and at last the next leader. */
  const lead = Effect.gen(function* () {
    const batch = takeBatch(queue)
    yield* commit(batch).pipe(
      Effect.catchDefect((defect) => {
        fail("a commit that met a mistake of its own", batch)
        return Effect.logError(
          `the registry's commit met a mistake of its own: ${defect instanceof Error ? defect.name : typeof defect}`
        )
      })
    )
    for (const { wake } of batch) yield* Deferred.succeed(wake, undefined)
    const next = queue[0]
    if (next === undefined) hasLeader = false
    else yield* Deferred.succeed(next.wake, undefined)
  })

  /** A mutation that has been queued is committed whoever hangs up. Whoever finds no leader leads one batch. */
  const mutate = <E extends Refusal>(
    sandbox: SandboxId,
    decide: (pending: Pending) => Result.Result<Change, E>
  ): Effect.Effect<SandboxRecord, E | RegistryWriteFailed | StorageFailed> =>
    Effect.gen(function* () {
      const waiting: Waiting = { sandbox, decide, exit: undefined, wake: Deferred.makeUnsafe<void>() }
      queue.push(waiting)
      if (hasLeader) {
        yield* Deferred.await(waiting.wake)
        // Those who were answered with the last batch come back first, and share this one.
        if (waiting.exit === undefined) yield* Effect.yieldNow
      }
      if (waiting.exit === undefined) {
        hasLeader = true
        yield* lead
      }
      return yield* waiting.exit as unknown as Exit.Exit<
        SandboxRecord,
        E | RegistryWriteFailed | StorageFailed
      >
    }).pipe(Effect.uninterruptible)

  return {
    mutate,
    committed: (): Inventory => committed,
    charges: (): NodeCharges => chargesOf(committed, headerBytes),
    /** What the latch is closed by, or null. */
    failure: (): string | null => failedDuring
  }
})
