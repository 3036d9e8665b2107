/** The plans of the actions on a machine, over the services that are in context. Source: SP figures. */
import * as Effect from "effect/Effect"
import type { MachineServices, MachineSteps } from "./machineServices.ts"
import { type ActionPlan, bindSteps } from "./plan.ts"
import { rebuildSteps, recoverSteps, restartSteps } from "./replaceSteps.ts"
import { startSteps } from "./startSteps.ts"
import { stopSteps } from "./stopSteps.ts"

/** What a machine that comes up is wanted and observed as. */
const starting = {
  desired: "running",
  observedMeanwhile: "starting",
  observedAfter: "running",
  observedOnFailure: "failed"
} as const

const stopping = {
  desired: "stopped",
  observedMeanwhile: null,
  observedAfter: "stopped",
  observedOnFailure: null
} as const

type Unbound = Omit<ActionPlan, "steps" | "settledByLastStep"> & { readonly steps: MachineSteps }

const unbound: ReadonlyArray<Unbound> = [
  { action: "provision", ...starting, steps: startSteps },
  { action: "start", ...starting, steps: startSteps },
  { action: "stop", ...stopping, steps: stopSteps },
  { action: "restart", ...starting, steps: restartSteps },
  { action: "rebuild", ...starting, steps: rebuildSteps },
  { action: "recover", ...starting, steps: recoverSteps }
]

export const machinePlans: Effect.Effect<ReadonlyArray<ActionPlan>, never, MachineServices> = Effect.map(
  Effect.context<MachineServices>(),
  (context) =>
    unbound.map((plan) => ({ ...plan, steps: bindSteps(context, plan.steps), settledByLastStep: false }))
)
