/**
 * The retained records as one immutable value, with what they cost. A commit swaps the value, so a reader keeps the
 * state that it has begun with. The totals change only together with the records that they are of. Source: RG-BUD,
 * RG-COM-02.
 */
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import type { SandboxId } from "../Identity.ts"
import { recordBytes } from "./charges.ts"
import type { SandboxRecord } from "./Record.ts"
import type { NodeCharges } from "./Registry.ts"

/** One retained record. `text` is what its file holds of it, `bytes` what it adds to the snapshot. */
export interface Retained {
  readonly record: SandboxRecord
  readonly bytes: number
}

export interface Inventory {
  readonly retained: HashMap.HashMap<SandboxId, Retained>
  readonly cpuMillis: number
  readonly memoryBytes: number
  /** Sum of what the records add to the snapshot, each with its comma. */
  readonly recordsBytes: number
}

export const emptyInventory: Inventory = {
  retained: HashMap.empty(),
  cpuMillis: 0,
  memoryBytes: 0,
  recordsBytes: 0
}

export const retainedOf = (inventory: Inventory, sandbox: SandboxId): Retained | undefined =>
  Option.getOrUndefined(HashMap.get(inventory.retained, sandbox))

/** The inventory without the record; the same one when it has no such record. */
export const withoutRecord = (inventory: Inventory, sandbox: SandboxId): Inventory => {
  const former = retainedOf(inventory, sandbox)
  if (former === undefined) return inventory
  return {
    retained: HashMap.remove(inventory.retained, sandbox),
    cpuMillis: inventory.cpuMillis - former.record.cpuMillis,
    memoryBytes: inventory.memoryBytes - former.record.memoryBytes,
    recordsBytes: inventory.recordsBytes - former.bytes
  }
}

/** The inventory with this record in place of the one with its id. */
export const withRecord = (inventory: Inventory, retained: Retained): Inventory => {
  const { record } = retained
  const former = retainedOf(inventory, record.id)
  return {
    retained: HashMap.set(inventory.retained, record.id, retained),
    cpuMillis: inventory.cpuMillis + record.cpuMillis - (former?.record.cpuMillis ?? 0),
    memoryBytes: inventory.memoryBytes + record.memoryBytes - (former?.record.memoryBytes ?? 0),
    recordsBytes: inventory.recordsBytes + retained.bytes - (former?.bytes ?? 0)
  }
}

/** The inventory of the records that an open has read. */
export const inventoryOf = (records: Iterable<SandboxRecord>): Inventory => {
  let inventory: Inventory = { ...emptyInventory, retained: HashMap.beginMutation(HashMap.empty()) }
  for (const record of records) {
    inventory = withRecord(inventory, { record, bytes: recordBytes(record.id, JSON.stringify(record)) })
  }
  return { ...inventory, retained: HashMap.endMutation(inventory.retained) }
}

/** What the records reserve. The first record of a snapshot has no comma before it. Source: RG-BUD-02, RG-BUD-04. */
export const chargesOf = (inventory: Inventory, headerBytes: number): NodeCharges => {
  const sandboxes = HashMap.size(inventory.retained)
  return {
    sandboxes,
    cpuMillis: inventory.cpuMillis,
    memoryBytes: inventory.memoryBytes,
    snapshotBytes: headerBytes + inventory.recordsBytes - (sandboxes === 0 ? 0 : 1)
  }
}

/** The records of an inventory as a map, made without copying them. */
export class InventoryView implements ReadonlyMap<SandboxId, SandboxRecord> {
  readonly #retained: Inventory["retained"]
  constructor(inventory: Inventory) {
    this.#retained = inventory.retained
  }
  get size(): number {
    return HashMap.size(this.#retained)
  }
  get(sandbox: SandboxId): SandboxRecord | undefined {
    return Option.getOrUndefined(HashMap.get(this.#retained, sandbox))?.record
  }
  has(sandbox: SandboxId): boolean {
    return HashMap.has(this.#retained, sandbox)
  }
  *entries(): Generator<[SandboxId, SandboxRecord], undefined> {
    for (const [sandbox, { record }] of this.#retained) yield [sandbox, record]
  }
  *keys(): Generator<SandboxId, undefined> {
    yield* HashMap.keys(this.#retained)
  }
  *values(): Generator<SandboxRecord, undefined> {
    for (const { record } of HashMap.values(this.#retained)) yield record
  }
  forEach(
    each: (record: SandboxRecord, sandbox: SandboxId, view: ReadonlyMap<SandboxId, SandboxRecord>) => void
  ): void {
    for (const [sandbox, record] of this) each(record, sandbox, this)
  }
  [Symbol.iterator](): Generator<[SandboxId, SandboxRecord], undefined> {
    return this.entries()
  }
}
