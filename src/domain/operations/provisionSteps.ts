/**
 * The steps that give a Project its machine. Where its row names one already, which did not come up or has failed, the
 * new one takes its place as any other does: the old one is proved absent before the row names the new one, under the next
 * generation and with the same workspace. So a Project has one machine at a time. Source: SP-OPS-03, SP figures.
 */
import * as Effect from "effect/Effect"
import type { MachineAct, MachineSteps } from "./machineServices.ts"
import { namedMachine, provisionedRecipe, requireBuildable, requireCarriedHere } from "./machineRecipes.ts"
import { isSwitched } from "./Operation.ts"
import { nothingMore } from "./plan.ts"
import { replace } from "./replaceSteps.ts"
import { startSteps } from "./startSteps.ts"

/** The recipe is durable, marked as being made, before anything of it exists. Source: BX-01. */
const image: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const { newRecipe, oldRecipe, requestKey } = operation
  const named = yield* namedMachine(operation)
  const old = oldRecipe ?? (newRecipe === null ? named : null)
  if (isSwitched(operation)) return nothingMore
  if (old !== null) {
    yield* requireCarriedHere(operation, old)
    const wish = { reason: "replaced", actor: requestKey } as const
    yield* replace(operation, recorder, { old, wish, makeNext: provisionedRecipe })
    return nothingMore
  }
  const recipe = newRecipe ?? (yield* provisionedRecipe(operation, null))
  yield* requireCarriedHere(operation, recipe)
  yield* requireBuildable(operation, recipe)
  if (newRecipe === null) yield* recorder.record({ newRecipe: recipe, flags: ["creating"] })
  return nothingMore
})

/** Steps and weights of a provision: those of a start. Source: SP figures. */
export const provisionSteps: MachineSteps = [["image", 10, image], ...startSteps.slice(1)]
