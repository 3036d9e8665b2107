/**
 * Makes and activates the version-2 layout, in steps that may die anywhere. A fresh directory first gets a version-1
 * header of nothing: an interrupted creation is then always the migration of an empty version-1 snapshot, which the
 * next open does again, and a missing header beside records/ never means a beginning.
 *
 *     header v1, empty ─► staging + meta.json, synced ─► rename to records/, synced ─► header v2 = activation
 *
 * What an interruption leaves has reserved names, is checked before anything is changed, and goes after the open has
 * succeeded. A version-1 header with sandboxes is the migration's work, not this file's. Source: RG-LAY-06,
 * RG-MIG-02, RG-MIG-03, RG-MIG-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Identifiers } from "../Identifiers.ts"
import { type NodeId, SandboxId } from "../Identity.ts"
import { type RegistryEntry, RegistryFileFailed, RegistryFiles } from "./RegistryFiles.ts"

export const headerName = "sandboxes.json"
export const metaName = "meta.json"

const isSandboxId = Schema.is(SandboxId)

/** What an entry of a records directory is by its name; null: no file of the registry is called so. */
export const roleInRecords = (name: string): "meta" | "record" | "leftover" | null => {
  if (name === metaName) return "meta"
  if (/^\.record-[\w-]{1,64}$/.test(name)) return "leftover"
  return name.endsWith(".json") && isSandboxId(name.slice(0, -".json".length)) ? "record" : null
}

const isStaging = ({ name }: RegistryEntry): boolean => /^\.records-[\w-]{1,80}$/.test(name)
const isHeaderTemporary = ({ name }: RegistryEntry): boolean => /^\.sandboxes\.json-[\w-]{1,64}$/.test(name)

/** Fails unless the directory holds nothing but private files of the registry; their content does not matter. */
export const checkRecordsDirectory = Effect.fnUntraced(function* (directory: string) {
  const files = yield* RegistryFiles
  for (const { name } of Option.getOrElse(yield* files.list(directory), () => [])) {
    if (roleInRecords(name) === null) {
      return yield* new RegistryFileFailed({
        step: "check",
        path: `${directory}/${name}`,
        why: "no file of the registry has such a name: move it away"
      })
    }
    yield* files.check(directory, { name, kind: "file" })
  }
})

/** Checks what interrupted creations have left in the state directory. Changes nothing. */
export const checkArtifacts = Effect.fnUntraced(function* (entries: ReadonlyArray<RegistryEntry>) {
  const files = yield* RegistryFiles
  for (const entry of entries) {
    if (isHeaderTemporary(entry)) yield* files.check("state", { name: entry.name, kind: "file" })
    if (!isStaging(entry)) continue
    yield* files.check("state", { name: entry.name, kind: "directory" })
    yield* checkRecordsDirectory(entry.name)
  }
})

const removeStaging = Effect.fnUntraced(function* (name: string) {
  const files = yield* RegistryFiles
  for (const entry of Option.getOrElse(yield* files.list(name), () => [])) {
    yield* files.unlink(name, entry.name)
  }
  yield* files.removeDirectory(name)
})

/** Removes what interrupted creations have left; it was checked before. */
export const removeArtifacts = Effect.fnUntraced(function* () {
  const files = yield* RegistryFiles
  for (const entry of Option.getOrElse(yield* files.list("state"), () => [])) {
    if (isStaging(entry)) yield* removeStaging(entry.name)
    if (isHeaderTemporary(entry)) yield* files.unlink("state", entry.name)
  }
})

/** Replaces the header: created beside it, synced, renamed, the directory synced. */
const replaceHeader = Effect.fnUntraced(function* (content: object) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  const temporary = `.${headerName}-${yield* uuid}`
  yield* files.create("state", temporary, JSON.stringify(content))
  yield* files.rename("state", temporary, headerName)
  yield* files.sync("state")
})

/** Sets aside a records/ that never was activated. Records in it cannot come of an empty snapshot, so they refuse. */
const retire = Effect.fnUntraced(function* (entries: ReadonlyArray<RegistryEntry>) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  yield* checkRecordsDirectory("records")
  const record = entries.find(({ name }) => roleInRecords(name) === "record")
  if (record !== undefined) {
    return yield* new RegistryFileFailed({
      step: "check",
      path: `records/${record.name}`,
      why: "it stands beside a version-1 header without sandboxes: restore the header that belongs to it"
    })
  }
  yield* files.rename("state", "records", `.records-retired-${yield* uuid}`)
  yield* files.sync("state")
})

/** Puts an empty records/ in place and activates it. */
export const activate = Effect.fnUntraced(function* (owner: NodeId) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  const unactivated = yield* files.list("records")
  if (Option.isSome(unactivated)) yield* retire(unactivated.value)
  const staging = `.records-${yield* uuid}`
  yield* files.makeDirectory(staging)
  yield* files.create(staging, metaName, JSON.stringify({ version: 2, owner }))
  yield* files.sync(staging)
  yield* files.rename("state", staging, "records")
  yield* files.sync("state")
  yield* replaceHeader({ version: 2, owner, sandboxes: {} })
})

/** The first header of a fresh directory: from here on an interruption is an unfinished migration of nothing. */
export const begin = (owner: NodeId) => replaceHeader({ version: 1, owner, sandboxes: {} })
