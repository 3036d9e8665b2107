/** The steps that end a machine and keep it: its executions are asked to end, then its guest is ended, and proved so. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { guestStopGraceMillis, quiesceMillisMax, quiescePollMillis } from "../Bounds.ts"
import { proveAbsence } from "../guests/absence.ts"
import { cancelExecutionsOf } from "../leases/cancellation.ts"
import { LeaseStore } from "../leases/LeaseStore.ts"
import { finalizeProvenGone } from "../leases/settlement.ts"
import { stopSandbox } from "../registry/lifecycle.ts"
import type { MachineRecipe } from "../runtimes/Runtime.ts"
import { machineToBuild, requireCarriedHere } from "./machineRecipes.ts"
import type { MachineAct, MachineSteps } from "./machineServices.ts"
import { nothingMore } from "./plan.ts"

/** Asks every execution of the Project to end, and waits for it up to `quiesceMillisMax`; the stop ends the rest. */
export const quiesce: MachineAct = Effect.fnUntraced(function* (operation) {
  const leases = yield* LeaseStore
  yield* cancelExecutionsOf(operation.project)
  yield* Effect.repeat(leases.ofProject(operation.project), {
    until: (left) => left.length === 0,
    schedule: Schedule.spaced(quiescePollMillis),
    times: Math.ceil(quiesceMillisMax / quiescePollMillis)
  })
  return nothingMore
})

/**
 * Ends the guest of a machine that is kept. Executions that are not known to have ended are known to be gone with it.
 * Source: SP-LEASE-06.
 */
export const endGuest = Effect.fnUntraced(function* ({ generation, sandbox }: MachineRecipe) {
  const observation = yield* stopSandbox(sandbox, { graceMillis: guestStopGraceMillis })
  const observedAtMillis = yield* Clock.currentTimeMillis
  yield* finalizeProvenGone(
    yield* Effect.fromResult(proveAbsence(sandbox, observation, { observedAtMillis, generation }))
  )
})

const stop: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const recipe = yield* machineToBuild(operation)
  yield* requireCarriedHere(operation, recipe)
  yield* endGuest(recipe)
  yield* recorder.log(`${recipe.sandbox} is stopped`)
  return { flags: ["stopped"] }
})

/** Steps and weights of a stop. Source: SP figures. */
export const stopSteps: MachineSteps = [
  ["quiesce", 1, quiesce],
  ["stop", 2, stop]
]
