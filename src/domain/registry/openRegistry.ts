/**
 * Opens the node's registry: makes a fresh version-2 layout durably, migrates a version-1 one, or reads the committed
 * one, and believes nothing that does not agree. It never falls back, never skips a record, and changes nothing when it
 * refuses what it has found. What is found is told by survey.ts; here it is acted on. Source: RG-LAY-04 to RG-LAY-08,
 * RG-MIG, RG-COM-05.
 */
import * as Effect from "effect/Effect"
import { Identifiers } from "../Identifiers.ts"
import { NodeId } from "../Identity.ts"
import { removeArtifacts } from "./artifacts.ts"
import { recordsName } from "./entryRoles.ts"
import { activate, begin } from "./layoutCreation.ts"
import type { SandboxRecord } from "./Record.ts"
import { RegistryFiles, sync, unlink } from "./RegistryFiles.ts"
import { ensureMarker } from "./runtimeOwner.ts"
import {
  type CommittedRegistry,
  type FreshRegistry,
  refuseFile,
  type SnapshotRegistry,
  type Survey,
  surveyRegistry
} from "./survey.ts"

/** What an open answers: the owner, and every retained record. */
export interface OpenedRegistry {
  readonly owner: NodeId
  readonly records: ReadonlyArray<SandboxRecord>
}

/** What was found, unless anything about it is wrong. */
const surveySound = Effect.gen(function* () {
  const found: Survey = yield* surveyRegistry
  const [fault] = found.faults
  return fault === undefined ? found : yield* fault
})

/** Makes the version-2 layout of what the runtime has accepted, and reads it back. */
const initialize = Effect.fnUntraced(function* (found: FreshRegistry | SnapshotRegistry) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  let owner: NodeId
  if (found.layout === "fresh") {
    owner = NodeId.make(yield* uuid)
    yield* begin(owner)
  } else {
    owner = found.owner
    // Its first header may be from a process that died before its sync, and the marker must not outlive it.
    yield* files.carryOut("state", [sync])
  }
  yield* ensureMarker(owner, found.runtime)
  yield* activate(owner, found.layout === "fresh" ? [] : found.records)
  const made = yield* surveySound
  return made.layout === "version 2"
    ? made
    : yield* Effect.die(new Error("a registry that was activated is not of version 2"))
})

/**
 * Makes durable what was read: a process that died between a rename and its sync has left what a crash of the machine
 * would still take back. Only then may anybody act on it, and what was never committed be removed.
 */
const settle = Effect.fnUntraced(function* (found: CommittedRegistry) {
  const files = yield* RegistryFiles
  for (const { kind, path } of found.artifacts) {
    if (kind === "record") yield* files.carryOut(recordsName, [unlink(path.slice(recordsName.length + 1))])
  }
  yield* files.carryOut(recordsName, [sync])
  yield* files.carryOut("state", [sync])
  yield* removeArtifacts
})

const open = Effect.gen(function* () {
  const found = yield* surveySound
  const committed = found.layout === "version 2" ? found : yield* initialize(found)
  yield* settle(committed)
  return { owner: committed.owner, records: committed.records } satisfies OpenedRegistry
})

/**
 * Opens the registry of the state directory. Refused with `RegistryOpenRefused`, which names the path and the
 * reason. Nothing was changed then, unless a write of the layout failed; the next open goes on from what survived.
 * Removes what was never committed only after everything else was found right.
 */
export const openRegistry = Effect.fn("registry.open")(function* () {
  return yield* open.pipe(Effect.catchTag("RegistryFileFailed", (failed) => Effect.fail(refuseFile(failed))))
}, Effect.uninterruptible)
