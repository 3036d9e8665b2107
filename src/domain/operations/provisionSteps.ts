/**
 * The steps that give a Project its machine. Where its row names one already, which did not come up or has failed, the
 * new one takes its place as a rebuild does: the old one is proved absent before the row names the new one, under the next
 * generation and with the same workspace. So a Project has one machine at a time. Source: SP-OPS-03, SP figures.
 */
import * as Effect from "effect/Effect"
import type { MachineAct, MachineSteps } from "./machineServices.ts"
import { namedMachine, provisionedRecipe, requireBuildable, requireCarriedHere } from "./machineRecipes.ts"
import type { DeletionWish } from "../registry/removal.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { isSwitched, machineOf, type Operation } from "./Operation.ts"
import { OperationRows } from "./OperationStore.ts"
import { nothingMore } from "./plan.ts"
import { deleteMachine, replace } from "./replaceSteps.ts"
import { startSteps } from "./startSteps.ts"

/**
 * What requests that were given up have left behind and no row names is proved absent first: nobody else ends it as long as
 * the Project lives.
 */
const endOwed = Effect.fnUntraced(function* (operation: Operation, wish: DeletionWish) {
  const runtimes = yield* RuntimeStore
  const rows = yield* OperationRows
  const owing = yield* runtimes.snapshot("operations.owed", () => rows.owing(operation.project))
  const machines = owing.flatMap(({ newRecipe, oldRecipe, owed }) =>
    [oldRecipe, newRecipe].flatMap((recipe) =>
      recipe !== null && owed.includes(machineOf(recipe)) ? [recipe] : []
    )
  )
  for (const machine of machines) {
    yield* requireCarriedHere(operation, machine)
    yield* deleteMachine(operation, machine, wish)
  }
})

/** The recipe is durable, marked as being made, before anything of it exists. Source: BX-01. */
const image: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const { newRecipe, oldRecipe, requestKey } = operation
  if (isSwitched(operation)) return nothingMore
  const old = oldRecipe ?? (newRecipe === null ? yield* namedMachine(operation) : null)
  const wish = { reason: "replaced", actor: requestKey } as const
  if (old !== null) {
    yield* requireCarriedHere(operation, old)
    yield* replace(operation, recorder, { old, wish, makeNext: provisionedRecipe })
    return nothingMore
  }
  const recipe = newRecipe ?? (yield* provisionedRecipe(operation, null))
  yield* requireCarriedHere(operation, recipe)
  yield* requireBuildable(operation, recipe)
  if (newRecipe !== null) return nothingMore
  yield* endOwed(operation, wish)
  yield* recorder.record({ newRecipe: recipe, flags: ["creating"] })
  return nothingMore
})

/** Steps and weights of a provision: those of a start. Source: SP figures. */
export const provisionSteps: MachineSteps = [["image", 10, image], ...startSteps.slice(1)]
