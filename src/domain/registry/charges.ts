/**
 * What a record costs in bytes of the logical version-1 snapshot, and whether a change still fits the node. Pure; what
 * all the records cost together is kept by Inventory.ts. Source: RG-BUD.
 */
import * as Result from "effect/Result"
import type { NodeId } from "../Identity.ts"
import type { SandboxRecord } from "./Record.ts"
import { CapacityExceeded, type NodeCapacity, type NodeCharges, RegistryFull } from "./Registry.ts"

const encoder = new TextEncoder()
const beyondAscii = /[\u0080-\uffff]/

/** Length of a text in bytes of UTF-8. Of plain ASCII, which nearly every record is, nothing is encoded for it. */
export const bytesOf = (text: string): number =>
  beyondAscii.test(text) ? encoder.encode(text).length : text.length

/** The version-1 snapshot that would hold these records, as its text. The accounting is measured against it. */
export const snapshotText = (owner: NodeId, records: Iterable<SandboxRecord>): string =>
  JSON.stringify({
    version: 1,
    owner,
    sandboxes: Object.fromEntries(Array.from(records, (record) => [record.id, record]))
  })

/** Bytes of a snapshot without records. */
export const headerBytesOf = (owner: NodeId): number => bytesOf(snapshotText(owner, []))

/** Bytes that one record adds: its text, its id, two quotes, a colon and a comma. */
export const recordBytes = (id: string, recordText: string): number => bytesOf(recordText) + bytesOf(id) + 4

const resources = ["sandboxes", "cpuMillis", "memoryBytes"] as const

/** Whether one more sandbox has room, by count, CPU and memory in that order. Source: RG-BUD-04. */
export const fitsCapacity = (
  used: NodeCharges,
  needed: Pick<NodeCharges, "sandboxes" | "cpuMillis" | "memoryBytes">,
  capacity: NodeCapacity
): Result.Result<void, CapacityExceeded> => {
  const over = resources.find((resource) => used[resource] + needed[resource] > capacity[resource])
  return over === undefined
    ? Result.succeed(undefined)
    : Result.fail(
        new CapacityExceeded({
          resource: over,
          used: used[over],
          needed: needed[over],
          limit: capacity[over]
        })
      )
}

/** Whether the snapshot may grow from `used` by `grownBy` bytes; one that shrinks always may. Source: RG-BUD-03. */
export const fitsBudget = (used: number, grownBy: number, limit: number): Result.Result<void, RegistryFull> =>
  grownBy <= 0 || used + grownBy <= limit
    ? Result.succeed(undefined)
    : Result.fail(new RegistryFull({ usedBytes: used, neededBytes: grownBy, limitBytes: limit }))
