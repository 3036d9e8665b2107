/**
 * What must happen when one call to the system fails, for every call that an open, a creation, a migration and a
 * mutation make, in their order. A row stands for its calls one after another on one path. The test learns the calls
 * from a run without a fault and holds them against the rows, so that no call is without one. Source: RG-COM-05,
 * RG-COM-07, RG-MIG-05.
 */

/**
 * - `refused`: the open is refused, and the next one finds what was there before.
 * - `uncertain`: the same, and the refusal says that the activation is uncertain.
 * - `failed`: the mutation alone fails; memory and disk are as they were, and it can be made again.
 * - `latched`: nothing happened, but the registry cannot know that: every access is refused until a restart.
 * - `latched, unknown`: the same, and a power failure may take the mutation back.
 */
export type FaultOutcome = "refused" | "uncertain" | "failed" | "latched" | "latched, unknown"

export type FaultRow = readonly [calls: string, path: string, outcome: FaultOutcome]

/** A file that is made and synced: what is behind its opening is behind its name. */
const making = "open stat write fsync close"
const reading = "open stat read close"

const replaced: ReadonlyArray<FaultRow> = [
  [making, "records/.record-*", "failed"],
  ["rename", "records/.record-* records/sb-*.json", "latched"],
  ["fsync", "records", "latched, unknown"]
]

const removed: ReadonlyArray<FaultRow> = [
  ["unlink", "records/sb-*.json", "latched"],
  ["fsync", "records", "latched, unknown"]
]

const header: ReadonlyArray<FaultRow> = [
  [making, ".sandboxes.json-*", "uncertain"],
  ["rename", ".sandboxes.json-* sandboxes.json", "uncertain"],
  ["fsync", ".", "uncertain"]
]

const readRuntime: ReadonlyArray<FaultRow> = [[reading, "runtime/owner.json", "refused"]]
const readRecords: ReadonlyArray<FaultRow> = [
  ["open stat list", "records", "refused"],
  [reading, "records/meta.json", "refused"]
]
const settled: ReadonlyArray<FaultRow> = [
  ["fsync", "records", "refused"],
  ["fsync", ".", "refused"],
  ["list", ".", "refused"]
]

const marker: ReadonlyArray<FaultRow> = [
  [making, "runtime/.owner.json-*", "refused"],
  ["rename", "runtime/.owner.json-* runtime/owner.json", "refused"],
  ["fsync", "runtime", "refused"],
  ["fsync", ".", "refused"]
]

const placed: ReadonlyArray<FaultRow> = [
  ["fsync", ".records-*", "refused"],
  ["rename", ".records-* records", "refused"],
  ["close", ".records-*", "refused"],
  ["fsync", ".", "refused"],
  ...header,
  ["list", ".", "refused"]
]

/** A fresh directory. */
const created: ReadonlyArray<FaultRow> = [
  ["open stat list", ".", "refused"],
  ["open", "sandboxes.json", "refused"],
  ["open open", "runtime", "refused"],
  [making, ".sandboxes.json-*", "refused"],
  ["rename", ".sandboxes.json-* sandboxes.json", "refused"],
  ["fsync", ".", "refused"],
  ["open mkdir chmod chmod open stat", "runtime", "refused"],
  ...marker,
  ["open", "records", "refused"],
  ["mkdir chmod open stat", ".records-*", "refused"],
  [making, ".records-*/meta.json", "refused"],
  ...placed,
  [reading, "sandboxes.json", "refused"],
  ...readRuntime,
  ...readRecords,
  ...settled
]

/** A committed registry of one record, beside an uncommitted replacement and an uncommitted header. */
const opened: ReadonlyArray<FaultRow> = [
  ["open stat list", ".", "refused"],
  ["stat", ".sandboxes.json-*", "refused"],
  [reading, "sandboxes.json", "refused"],
  ["open stat", "runtime", "refused"],
  ...readRuntime,
  ...readRecords,
  [reading, "records/sb-*.json", "refused"],
  ["stat", "records/.record-*", "refused"],
  ["unlink", "records/.record-*", "refused"],
  ...settled,
  ["unlink", ".sandboxes.json-*", "refused"]
]

/** A version-1 registry of one record, beside a records directory that was never activated. */
const migrated: ReadonlyArray<FaultRow> = [
  ["open stat list", ".", "refused"],
  [reading, "sandboxes.json", "refused"],
  ["open stat list", "runtime", "refused"],
  ...readRuntime,
  ["open stat list list", "records", "refused"],
  ["stat", "records/meta.json", "refused"],
  ["fsync", ".", "refused"],
  ["list", "runtime", "refused"],
  ["fsync", "runtime", "refused"],
  ["fsync", ".", "refused"],
  ["list", "records", "refused"],
  ["rename", "records .records-retired-*", "refused"],
  ["close", "records", "refused"],
  ["fsync", ".", "refused"],
  ["mkdir chmod open stat", ".records-*", "refused"],
  [making, ".records-*/meta.json", "refused"],
  [making, ".records-*/sb-*.json", "refused"],
  ...placed,
  ["stat open stat list", ".records-retired-*", "refused"],
  ["stat", ".records-retired-*/meta.json", "refused"],
  [reading, "sandboxes.json", "refused"],
  ...readRuntime,
  ...readRecords,
  [reading, "records/sb-*.json", "refused"],
  ...settled,
  ["list", ".records-retired-*", "refused"],
  ["unlink", ".records-retired-*/meta.json", "refused"],
  ["close rmdir", ".records-retired-*", "refused"]
]

export const faultTable = {
  "creating the layout": created,
  "opening a committed registry": opened,
  "migrating a version-1 registry": migrated,
  "an admission": replaced,
  "a replacement": replaced,
  "a removal": removed
} as const satisfies Record<string, ReadonlyArray<FaultRow>>

export type FaultPath = keyof typeof faultTable

/** The rows as one outcome for each call, named as the test names a call. */
export const callsOf = (path: FaultPath): ReadonlyArray<readonly [call: string, outcome: FaultOutcome]> =>
  faultTable[path].flatMap(([calls, on, outcome]) =>
    calls.split(" ").map((call) => [`${call} ${on}`, outcome] as const)
  )
