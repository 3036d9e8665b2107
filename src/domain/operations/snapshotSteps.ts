/**
 * The steps that copy a runtime's workspace: its row first, then the copy of a workspace that nobody writes to, then the
 * row again. A running guest stands still for the copy alone and goes on before anything else is done. What somebody
 * did to the guest meanwhile makes the copy worthless, and it is not kept. Source: SP-OPS-03, SP-OPS-06, SP figures.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { projectSnapshotsMax } from "../Bounds.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { Identifiers } from "../Identifiers.ts"
import type { SnapshotId } from "../Identity.ts"
import type { SandboxRecord } from "../registry/Record.ts"
import { Registry } from "../registry/Registry.ts"
import { Disks } from "../runtimes/Disks.ts"
import { type MachineRecipe, workspaceOf } from "../runtimes/Runtime.ts"
import { type Snapshot, SnapshotRows } from "../runtimes/SnapshotRows.ts"
import { WorkspaceCopies } from "../runtimes/WorkspaceCopies.ts"
import { letLeftBehindGoOn, whilePaused } from "./guestPause.ts"
import { presentMachine, requireCarriedHere } from "./machineRecipes.ts"
import type { MachineAct, MachineSteps, MachineTakeBack } from "./machineServices.ts"
import type { Operation } from "./Operation.ts"
import { OperationRefused } from "./OperationRefused.ts"
import { nothingMore, type StepRecorder } from "./plan.ts"
import { removeCopy } from "./snapshotRemoval.ts"

export const snapshotRefused = (
  { project }: Pick<Operation, "project">,
  code: OperationRefused["code"],
  why: string
) => new OperationRefused({ project, code, why })

/** The snapshot that the operation is about. Admission lets none through without. */
export const snapshotAsked = (operation: Operation): Effect.Effect<SnapshotId, OperationRefused> =>
  operation.parameters.snapshot === undefined
    ? Effect.fail(snapshotRefused(operation, "snapshot_not_found", "the operation names no snapshot"))
    : Effect.succeed(operation.parameters.snapshot)

const find = Effect.fnUntraced(function* (operation: Operation) {
  const rows = yield* SnapshotRows
  return Option.getOrUndefined(yield* rows.byId(operation.project, yield* snapshotAsked(operation)))
})

/** The row that this operation has made and may go on with. */
const ownSnapshot = Effect.fnUntraced(function* (operation: Operation) {
  const found = yield* find(operation)
  if (found !== undefined && found.operation === operation.id && found.state !== "removing") return found
  return yield* snapshotRefused(
    operation,
    found === undefined ? "snapshot_not_found" : "snapshot_exists",
    found === undefined ? "the row of its snapshot is gone" : "another snapshot has the name"
  )
})

const insertRow = Effect.fnUntraced(function* (
  operation: Operation,
  recorder: StepRecorder,
  { id, path, recipe }: { readonly id: SnapshotId; readonly path: string; readonly recipe: MachineRecipe }
) {
  const rows = yield* SnapshotRows
  const { account, generation, id: operationId, project } = operation
  let isFull = false
  const isNoted = yield* recorder.recordMove(nothingMore, (store) =>
    Effect.gen(function* () {
      // Whoever counts and adds meets here.
      yield* store.runtime(project)
      isFull = (yield* rows.ofProject(project)).length >= projectSnapshotsMax
      if (isFull) return false
      return yield* rows.insert({ project, id, path, generation, recipe, operation: operationId, account })
    })
  )
  if (isNoted) return
  return yield* isFull
    ? snapshotRefused(
        operation,
        "snapshots_full",
        `it has ${projectSnapshotsMax} snapshots, as many as it may: delete one first`
      )
    : snapshotRefused(operation, "snapshot_exists", `it has a snapshot ${id} already, or one that is going`)
})

/** Where the copy will lie is durable before anything of it is made. Source: BX-01. */
const quiesce: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const found = yield* find(operation)
  if (found?.operation === operation.id && found.state !== "removing") return nothingMore
  const recipe = yield* presentMachine(operation)
  yield* requireCarriedHere(operation, recipe)
  if (workspaceOf(recipe) === undefined) {
    return yield* snapshotRefused(operation, "no_safe_copy", "its machine has no workspace on a disk")
  }
  const path = (yield* Disks).pathOf(operation.project, yield* (yield* Identifiers).uuid)
  yield* insertRow(operation, recorder, { id: yield* snapshotAsked(operation), path, recipe })
  return nothingMore
})

