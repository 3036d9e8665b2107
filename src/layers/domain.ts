/**
 * The domain's programs with their ports still open: what a library consumer starts from. Give it adapters (ours from
 * infra, or your own) and it carries out operations; layers/live.ts is the product's own choice of them.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Desktops } from "../domain/desktop/Desktops.ts"
import { HeldLeases } from "../domain/leases/HeldLeases.ts"
import { Executions } from "../domain/operations/Executions.ts"
import { machinePlans } from "../domain/operations/machinePlans.ts"
import { OperationEvents } from "../domain/operations/OperationEvents.ts"
import { OperationPlans } from "../domain/operations/plan.ts"
import { removalPlan } from "../domain/removal/removalSteps.ts"
import { SampleBatches } from "../domain/sampling/SampleBatches.ts"

/** The plans of every action that this version carries out, over the services in context. */
export const plans = Layer.effect(
  OperationPlans,
  Effect.gen(function* () {
    const all = [...(yield* machinePlans), yield* removalPlan]
    return { planOf: (action) => all.find((plan) => plan.action === action) }
  })
)

/** Signals, held leases, batches of samples, plans, desktops and the running operations of one process. */
export const layer = Layer.mergeAll(Executions.layer, Desktops.layer).pipe(
  Layer.provideMerge(plans),
  Layer.provideMerge(Layer.mergeAll(OperationEvents.layer, HeldLeases.layer, SampleBatches.layer))
)
