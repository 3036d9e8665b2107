/**
 * Opens the node's registry: makes a fresh version-2 layout durably, or reads the committed one and believes nothing
 * that does not agree. It never falls back, never skips a record, and changes nothing when it refuses. A version-1
 * registry with sandboxes is refused here, untouched; its migration takes the place of that refusal. Source:
 * RG-LAY-04 to RG-LAY-08, RG-COM-05.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Identifiers } from "../Identifiers.ts"
import { NodeId } from "../Identity.ts"
import {
  activate,
  begin,
  checkArtifacts,
  headerName,
  metaName,
  removeArtifacts,
  roleInRecords
} from "./layoutCreation.ts"
import { HeaderFile, MetaFile, type SandboxRecord, SnapshotFile } from "./Record.ts"
import { readRecordFile } from "./recordReading.ts"
import { RegistryOpenRefused } from "./Registry.ts"
import { type RegistryEntry, type RegistryFileFailed, RegistryFiles } from "./RegistryFiles.ts"

/** What an open answers: the owner, and every retained record. */
export interface OpenedRegistry {
  readonly owner: NodeId
  readonly records: ReadonlyArray<SandboxRecord>
}

const refuse = (path: string, why: string) => new RegistryOpenRefused({ path, why })
const refuseFile = ({ path, step, why }: RegistryFileFailed) => refuse(path, `${step}: ${why}`)

const strict = { onExcessProperty: "error" } as const
const decodeHeader = Schema.decodeUnknownResult(
  Schema.fromJsonString(Schema.Union([HeaderFile, SnapshotFile]))
)
const decodeMeta = Schema.decodeUnknownResult(Schema.fromJsonString(MetaFile))

const unreadable =
  "it is corrupt, truncated or of another version: keep it, and restore the state directory from a backup"

/** The owner of a committed version-2 layout; makes the layout where the directory is fresh or half made. */
const committedOwner = Effect.fnUntraced(function* (entries: ReadonlyArray<RegistryEntry>) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  const text = yield* files.read("state", headerName)
  if (Option.isNone(text)) {
    if (entries.some(({ name }) => name === "records")) {
      return yield* refuse(headerName, "it is missing beside records/: restore it, an owner is never guessed")
    }
    const owner = NodeId.make(yield* uuid)
    yield* begin(owner)
    yield* activate(owner)
    return owner
  }
  const header = Result.getOrUndefined(decodeHeader(text.value, strict))
  if (header === undefined) return yield* refuse(headerName, unreadable)
  if (header.version === 2) return header.owner
  if (Object.keys(header.sandboxes).length > 0) {
    return yield* refuse(
      headerName,
      "it is a version-1 registry with sandboxes, which this release cannot migrate: keep the directory as it is"
    )
  }
  yield* activate(header.owner)
  return header.owner
})

/** Names of the records and of what was never committed; a wrong meta.json or an unknown name refuses. */
const readRecordsDirectory = Effect.fnUntraced(function* (owner: NodeId) {
  const files = yield* RegistryFiles
  const entries = yield* files.list("records")
  if (Option.isNone(entries)) return yield* refuse("records", "it is missing beside an activated header")
  const meta = yield* files.read("records", metaName)
  const metaPath = `records/${metaName}`
  if (Option.isNone(meta)) return yield* refuse(metaPath, "it is missing beside an activated header")
  const decoded = Result.getOrUndefined(decodeMeta(meta.value, strict))
  if (decoded === undefined) return yield* refuse(metaPath, unreadable)
  if (decoded.owner !== owner) return yield* refuse(metaPath, "it has another owner than the header")
  const records: Array<string> = []
  const leftovers: Array<string> = []
  for (const { kind, name } of entries.value) {
    const role = roleInRecords(name)
    if (role === null) {
      return yield* refuse(`records/${name}`, "no file of the registry has such a name: move it away")
    }
    if (kind !== "file") return yield* refuse(`records/${name}`, "it is not a regular file")
    if (role === "record") records.push(name)
    if (role === "leftover") {
      yield* files.check("records", { name, kind: "file" })
      leftovers.push(name)
    }
  }
  return { records, leftovers }
})

const readRecord = Effect.fnUntraced(function* (owner: NodeId, name: string) {
  const files = yield* RegistryFiles
  const text = yield* files.read("records", name)
  if (Option.isNone(text)) return yield* refuse(`records/${name}`, "it went away while it was read")
  const record = readRecordFile(text.value, { owner, name })
  return Result.isSuccess(record)
    ? record.success
    : yield* refuse(`records/${name}`, `${record.failure}: keep it, and restore it from a backup`)
})

const open = Effect.fnUntraced(function* () {
  const files = yield* RegistryFiles
  const state = yield* files.list("state")
  if (Option.isNone(state)) return yield* refuse(".", "there is no such directory")
  yield* checkArtifacts(state.value)
  const owner = yield* committedOwner(state.value)
  const { leftovers, records } = yield* readRecordsDirectory(owner)
  const read: Array<SandboxRecord> = []
  for (const name of records) read.push(yield* readRecord(owner, name))
  for (const name of leftovers) yield* files.unlink("records", name)
  yield* removeArtifacts()
  return { owner, records: read } satisfies OpenedRegistry
})

/**
 * Opens the registry of the state directory. Refused with `RegistryOpenRefused`, which names the path and the
 * reason; nothing was changed then. Removes what was never committed only after everything else was found right.
 */
export const openRegistry = Effect.fn("registry.open")(function* () {
  return yield* open().pipe(
    Effect.catchTag("RegistryFileFailed", (failed) => Effect.fail(refuseFile(failed)))
  )
}, Effect.uninterruptible)