/** What the record knows of its guest's life: whatever is done to the guest makes it another. */
const lifeOf = ({ attemptId, history, status }: SandboxRecord): string =>
  JSON.stringify([attemptId, status, history ?? []])

const standing = ["Paused", "Gone"]

/** Copies a workspace whose guest stands still or is gone, and sees whether it was so for the whole time. */
const copyStanding = Effect.fnUntraced(function* (
  operation: Operation,
  { path, recipe }: Snapshot,
  from: string
) {
  const registry = yield* Registry
  const supervisor = yield* GuestSupervisor
  const copies = yield* WorkspaceCopies
  const look = Effect.gen(function* () {
    const seen = yield* supervisor.inspect(recipe.sandbox)
    return { seen: seen._tag, life: lifeOf(yield* registry.get(recipe.sandbox)) }
  })
  const before = yield* look
  if (!standing.includes(before.seen)) {
    return yield* snapshotRefused(
      operation,
      "no_safe_copy",
      `its guest is seen as ${before.seen.toLowerCase()}: it neither stands still nor is it gone`
    )
  }
  yield* copies.copy({ from, to: path })
  const after = yield* look
  if (after.seen === before.seen && after.life === before.life) return
  return yield* snapshotRefused(
    operation,
    "no_safe_copy",
    "somebody paused, resumed, started or ended its guest while its workspace was copied"
  )
})

/** The running guest stands still for the copy, which is why the note goes first. */
const copyPaused = Effect.fnUntraced(function* (
  operation: Operation,
  recorder: StepRecorder,
  { from, snapshot }: { readonly from: string; readonly snapshot: Snapshot }
) {
  const rows = yield* SnapshotRows
  const { capabilities } = yield* GuestSupervisor
  if (!capabilities.pause) {
    return yield* snapshotRefused(
      operation,
      "pause_unavailable",
      "guests of this node cannot be paused: stop it first, then its workspace can be copied"
    )
  }
  const pausedBy = `${operation.id}/${operation.claimSequence}`
  const isNoted = yield* recorder.recordMove(nothingMore, () => rows.markPaused(snapshot.rowId, pausedBy))
  if (!isNoted) {
    return yield* snapshotRefused(operation, "no_safe_copy", "somebody else is at work on its snapshot")
  }
  yield* whilePaused({ snapshot, pausedBy }, copyStanding(operation, snapshot, from))
  yield* recorder.log(`the workspace is copied, and ${snapshot.recipe.sandbox} goes on`)
})

const capture: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const snapshot = yield* ownSnapshot(operation)
  yield* requireCarriedHere(operation, snapshot.recipe)
  yield* letLeftBehindGoOn(snapshot)
  const disks = yield* Disks
  // What has its own name is whole.
  if (snapshot.state === "ready" || (yield* disks.exists(snapshot.path))) return nothingMore
  const { sandbox } = snapshot.recipe
  const from = workspaceOf(snapshot.recipe)
  if (from === undefined) return nothingMore
  const observed = yield* (yield* GuestSupervisor).inspect(sandbox)
  yield* observed._tag === "Running"
    ? copyPaused(operation, recorder, { snapshot, from })
    : copyStanding(operation, snapshot, from)
  yield* (yield* WorkspaceCopies).publish(snapshot.path)
  return nothingMore
})

const record: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const rows = yield* SnapshotRows
  const snapshot = yield* ownSnapshot(operation)
  if (snapshot.state === "ready") return nothingMore
  const bytes = yield* (yield* WorkspaceCopies).bytesOf(snapshot.path)
  const isReady = yield* recorder.recordMove({ message: `${bytes} bytes` }, (store) =>
    Effect.andThen(
      store.runtime(operation.project),
      rows.markReady(snapshot.rowId, { operation: operation.id, bytes })
    )
  )
  if (isReady) return nothingMore
  return yield* snapshotRefused(operation, "snapshot_not_found", "the row of its snapshot is gone")
})

/** Whatever failed, the guest goes on first; then the copy and its row go. */
export const takeBackSnapshot: MachineTakeBack = Effect.fnUntraced(function* (operation) {
  const found = yield* find(operation)
  if (found === undefined || found.operation !== operation.id) return true
  yield* letLeftBehindGoOn(found)
  if (found.state === "ready") return false
  yield* removeCopy(found, { by: operation.account ?? "system", reason: "its capture failed" })
  return true
})

/** Steps and weights of a snapshot. Source: SP figures. */
export const snapshotSteps: MachineSteps = [
  ["quiesce", 1, quiesce],
  ["capture", 8, capture],
  ["record", 1, record]
]
