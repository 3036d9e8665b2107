/**
 * Decides a batch of mutations, one after another, against the state that the earlier ones of the batch would make.
 * Pure but for the answers of those that need no disk. What a batch frees counts only for later batches: a removal's
 * reservation, and the bytes by which a record shrinks, so that no admission rests on a change that is not durable
 * yet. Source: RG-COM-03, RG-BUD-03.
 */
import type * as Deferred from "effect/Deferred"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { SandboxId } from "../Identity.ts"
import { recordBytes } from "./charges.ts"
import { chargesOf, type Inventory, withRecord } from "./Inventory.ts"
import type { SandboxRecord } from "./Record.ts"
import type { NodeCharges } from "./Registry.ts"

interface Keep {
  readonly _tag: "Keep"
  readonly record: SandboxRecord
}
export interface Put {
  readonly _tag: "Put"
  readonly record: SandboxRecord
  readonly text: string
  readonly bytes: number
}
export interface Remove {
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

export interface Refusal {
  readonly _tag: string
}

/** One mutation on its way. */
export interface Waiting {
  readonly sandbox: SandboxId
  readonly decide: (pending: Pending) => Result.Result<Change, Refusal>
  /** Set once, when the mutation is answered. */
  exit: Exit.Exit<SandboxRecord, Refusal> | undefined
  /** Wakes the waiter: it is answered, or it is the next leader. */
  readonly wake: Deferred.Deferred<void>
}

/** One mutation that has to be written. */
export interface Decided {
  readonly waiting: Waiting
  readonly change: Put | Remove
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
export const decideBatch = (
  batch: ReadonlyArray<Waiting>,
  committed: Inventory,
  headerBytes: number
): ReadonlyArray<Decided> => {
  const decided: Array<Decided> = []
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
