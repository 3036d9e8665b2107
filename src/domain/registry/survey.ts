/**
 * Looks at a state directory and says what an open finds there and would do; changes nothing and draws nothing. An open
 * acts on it, `holdfast registry check` shows it, so that both say the same. Where something is wrong that leaves the
 * rest unreadable it fails; faults of single records are gathered, and each of them refuses an open. Source:
 * RG-LAY-04 to RG-LAY-08, RG-MIG-04, RG-MIG-06.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { NodeId } from "../Identity.ts"
import { type Artifact, checkRecordsDirectory, findArtifacts } from "./artifacts.ts"
import { headerBytesOf } from "./charges.ts"
import { headerName, metaName, recordsName, roleInRecords, runtimeName, unknownName } from "./entryRoles.ts"
import { chargesOf, inventoryOf } from "./Inventory.ts"
import { MetaFile, type SandboxRecord } from "./Record.ts"
import { readRecordFile } from "./recordReading.ts"
import { RegistryOpenRefused } from "./Registry.ts"
import { type RegistryEntry, type RegistryFileFailed, RegistryFiles } from "./RegistryFiles.ts"
import { acceptOwner, findRuntime, requireMarker, type RuntimeFound } from "./runtimeOwner.ts"
import { type HeaderContent, readHeader } from "./snapshotReading.ts"

interface Found {
  readonly artifacts: ReadonlyArray<Artifact>
  /** Why an open refuses; none: it succeeds. */
  readonly faults: ReadonlyArray<RegistryOpenRefused>
}

/** There is no registry yet: an open makes one, with an owner of its own. */
export interface FreshRegistry extends Found {
  readonly layout: "fresh"
  readonly runtime: RuntimeFound
}

/** A version-1 registry is in force: an open migrates it. */
export interface SnapshotRegistry extends Found {
  readonly layout: "version 1"
  readonly owner: NodeId
  readonly records: ReadonlyArray<SandboxRecord>
  readonly snapshotBytes: number
  readonly runtime: RuntimeFound
}

/** Version 2 is activated: an open reads records/. */
export interface CommittedRegistry extends Found {
  readonly layout: "version 2"
  readonly owner: NodeId
  readonly records: ReadonlyArray<SandboxRecord>
}

export type Survey = FreshRegistry | SnapshotRegistry | CommittedRegistry

const refuse = (path: string, why: string) => new RegistryOpenRefused({ path, why })
export const refuseFile = ({ path, step, why }: RegistryFileFailed) => refuse(path, `${step}: ${why}`)

const decodeMeta = Schema.decodeUnknownResult(Schema.fromJsonString(MetaFile))

const checkMeta = Effect.fnUntraced(function* (owner: NodeId) {
  const path = `${recordsName}/${metaName}`
  const text = yield* (yield* RegistryFiles).read(recordsName, metaName)
  if (Option.isNone(text)) return yield* refuse(path, "it is missing beside an activated header")
  const meta = Result.getOrUndefined(decodeMeta(text.value, { onExcessProperty: "error" }))
  if (meta === undefined) {
    return yield* refuse(path, "it is corrupt, truncated or of another version: restore it from a backup")
  }
  if (meta.owner !== owner) return yield* refuse(path, "it has another owner than the header")
})

type Verdict = Result.Result<SandboxRecord, RegistryOpenRefused>

const pathOf = (name: string): string => `${recordsName}/${name}`

const judgeRecord = (owner: NodeId, name: string, text: Option.Option<string>): Verdict => {
  if (Option.isNone(text)) return Result.fail(refuse(pathOf(name), "it went away while it was read"))
  return Result.mapError(readRecordFile(text.value, { owner, name }), (why) =>
    refuse(pathOf(name), `${why}: keep it, and restore it from a backup`)
  )
}

/** One effect a record and no more: a node may hold thousands. */
const readRecord = (files: RegistryFiles["Service"], owner: NodeId, name: string): Effect.Effect<Verdict> =>
  Effect.match(files.read(recordsName, name), {
    onFailure: (failed): Verdict => Result.fail(refuseFile(failed)),
    onSuccess: (text) => judgeRecord(owner, name, text)
  })

const checkLeftover = (files: RegistryFiles["Service"], name: string) =>
  Effect.match(files.check(recordsName, { name, kind: "file" }), {
    onFailure: refuseFile,
    onSuccess: () => null
  })

