/**
 * Reads `sandboxes.json`: the header of version 2, or the whole registry of version 1. Text in, content or reasons out;
 * no reason repeats anything of the content but a sandbox's id. Every fault of a snapshot is told, and one is enough to
 * refuse it: a record is never skipped. Source: RG-LAY-04, RG-LAY-05, RG-MIG-01, RG-BUD-03.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { registrySnapshotBytesMax } from "../Bounds.ts"
import { isSandboxId, type NodeId } from "../Identity.ts"
import { headerBytesOf } from "./charges.ts"
import { chargesOf, inventoryOf } from "./Inventory.ts"
import { hasRepeatedKey } from "./hasRepeatedKey.ts"
import { HeaderFile, type SandboxRecord, SnapshotFile } from "./Record.ts"
import { parseJson, readRecord } from "./recordReading.ts"

export type HeaderContent =
  | { readonly version: 2; readonly owner: NodeId }
  | {
      readonly version: 1
      readonly owner: NodeId
      readonly records: ReadonlyArray<SandboxRecord>
      readonly snapshotBytes: number
      /** Whether it has any sandbox, also one that cannot be read. */
      readonly isOccupied: boolean
      /** Why the snapshot may not be migrated, one sentence a fault. */
      readonly faults: ReadonlyArray<string>
    }

const unreadable =
  "it is corrupt, truncated or of another version: keep it, and restore the state directory from a backup"

const strict = { onExcessProperty: "error" } as const
const decodeHeader = Schema.decodeUnknownResult(Schema.Union([HeaderFile, SnapshotFile]))

const bytesOfSnapshot = (owner: NodeId, records: ReadonlyArray<SandboxRecord>): number =>
  chargesOf(inventoryOf(records), headerBytesOf(owner)).snapshotBytes

/** Every record of the map, or why not. */
const readRecords = (sandboxes: object) => {
  const records: Array<SandboxRecord> = []
  const faults: Array<string> = []
  for (const [key, value] of Object.entries(sandboxes)) {
    const read = isSandboxId(key) ? readRecord(value, key) : Result.fail("its name is no sandbox id")
    if (Result.isSuccess(read)) records.push(read.success)
    else faults.push(`${isSandboxId(key) ? key : "a record"}: ${read.failure}`)
  }
  return { records, faults }
}

/** Reads the header; fails with the reason. */
export const readHeader = (text: string): Result.Result<HeaderContent, string> => {
  const content = parseJson(text)
  if (typeof content !== "object" || content === null || !("sandboxes" in content)) {
    return Result.fail(unreadable)
  }
  // The map is read by hand: a schema would lose a key that is a property of every object.
  const { sandboxes } = content
  const isMap = typeof sandboxes === "object" && sandboxes !== null && !Array.isArray(sandboxes)
  if (!isMap) return Result.fail(unreadable)
  const header = Result.getOrUndefined(decodeHeader({ ...content, sandboxes: {} }, strict))
  if (header === undefined) return Result.fail(unreadable)
  if (hasRepeatedKey(text)) {
    return Result.fail(
      "it names something twice, and which of them counts is not known: keep it, and repair it"
    )
  }
  const { owner, version } = header
  if (version === 2) {
    return Object.keys(sandboxes).length === 0
      ? Result.succeed({ version, owner })
      : Result.fail("it is of version 2 and has sandboxes in it: keep it, and restore it from a backup")
  }
  const { faults, records } = readRecords(sandboxes)
  const snapshotBytes = bytesOfSnapshot(owner, records)
  if (snapshotBytes > registrySnapshotBytesMax) {
    faults.push(
      `its records take ${snapshotBytes} bytes, and a registry may have ${registrySnapshotBytesMax}: delete sandboxes with the release that wrote it`
    )
  }
  const isOccupied = Object.keys(sandboxes).length > 0
  return Result.succeed({ version, owner, records, snapshotBytes, isOccupied, faults })
}
