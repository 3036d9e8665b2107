/**
 * The steps that bring a workspace back from a snapshot: on a disk of its own, for a machine of its own, beside the old
 * one, which is stopped and otherwise as it was until the new one answers. Room for both is reserved before the old one
 * is stopped. Up to the switch a failure takes the new machine and its disk back; from the switch on every way goes
 * forward only, and the old machine goes with proof. Source: SP-OPS-03, SP-OPS-04, SP-OPS-06, SP figures.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { guestReadyMillisMax, guestReadyPollMillis } from "../Bounds.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import * as Schedule from "effect/Schedule"
import * as Struct from "effect/Struct"
import { Identifiers } from "../Identifiers.ts"
import { fitsCapacity } from "../registry/charges.ts"
import { createSandbox } from "../registry/creation.ts"
import { startSandbox } from "../registry/lifecycle.ts"
import { Registry } from "../registry/Registry.ts"
import { Disks } from "../runtimes/Disks.ts"
import { MachineRecipe } from "../runtimes/Runtime.ts"
import { SnapshotRows } from "../runtimes/SnapshotRows.ts"
import { WorkspaceCopies } from "../runtimes/WorkspaceCopies.ts"
import {
  nextRecipe,
  presentMachine,
  requestOf,
  requireBuildable,
  requireCarriedHere
} from "./machineRecipes.ts"
import type { MachineAct, MachineSteps, MachineTakeBack } from "./machineServices.ts"
import { isSwitched, type Operation } from "./Operation.ts"
import { OperationRefused, replacedMeanwhile } from "./OperationRefused.ts"
import { nothingMore } from "./plan.ts"
import { deleteMachine } from "./replaceSteps.ts"
import { snapshotAsked, snapshotRefused } from "./snapshotSteps.ts"
import { endGuest, quiesce as quiesceExecutions } from "./stopSteps.ts"

const readySnapshot = Effect.fnUntraced(function* (operation: Operation) {
  const id = yield* snapshotAsked(operation)
  const found = Option.getOrUndefined(yield* (yield* SnapshotRows).byId(operation.project, id))
  if (found?.state === "ready") return found
  return yield* snapshotRefused(operation, "snapshot_not_found", `it has no snapshot ${id} to restore`)
})

/** The machine that the operation has begun to make. */
const nextMachine = ({ newRecipe, project }: Operation) =>
  newRecipe === null
    ? Effect.fail(
        new OperationRefused({ project, code: "generation_conflict", why: "its next machine is not known" })
      )
    : Effect.succeed(newRecipe)

/** Both machines are there for a while, so the node has to have room for one more. Source: RG-BUD-04. */
const requireRoom = Effect.fnUntraced(function* ({ cpuMillis, memoryBytes }: MachineRecipe) {
  const registry = yield* Registry
  const needed = { sandboxes: 1, cpuMillis, memoryBytes }
  yield* Effect.fromResult(fitsCapacity(yield* registry.charges, needed, registry.capacity))
})

/** A machine like the old one, on an empty disk; a directory that the old one has adopted stays as it is. */
const recipeBeside = Effect.fnUntraced(function* (operation: Operation, old: MachineRecipe) {
  const { uuid } = yield* Identifiers
  const disk = (yield* Disks).pathOf(operation.project, yield* uuid)
  const next = yield* nextRecipe(operation, old)
  return new MachineRecipe({ ...Struct.omit(next, ["adoptedDisk"]), disks: [disk] })
})

/** Everything that can refuse is asked before the old machine is touched, and the new one's place is reserved. */
const quiesce: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  if (isSwitched(operation)) return nothingMore
  const old = yield* presentMachine(operation)
  yield* requireCarriedHere(operation, old)
  const snapshot = yield* readySnapshot(operation)
  yield* requireCarriedHere(operation, snapshot.recipe)
  const isBegun = operation.newRecipe !== null && operation.flags.includes("creating")
  const next = isBegun ? yield* nextMachine(operation) : yield* recipeBeside(operation, old)
  yield* requireBuildable(operation, next)
  if (!isBegun) {
    yield* requireRoom(next)
    yield* recorder.record({ newRecipe: next, flags: ["creating"] })
  }
  yield* Effect.forEach(next.disks, (yield* Disks).ensure, { discard: true })
  yield* createSandbox(requestOf(operation.project, next))
  return yield* quiesceExecutions(operation, recorder)
})

