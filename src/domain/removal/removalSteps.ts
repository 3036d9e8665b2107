/**
 * The plan of the delete operation: stop, guests, storage, records. Every step begins by reading the host's record
 * and the confirmed paths again, so nothing is touched that was not confirmed, whatever happened since the last one.
 * Each act finds what is already gone and proves it again. Source: SP-DEL-07, SP-DEL-10, SP figures.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { deletionsAtOnceMax, guestStopGraceMillis } from "../Bounds.ts"
import { describeProof } from "../guests/AbsenceProof.ts"
import { HistoryStore } from "../history/HistoryStore.ts"
import { RuntimeLog } from "../history/RuntimeLog.ts"
import type { HostProjects } from "../host/Projects.ts"
import type { SandboxId } from "../Identity.ts"
import { requireCarriedHere } from "../operations/machineRecipes.ts"
import type { MachineServices } from "../operations/machineServices.ts"
import type { Operation, OperationResult } from "../operations/Operation.ts"
import type { OperationEvents } from "../operations/OperationEvents.ts"
import { OperationRows } from "../operations/OperationStore.ts"
import { type Act as StepAct, type ActionPlan, bindSteps } from "../operations/plan.ts"
import { publishDurable } from "../operations/claims.ts"
import { deleteMachine } from "../operations/replaceSteps.ts"
import { quiesce } from "../operations/stopSteps.ts"
import { stopSandbox } from "../registry/lifecycle.ts"
import { Registry } from "../registry/Registry.ts"
import { Disks } from "../runtimes/Disks.ts"
import type { MachineRecipe } from "../runtimes/Runtime.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { SnapshotRows } from "../runtimes/SnapshotRows.ts"
import { WorktreeRows } from "../worktrees/WorktreeRows.ts"
import { verifyRemoval } from "./inspection.ts"
import type { SandboxPaths } from "./RemovalPlan.ts"
import { RemovalRecords } from "./RemovalRecords.ts"

export type RemovalServices =
  | MachineServices
  | OperationRows
  | OperationEvents
  | HostProjects
  | HistoryStore
  | RuntimeLog
  | RemovalRecords
  | WorktreeRows
  | SandboxPaths

type Act = StepAct<RemovalServices>

/** Machines of this node, each once. One that another node carries cannot be proved absent from here. */
const machinesHere = Effect.fnUntraced(function* (
  operation: Operation,
  recipes: ReadonlyArray<MachineRecipe>
) {
  const machines = new Map<SandboxId, MachineRecipe>()
  for (const recipe of recipes) {
    yield* requireCarriedHere(operation, recipe)
    machines.set(recipe.sandbox, recipe)
  }
  return machines
})

const stop: Act = Effect.fnUntraced(function* (operation, recorder) {
  const { recipes } = yield* verifyRemoval(operation.project)
  yield* quiesce(operation, recorder)
  const registry = yield* Registry
  const machines = yield* machinesHere(operation, recipes)
  const inventory = yield* registry.inventory
  for (const sandbox of machines.keys()) {
    if (inventory.has(sandbox)) yield* stopSandbox(sandbox, { graceMillis: guestStopGraceMillis })
  }
  return { flags: ["stopped"] }
})

/** Deletes one machine and answers the proof; none where its record was never admitted, so that nothing can be. */
const proveMachineAbsent = Effect.fnUntraced(function* (operation: Operation, sandbox: SandboxId) {
  const proof = yield* deleteMachine(
    operation,
    { sandbox },
    { reason: "project", actor: operation.requestKey }
  )
  return Option.match(proof, {
    onNone: () => `${sandbox}: the node's registry never admitted it and has no state of it`,
    onSome: describeProof
  })
})

const proveAll = Effect.fnUntraced(function* (operation: Operation, recipes: ReadonlyArray<MachineRecipe>) {
  const machines = yield* machinesHere(operation, recipes)
  return yield* Effect.forEach(machines.keys(), (sandbox) => proveMachineAbsent(operation, sandbox), {
    concurrency: deletionsAtOnceMax
  })
})

const guests: Act = Effect.fnUntraced(function* (operation) {
  const { recipes } = yield* verifyRemoval(operation.project)
  const proofs = yield* proveAll(operation, recipes)
  return { flags: ["removed"], message: `${proofs.length} machines are proved absent` }
})

const storage: Act = Effect.fnUntraced(function* (operation) {
  const disks = yield* Disks
  const { confirmed, recipes, snapshots } = yield* verifyRemoval(operation.project)
  for (const recipe of recipes) yield* Effect.forEach(recipe.disks, disks.remove, { discard: true })
  for (const { path, recipe } of snapshots) {
    yield* requireCarriedHere(operation, recipe)
    yield* disks.remove(path)
  }
  // A receipt whose machine is proved absent by now is not read again: its disks go with the root that was confirmed.
  const root = disks.rootOf(operation.project)
  if (confirmed.includes(root)) yield* disks.remove(root)
  return { flags: ["storage-removed"] }
})

/** Clears what the Project has here and settles the operation, all in one transaction. Source: SP-DEL-10. */
const clearRecords = Effect.fnUntraced(function* (operation: Operation, result: OperationResult) {
  const runtimes = yield* RuntimeStore
  const rows = yield* OperationRows
  const records = yield* RemovalRecords
  const snapshots = yield* SnapshotRows
  const worktrees = yield* WorktreeRows
  const history = yield* HistoryStore
  const log = yield* RuntimeLog
  return yield* runtimes.transaction("removal.clearRecords", (store) =>
    Effect.gen(function* () {
      const runtime = yield* store.runtime(operation.project)
      yield* records.clearLeases(operation.project)
      yield* snapshots.clear(operation.project)
      yield* worktrees.clear(operation.project)
      yield* log.clear(operation.project)
      yield* history.queueDeletion(operation.project)
      if (Option.isSome(runtime)) yield* store.remove(operation.project, runtime.value.generation)
      yield* records.trimReceipts
      return yield* rows.settle(operation, { state: "succeeded", result })
    })
  )
})

const records: Act = Effect.fnUntraced(function* (operation) {
  const { absences, confirmed, recipes } = yield* verifyRemoval(operation.project)
  // Of machines that receipts do not owe any more they keep the proof; the others' are said again from the tombstones.
  const proofs = new Set([...absences, ...(yield* proveAll(operation, recipes))])
  yield* publishDurable(yield* clearRecords(operation, { paths: confirmed.toSorted(), proofs: [...proofs] }))
  return {}
})

/** The plan of delete, over the services that are in context now. */
export const removalPlan: Effect.Effect<ActionPlan, never, RemovalServices> = Effect.map(
  Effect.context<RemovalServices>(),
  (context): ActionPlan => ({
    action: "delete",
    desired: "deleted",
    observedMeanwhile: "deleting",
    observedAfter: "deleted",
    observedOnFailure: null,
    steps: bindSteps(context, [
      ["stop", 2, stop],
      ["guests", 2, guests],
      ["storage", 2, storage],
      ["records", 1, records]
    ]),
    settledByLastStep: true
  })
)