/** Every record, every leftover, and every fault of either. */
const gather = Effect.fnUntraced(function* (owner: NodeId, entries: ReadonlyArray<RegistryEntry>) {
  const files = yield* RegistryFiles
  const records: Array<SandboxRecord> = []
  const artifacts: Array<Artifact> = []
  const faults: Array<RegistryOpenRefused> = []
  for (const { kind, name } of entries) {
    const role = roleInRecords(name)
    if (role === null) {
      faults.push(refuse(pathOf(name), unknownName))
    } else if (kind !== "file") {
      faults.push(refuse(pathOf(name), "it is not a regular file"))
    } else if (role === "record") {
      const read = yield* readRecord(files, owner, name)
      if (Result.isSuccess(read)) records.push(read.success)
      else faults.push(read.failure)
    } else if (role === "leftover") {
      const fault = yield* checkLeftover(files, name)
      if (fault === null) artifacts.push({ kind: "record", path: pathOf(name) })
      else faults.push(fault)
    }
  }
  return { records, artifacts, faults }
})

const surveyCommitted = Effect.fnUntraced(function* (owner: NodeId, artifacts: ReadonlyArray<Artifact>) {
  const files = yield* RegistryFiles
  yield* requireMarker(owner)
  const entries = yield* files.list(recordsName)
  if (Option.isNone(entries)) return yield* refuse(recordsName, "it is missing beside an activated header")
  yield* checkMeta(owner)
  const gathered = yield* gather(owner, entries.value)
  return {
    ...gathered,
    layout: "version 2",
    owner,
    artifacts: [...artifacts, ...gathered.artifacts]
  } satisfies CommittedRegistry
})

const markers = (runtime: RuntimeFound): ReadonlyArray<Artifact> =>
  runtime.leftovers.map((name) => ({ kind: "marker", path: `${runtimeName}/${name}` }))

/** A version-1 registry, and what was not activated beside it. */
const surveySnapshot = Effect.fnUntraced(function* (
  header: Extract<HeaderContent, { readonly version: 1 }>,
  artifacts: ReadonlyArray<Artifact>
) {
  const { owner, records, snapshotBytes } = header
  const files = yield* RegistryFiles
  const runtime = yield* findRuntime
  yield* Effect.fromResult(acceptOwner(owner, runtime, { isOccupied: header.isOccupied }))
  const unactivated = Option.isSome(yield* files.list(recordsName))
  if (unactivated) yield* checkRecordsDirectory(recordsName)
  return {
    layout: "version 1",
    owner,
    records,
    snapshotBytes,
    runtime,
    faults: header.faults.map((why) => refuse(headerName, why)),
    artifacts: [
      ...artifacts,
      ...markers(runtime),
      ...(unactivated ? [{ kind: "unactivated", path: recordsName } as const] : [])
    ]
  } satisfies SnapshotRegistry
})

/** No header: a beginning only where nothing tells of a registry that was here. */
const surveyFresh = Effect.fnUntraced(function* (
  entries: ReadonlyArray<RegistryEntry>,
  artifacts: ReadonlyArray<Artifact>
) {
  const runtime = yield* findRuntime
  const beside = entries.some(({ name }) => name === recordsName)
    ? "records/"
    : runtime.owner !== null
      ? "the runtime's owner.json"
      : runtime.isOccupied
        ? "the state of sandboxes in runtime/"
        : null
  if (beside !== null) {
    return yield* refuse(headerName, `it is missing beside ${beside}: restore it, an owner is never guessed`)
  }
  return {
    layout: "fresh",
    runtime,
    artifacts: [...artifacts, ...markers(runtime)],
    faults: []
  } satisfies FreshRegistry
})

/** Looks at the state directory. Fails with `RegistryOpenRefused` where what is wrong hides the rest. */
export const surveyRegistry: Effect.Effect<Survey, RegistryOpenRefused, RegistryFiles> = Effect.gen(
  function* () {
    const files = yield* RegistryFiles
    const state = yield* files.list("state")
    if (Option.isNone(state)) return yield* refuse(".", "there is no such directory")
    const artifacts = yield* findArtifacts(state.value)
    const text = yield* files.read("state", headerName)
    if (Option.isNone(text)) return yield* surveyFresh(state.value, artifacts)
    const header = readHeader(text.value)
    if (Result.isFailure(header)) return yield* refuse(headerName, header.failure)
    return header.success.version === 2
      ? yield* surveyCommitted(header.success.owner, artifacts)
      : yield* surveySnapshot(header.success, artifacts)
  }
).pipe(Effect.catchTag("RegistryFileFailed", (failed) => Effect.fail(refuseFile(failed))))

/** Bytes of the logical version-1 snapshot that would hold what was found. */
export const snapshotBytesOf = (found: CommittedRegistry): number =>
  chargesOf(inventoryOf(found.records), headerBytesOf(found.owner)).snapshotBytes
