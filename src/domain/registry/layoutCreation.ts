/**
 * Makes and activates the version-2 layout, in steps that may die anywhere. A fresh directory first gets a version-1
 * header of nothing: an interrupted creation is then always the migration of an empty version-1 snapshot, which the
 * next open does again, and a missing header beside records/ never means a beginning.
 *
 *     header v1 ─► runtime/owner.json ─► unactivated records/ aside ─► staging: meta.json and every record, synced
 *               ─► renamed to records/, synced ─► header v2, synced = activation
 *
 * Until the last rename the version-1 header is the registry, and whatever else is there is done again from it; after
 * it there is no way back. An activation whose outcome is unknown fails the open, and the next one reads the header
 * that survived. Source: RG-MIG-01 to RG-MIG-05.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { registryBatchMax } from "../Bounds.ts"
import { Identifiers } from "../Identifiers.ts"
import type { NodeId } from "../Identity.ts"
import { headerName, metaName, recordsName } from "./entryRoles.ts"
import { observeStep } from "./observeStep.ts"
import type { SandboxRecord } from "./Record.ts"
import { RegistryFileFailed, RegistryFiles, create, rename, sync } from "./RegistryFiles.ts"

const program = "registry.open"

/** Replaces the header: created beside it, synced, renamed, the directory synced. */
const replaceHeader = Effect.fnUntraced(function* (
  steps: { readonly write: string; readonly replace: string; readonly sync: string },
  content: object
) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  const temporary = `.${headerName}-${yield* uuid}`
  yield* observeStep(
    program,
    steps.write,
    files.carryOut("state", [create(temporary, JSON.stringify(content))])
  )
  yield* observeStep(program, steps.replace, files.carryOut("state", [rename(temporary, headerName)]))
  yield* observeStep(program, steps.sync, files.carryOut("state", [sync]))
})

/** The first header of a fresh directory: from here on an interruption is an unfinished migration of nothing. */
export const begin = (owner: NodeId) =>
  replaceHeader(
    { write: "write the first header", replace: "place the first header", sync: "sync the first header" },
    { version: 1, owner, sandboxes: {} }
  )

/** Sets aside a records/ that never was activated; whatever it holds, the version-1 header is the registry. */
const retire = Effect.gen(function* () {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  if (Option.isNone(yield* files.list(recordsName))) return
  const retired = `.records-retired-${yield* uuid}`
  yield* observeStep(program, "set records/ aside", files.carryOut("state", [rename(recordsName, retired)]))
  yield* observeStep(program, "sync what was set aside", files.carryOut("state", [sync]))
})

/** Owner metadata and every record, each synced, in a directory of its own, which is synced too. */
const stage = Effect.fnUntraced(function* (owner: NodeId, records: ReadonlyArray<SandboxRecord>) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  const staging = `.records-${yield* uuid}`
  yield* observeStep(program, "make the staging directory", files.makeDirectory(staging))
  yield* observeStep(
    program,
    "stage the metadata",
    files.carryOut(staging, [create(metaName, JSON.stringify({ version: 2, owner }))])
  )
  yield* Effect.forEach(
    records,
    (record) =>
      observeStep(
        program,
        "stage a record",
        files.carryOut(staging, [create(`${record.id}.json`, JSON.stringify({ version: 2, owner, record }))])
      ),
    { concurrency: registryBatchMax, discard: true }
  )
  yield* observeStep(program, "sync the staging directory", files.carryOut(staging, [sync]))
  return staging
})

const uncertain = ({ path, step, why }: RegistryFileFailed) =>
  new RegistryFileFailed({
    step,
    path,
    why: `${why}: whether version 2 is activated is uncertain, and the next open reads the header that survived`
  })

/**
 * Puts these records in place as records/ and activates them. The runtime has accepted the owner, and its marker is
 * durable.
 */
export const activate = Effect.fnUntraced(function* (owner: NodeId, records: ReadonlyArray<SandboxRecord>) {
  const files = yield* RegistryFiles
  yield* retire
  const staging = yield* stage(owner, records)
  yield* observeStep(program, "place records/", files.carryOut("state", [rename(staging, recordsName)]))
  yield* observeStep(program, "sync records/", files.carryOut("state", [sync]))
  yield* replaceHeader(
    { write: "write the header", replace: "activate", sync: "sync the activation" },
    { version: 2, owner, sandboxes: {} }
  ).pipe(Effect.mapError(uncertain))
})
