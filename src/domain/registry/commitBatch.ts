/**
 * Puts one batch of decided mutations on disk and into memory.
 *
 *     create + fsync (side by side) ─► rename / unlink (serial) ─► fsync records/ ─► memory, all at once
 *     a failure fails only its own     from here on a failure is uncertain: the latch closes
 *
 * Temporaries of several mutations are written side by side and then published in one trip to the disk; a mutation
 * that is alone makes one trip altogether.
 *
 * Who is uncertain when a rename, an unlink or the directory's sync fails: every mutation of the batch that had been
 * written. Those before it have changed the directory and are not durable, its own may have happened although the
 * call failed, and those after it cannot be answered "not written" by a registry whose disk is in doubt. All of them
 * answer `StorageFailed`; nothing is undone or cleaned up, since that would write from memory. The next open reads
 * whichever state survived: for each record either the one before or the one after. Source: RG-COM-01, RG-COM-02,
 * RG-COM-05.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { Identifiers } from "../Identifiers.ts"
import type { NodeId, SandboxId } from "../Identity.ts"
import { headerBytesOf } from "./charges.ts"
import { type Decided, decideBatch, type Waiting } from "./commitDecision.ts"
import { chargesOf, type Inventory, withoutRecord, withRecord } from "./Inventory.ts"
import { type NodeCharges, RegistryWriteFailed, StorageFailed } from "./Registry.ts"
import {
  create,
  type RegistryFileFailed,
  RegistryFiles,
  type RegistryStep,
  rename,
  sync,
  unlink
} from "./RegistryFiles.ts"

type Files = RegistryFiles["Service"]

interface Written extends Decided {
  readonly temporary: string
}

const fileOf = (sandbox: SandboxId): string => `${sandbox}.json`

const creationOf = (owner: NodeId, { change, temporary }: Written): ReadonlyArray<RegistryStep> =>
  change._tag === "Remove"
    ? []
    : [create(temporary, `{"version":2,"owner":"${owner}","record":${change.text}}`)]

/** A temporary that could not be written and synced is its mutation's own misfortune: it is refused. */
const refuseWrite = (files: Files, { temporary, waiting }: Written, { step, why }: RegistryFileFailed) => {
  waiting.exit = Exit.fail(new RegistryWriteFailed({ sandbox: waiting.sandbox, step, why }))
  return Effect.ignore(files.carryOut("records", [unlink(temporary)]))
}

/** Writes the temporaries side by side, and refuses the mutations whose own cannot be written. */
const writeAll = (files: Files, owner: NodeId, decided: ReadonlyArray<Written>): Effect.Effect<void> =>
  Effect.forEach(
    decided,
    (each) =>
      Effect.catch(files.carryOut("records", creationOf(owner, each)), (failed) =>
        refuseWrite(files, each, failed)
      ),
    { concurrency: "unbounded", discard: true }
  )

const publicationOf = (written: ReadonlyArray<Written>): ReadonlyArray<RegistryStep> => [
  ...written.map(({ change, temporary, waiting }) =>
    change._tag === "Put" ? rename(temporary, fileOf(waiting.sandbox)) : unlink(fileOf(waiting.sandbox))
  ),
  sync
]

/** The state behind a batch that is durable. */
const afterBatch = (committed: Inventory, written: ReadonlyArray<Decided>): Inventory =>
  written.reduce(
    (inventory, { change, waiting }) =>
      change._tag === "Remove"
        ? withoutRecord(inventory, waiting.sandbox)
        : withRecord(inventory, { record: change.record, bytes: change.bytes }),
    committed
  )

/** The committed state of one registry, and the one way to change it. Batches come one at a time. */
export const makeBatchCommit = Effect.fnUntraced(function* (owner: NodeId, opened: Inventory) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  const headerBytes = headerBytesOf(owner)
  let committed = opened
  let failedDuring: string | null = null

  /** Closes the latch: from now on every access is refused. */
  const fail = (during: string, unanswered: ReadonlyArray<Waiting>): void => {
    failedDuring ??= during
    const exit = Exit.fail(new StorageFailed({ during: failedDuring }))
    for (const waiting of unanswered) waiting.exit ??= exit
  }

  const attempt = Effect.fnUntraced(function* (batch: ReadonlyArray<Waiting>) {
    const decided: Array<Written> = []
    for (const each of decideBatch(batch, committed, headerBytes)) {
      decided.push({ ...each, temporary: `.record-${yield* uuid}` })
    }
    // Alone it goes to the disk in one trip.
    const isAlone = decided.length === 1
    if (!isAlone) yield* writeAll(files, owner, decided)
    const written = decided.filter(({ waiting }) => waiting.exit === undefined)
    const [first] = written
    if (first === undefined) return
    const steps = [...(isAlone ? creationOf(owner, first) : []), ...publicationOf(written)]
    const published = yield* Effect.result(files.carryOut("records", steps))
    if (Result.isFailure(published)) {
      const { failure } = published
      if (failure.step === "create") return yield* refuseWrite(files, first, failure)
      fail(`${failure.step} of ${failure.path}`, batch)
      return yield* Effect.logError(`the registry's storage failed: ${failure.message}`)
    }
    committed = afterBatch(committed, written)
    for (const { change, waiting } of written) waiting.exit = Exit.succeed(change.record)
  })

  return {
    /** Answers every mutation of the batch; never fails. A mistake of ours on the way closes the latch too. */
    commit: (batch: ReadonlyArray<Waiting>): Effect.Effect<void> =>
      Effect.suspend(() => {
        if (failedDuring === null) return attempt(batch)
        fail(failedDuring, batch)
        return Effect.void
      }).pipe(
        Effect.catchDefect((defect) => {
          fail("a commit that met a mistake of its own", batch)
          const name = defect instanceof Error ? defect.name : typeof defect
          return Effect.logError(`the registry's commit met a mistake of its own: ${name}`)
        })
      ),
    committed: (): Inventory => committed,
    charges: (): NodeCharges => chargesOf(committed, headerBytes),
    /** What the latch is closed by, or null. */
    failure: (): string | null => failedDuring
  }
})
