/**
 * The steps that put another machine in a machine's place. What is built is judged before what is there is touched;
 * the old one is proved absent before the runtime's row names the new one, and the row and the receipt say so in one
 * transaction. From the deletion's intent on the old machine cannot come back, so every way goes forward only.
 * Source: SP-OPS-03, SP-OPS-04, SP figures.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { finalizeProvenGone } from "../leases/settlement.ts"
import { type DeletionWish, deleteSandbox } from "../registry/removal.ts"
import { Registry } from "../registry/Registry.ts"
import type { Identifiers } from "../Identifiers.ts"
import type { Disks } from "../runtimes/Disks.ts"
import type { MachineRecipe } from "../runtimes/Runtime.ts"
import { nextRecipe, presentMachine, requireBuildable, requireCarriedHere } from "./machineRecipes.ts"
import type { MachineAct, MachineSteps } from "./machineServices.ts"
import { type Operation, isSwitched } from "./Operation.ts"
import { replacedMeanwhile } from "./OperationRefused.ts"
import { nothingMore, type StepRecorder } from "./plan.ts"
import { recordMachineAbsent } from "./settlement.ts"
import { startSteps } from "./startSteps.ts"
import { endGuest, quiesce, stopSteps } from "./stopSteps.ts"

type MakeRecipe = (
  operation: Operation,
  old: MachineRecipe
) => Effect.Effect<MachineRecipe, never, Identifiers | Registry | Disks>

/**
 * Deletes the machine and answers the proof of its absence, having noted it on receipts and leases; none where the
 * node's registry never admitted it and has no state of it, so that nothing of it can be.
 */
export const deleteMachine = Effect.fnUntraced(function* (
  operation: Operation,
  { sandbox }: Pick<MachineRecipe, "sandbox">,
  wish: DeletionWish
) {
  const proof = yield* deleteSandbox(sandbox, wish).pipe(
    Effect.asSome,
    Effect.catchTag("SandboxNotFound", () => Effect.succeedNone)
  )
  if (Option.isSome(proof)) {
    yield* recordMachineAbsent(operation.project, proof.value)
    yield* finalizeProvenGone(proof.value)
  }
  return proof
})

/** The old machine goes, with proof, and the next one takes its place in the runtime's row. */
export const replace = Effect.fnUntraced(function* (
  operation: Operation,
  recorder: StepRecorder,
  {
    makeNext = nextRecipe,
    old,
    wish
  }: {
    readonly old: MachineRecipe
    readonly wish: DeletionWish
    /** How the next one is made, unless the receipt has it already; its generation is the one after the old one's. */
    readonly makeNext?: MakeRecipe
  }
) {
  const { project } = operation
  const next = operation.newRecipe ?? (yield* makeNext(operation, old))
  yield* requireBuildable(operation, next)
  if (operation.newRecipe === null) {
    yield* recorder.record({ oldRecipe: old, newRecipe: next, flags: ["creating"] })
  }
  yield* quiesce(operation, recorder)
  yield* deleteMachine(operation, old, wish)
  const isMoved = yield* recorder.recordMove({ flags: ["removed", "switched"] }, (store) =>
    store.replaceMachine(project, { from: old.generation, recipe: next })
  )
  if (!isMoved) return yield* replacedMeanwhile(operation)
  yield* recorder.log(`${old.sandbox} is removed, and ${next.sandbox} takes its place`)
})

const remove: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  if (isSwitched(operation)) return nothingMore
  const old = operation.oldRecipe ?? (yield* presentMachine(operation))
  yield* requireCarriedHere(operation, old)
  yield* replace(operation, recorder, { old, wish: { reason: "replaced", actor: operation.requestKey } })
  return nothingMore
})

const isUp = Effect.fnUntraced(function* (recipe: MachineRecipe) {
  const supervisor = yield* GuestSupervisor
  const observed = yield* supervisor.inspect(recipe.sandbox)
  if (observed._tag !== "Running") return false
  return yield* Effect.match(supervisor.ping(recipe.sandbox), {
    onFailure: () => false,
    onSuccess: () => true
  })
})

/**
 * Makes way for a start: a guest that answers is left alone, one that is half there is ended and proved so. A machine
 * that the node's registry has lost, or has begun to delete, is proved absent and another one takes its place.
 */
const end: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  if (isSwitched(operation)) return nothingMore
  const old = operation.oldRecipe ?? (yield* presentMachine(operation))
  yield* requireCarriedHere(operation, old)
  const record = (yield* (yield* Registry).inventory).get(old.sandbox)
  if (operation.oldRecipe !== null || record === undefined || record.deletion !== null) {
    yield* replace(operation, recorder, { old, wish: { reason: "lost", actor: operation.requestKey } })
    return nothingMore
  }
  if (record.status === "Running" && (yield* isUp(old))) return nothingMore
  yield* endGuest(old)
  return nothingMore
})

/** Steps and weights of a restart, a rebuild and a recovery. Source: SP figures. */
export const restartSteps: MachineSteps = [...stopSteps, ...startSteps]
export const rebuildSteps: MachineSteps = [["remove", 2, remove], ...startSteps]
export const recoverSteps: MachineSteps = [["end", 2, end], ...startSteps]