const stop: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  if (isSwitched(operation)) return nothingMore
  const old = yield* presentMachine(operation)
  yield* requireCarriedHere(operation, old)
  yield* endGuest(old)
  yield* recorder.recordMove({ flags: ["stopped"] }, (store) =>
    store.observe(operation.project, {
      generation: old.generation,
      observed: "stopped",
      reason: "its workspace is being restored"
    })
  )
  yield* recorder.log(`${old.sandbox} is stopped`)
  return { flags: ["stopped"] }
})

/** The new disk is filled while no guest has it: what a crash left of it is made anew. */
const importDisk: MachineAct = Effect.fnUntraced(function* (operation) {
  if (operation.flags.includes("imported")) return nothingMore
  const copies = yield* WorkspaceCopies
  const snapshot = yield* readySnapshot(operation)
  const { disks } = yield* nextMachine(operation)
  for (const disk of disks) {
    yield* copies.discard(disk)
    yield* copies.copy({ from: snapshot.path, to: disk })
    yield* copies.publish(disk)
  }
  return { flags: ["imported"] }
})

const guest: MachineAct = Effect.fnUntraced(function* (operation) {
  yield* createSandbox(requestOf(operation.project, yield* nextMachine(operation)))
  return nothingMore
})

/** Up, and seen to answer: the old machine is given up for nothing less. */
const boot: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const { sandbox } = yield* nextMachine(operation)
  const supervisor = yield* GuestSupervisor
  yield* startSandbox(sandbox)
  yield* supervisor.ping(sandbox).pipe(
    Effect.retry({
      schedule: Schedule.spaced(guestReadyPollMillis),
      times: Math.ceil(guestReadyMillisMax / guestReadyPollMillis)
    })
  )
  yield* recorder.log(`${sandbox} is up`)
  return nothingMore
})

/** One transaction: the runtime names the new machine, and the receipt owes the old one. */
const switchOver: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  if (isSwitched(operation)) return nothingMore
  const { initiator, project } = operation
  const next = yield* nextMachine(operation)
  const old = yield* presentMachine(operation)
  const isMoved = yield* recorder.recordMove({ oldRecipe: old, flags: ["switched"] }, (store) =>
    Effect.gen(function* () {
      if (!(yield* store.replaceMachine(project, { from: old.generation, recipe: next }))) return false
      return yield* store.begin(project, {
        generation: next.generation,
        desired: "running",
        observedMeanwhile: "running",
        isManual: initiator !== "system"
      })
    })
  )
  if (isMoved) return nothingMore
  return yield* replacedMeanwhile(operation)
})

/** The old machine goes with proof, and its disks only behind that. Source: BX-02. */
const cleanup: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const disks = yield* Disks
  const { newRecipe, oldRecipe } = operation
  if (oldRecipe === null) return nothingMore
  yield* deleteMachine(operation, oldRecipe, { reason: "replaced", actor: operation.requestKey })
  const kept = newRecipe?.disks ?? []
  const left = oldRecipe.disks.filter((disk) => !kept.includes(disk))
  yield* Effect.forEach(left, disks.remove, { discard: true })
  yield* recorder.log(`${oldRecipe.sandbox} is removed, and ${newRecipe?.sandbox} has taken its place`)
  return { flags: ["removed"] }
})

/** The new machine is proved absent before its disk goes; the old one is not touched. */
export const takeBackRestore: MachineTakeBack = Effect.fnUntraced(function* (operation) {
  if (isSwitched(operation)) return false
  if (operation.newRecipe === null || !operation.flags.includes("creating")) return true
  yield* deleteMachine(operation, operation.newRecipe, { reason: "failed", actor: operation.requestKey })
  const copies = yield* WorkspaceCopies
  yield* Effect.forEach(operation.newRecipe.disks, copies.discard, { discard: true })
  return true
})

/** Steps and weights of a restore. Source: SP figures. */
export const restoreSteps: MachineSteps = [
  ["quiesce", 1, quiesce],
  ["stop", 2, stop],
  ["import", 8, importDisk],
  ["guest", 2, guest],
  ["boot", 2, boot],
  ["switch", 1, switchOver],
  ["cleanup", 1, cleanup]
]
