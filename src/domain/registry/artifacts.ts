/**
 * What interrupted creations, migrations and writes have left beside the registry: found and checked before anything
 * is changed, removed after everything else was found right. Their content does not matter and is never read. Source:
 * RG-MIG-03, RG-MIG-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { roleInRecords, roleInState, unknownName } from "./entryRoles.ts"
import { type RegistryEntry, RegistryFileFailed, RegistryFiles, unlink } from "./RegistryFiles.ts"

/** One of them. `path` is relative to the state directory. */
export interface Artifact {
  readonly kind: "staging" | "retired" | "unactivated" | "header" | "record" | "marker"
  readonly path: string
}

const unknown = (path: string) => new RegistryFileFailed({ step: "check", path, why: unknownName })

/** Fails unless the directory holds nothing but private files of the registry; their content does not matter. */
export const checkRecordsDirectory = Effect.fnUntraced(function* (directory: string) {
  const files = yield* RegistryFiles
  for (const { name } of Option.getOrElse(yield* files.list(directory), () => [])) {
    if (roleInRecords(name) === null) return yield* unknown(`${directory}/${name}`)
    yield* files.check(directory, { name, kind: "file" })
  }
})

/** What is left in the state directory, each checked for owner, name and type. Changes nothing. */
export const findArtifacts = Effect.fnUntraced(function* (entries: ReadonlyArray<RegistryEntry>) {
  const files = yield* RegistryFiles
  const found: Array<Artifact> = []
  for (const { name } of entries) {
    const kind = roleInState(name)
    if (kind === null) return yield* unknown(name)
    if (kind === "other") continue
    yield* files.check("state", { name, kind: kind === "header" ? "file" : "directory" })
    if (kind !== "header") yield* checkRecordsDirectory(name)
    found.push({ kind, path: name })
  }
  return found
})

const removeDirectory = Effect.fnUntraced(function* (name: string) {
  const files = yield* RegistryFiles
  for (const entry of Option.getOrElse(yield* files.list(name), () => [])) {
    yield* files.carryOut(name, [unlink(entry.name)])
  }
  yield* files.removeDirectory(name)
})

/** Removes from the state directory what was found there, and what has been set aside since. */
export const removeArtifacts = Effect.gen(function* () {
  const files = yield* RegistryFiles
  for (const { name } of Option.getOrElse(yield* files.list("state"), () => [])) {
    const kind = roleInState(name)
    if (kind === "staging" || kind === "retired") yield* removeDirectory(name)
    if (kind === "header") yield* files.carryOut("state", [unlink(name)])
  }
})
