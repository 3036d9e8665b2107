/**
 * The registry over the committed records that an open has read: admission, change and removal decided purely, made
 * durable by the committer, read from memory. Source: RG-BUD, RG-COM, RG-DEL-01, RG-DEL-02.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { registrySnapshotBytesMax } from "../Bounds.ts"
import type { AbsenceProof } from "../guests/AbsenceProof.ts"
import type { NodeId, SandboxId } from "../Identity.ts"
import { fitsBudget, fitsCapacity } from "./charges.ts"
import { type Change, type Pending, putOf } from "./commitDecision.ts"
import { makeCommitter } from "./committer.ts"
import { makeGates } from "./gates.ts"
import { inventoryOf, InventoryView, retainedOf } from "./Inventory.ts"
import type { SandboxRecord } from "./Record.ts"
import {
  type NodeCapacity,
  Registry,
  type RegistryFull,
  SandboxIdTaken,
  SandboxNotFound,
  SandboxStateRefused,
  StorageFailed
} from "./Registry.ts"

const decideAdmission =
  (record: SandboxRecord, limits: { readonly capacity: NodeCapacity; readonly budgetBytes: number }) =>
  (pending: Pending) =>
    Result.gen(function* () {
      if (retainedOf(pending.inventory, record.id) !== undefined) {
        return yield* Result.fail(new SandboxIdTaken({ sandbox: record.id, by: "record" }))
      }
      const { charges } = pending
      const { cpuMillis, memoryBytes } = record
      yield* fitsCapacity(charges, { sandboxes: 1, cpuMillis, memoryBytes }, limits.capacity)
      const change = putOf(record)
      // The first record has no comma before it.
      const grownBy = change.bytes - (charges.sandboxes === 0 ? 1 : 0)
      yield* fitsBudget(charges.snapshotBytes, grownBy, limits.budgetBytes)
      return change
    })

/** What no change of a record may touch; a deletion that was once intended stays intended. */
const keepsIdentity = (before: SandboxRecord, after: SandboxRecord): boolean =>
  before.id === after.id &&
  before.endpointToken === after.endpointToken &&
  before.generation <= after.generation &&
  before.cpuMillis === after.cpuMillis &&
  before.memoryBytes === after.memoryBytes &&
  before.origin?.key === after.origin?.key &&
  before.origin?.hash === after.origin?.hash &&
  (before.deletion === null || after.deletion !== null)

const decideUpdate =
  <E>(
    sandbox: SandboxId,
    change: (record: SandboxRecord) => Result.Result<SandboxRecord, E>,
    budgetBytes: number
  ) =>
  (pending: Pending): Result.Result<Change, E | SandboxNotFound | RegistryFull> =>
    Result.gen(function* () {
      const before = retainedOf(pending.inventory, sandbox)
      if (before === undefined) return yield* Result.fail(new SandboxNotFound({ sandbox }))
      const record = yield* change(before.record)
      if (!keepsIdentity(before.record, record)) {
        throw new Error(
          "a change of a record touched its id, token, reservation, request or deletion, or took its generation back"
        )
      }
      const put = putOf(record)
      if (put.bytes === before.bytes && put.text === JSON.stringify(before.record)) {
        return { _tag: "Keep", record: before.record } as const
      }
      yield* fitsBudget(pending.charges.snapshotBytes, put.bytes - before.bytes, budgetBytes)
      return put
    })

const decideRemoval =
  (proof: AbsenceProof) =>
  (pending: Pending): Result.Result<Change, SandboxNotFound | SandboxStateRefused> => {
    const retained = retainedOf(pending.inventory, proof.sandbox)
    if (retained === undefined) return Result.fail(new SandboxNotFound({ sandbox: proof.sandbox }))
    const { record } = retained
    const refused = (wanted: string) =>
      Result.fail(new SandboxStateRefused({ sandbox: record.id, status: record.status, wanted }))
    if (record.deletion === null) return refused("removal without a durable deletion intent")
    if (proof.generation < record.generation) return refused("removal by the proof of an older generation")
    return Result.succeed({ _tag: "Remove", record })
  }

/** Builds the service over what `openRegistry` answered. Limits are settings of the node. */
export const makeRegistry = Effect.fn("registry.make")(function* (
  opened: { readonly owner: NodeId; readonly records: ReadonlyArray<SandboxRecord> },
  capacity: NodeCapacity,
  budgetBytes: number = registrySnapshotBytesMax
) {
  const committer = yield* makeCommitter(opened.owner, inventoryOf(opened.records))
  const gates = makeGates<SandboxId>()

  /** Refuses while the latch is closed, reads too. */
  const whileSound = <A>(read: () => A): Effect.Effect<A, StorageFailed> =>
    Effect.suspend(() => {
      const during = committer.failure()
      return during === null ? Effect.succeed(read()) : Effect.fail(new StorageFailed({ during }))
    })

  return Registry.of({
    node: opened.owner,
    capacity,
    inventory: whileSound(() => new InventoryView(committer.committed())),
    get: (sandbox) =>
      Effect.flatMap(
        whileSound(() => retainedOf(committer.committed(), sandbox)),
        (retained): Effect.Effect<SandboxRecord, SandboxNotFound> =>
          retained === undefined
            ? Effect.fail(new SandboxNotFound({ sandbox }))
            : Effect.succeed(retained.record)
      ),
    charges: whileSound(committer.charges),
    admit: (record) =>
      Effect.asVoid(committer.mutate(record.id, decideAdmission(record, { capacity, budgetBytes }))),
    update: <E>(sandbox: SandboxId, change: (record: SandboxRecord) => Result.Result<SandboxRecord, E>) =>
      committer.mutate(
        sandbox,
        decideUpdate(sandbox, change, budgetBytes) as (
          pending: Pending
        ) => Result.Result<Change, (E & { readonly _tag: string }) | SandboxNotFound | RegistryFull>
      ),
    remove: (proof) => Effect.asVoid(committer.mutate(proof.sandbox, decideRemoval(proof))),
    exclusive: gates.exclusive,
    exclusiveIfFree: gates.exclusiveIfFree
  })
})
