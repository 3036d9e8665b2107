/** The plans of the actions on a machine, over the services that are in context. Source: SP figures. */
import * as Effect from "effect/Effect"
import type { MachineServices, MachineSteps, MachineTakeBack } from "./machineServices.ts"
import { type ActionPlan, bindSteps, bindTakeBack } from "./plan.ts"
import { provisionSteps } from "./provisionSteps.ts"
import { rebuildSteps, recoverSteps, restartSteps } from "./replaceSteps.ts"
import { restoreSteps, takeBackRestore } from "./restoreSteps.ts"
import { snapshotSteps, takeBackSnapshot } from "./snapshotSteps.ts"
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

/** A machine that is as it was, unless a step says something else of it. */
const unchanged = {
  desired: null,
  observedMeanwhile: null,
  observedAfter: null,
  observedOnFailure: null
} as const

type Unbound = Omit<ActionPlan, "steps" | "settledByLastStep" | "takeBack"> & {
  readonly steps: MachineSteps
  readonly takeBack?: MachineTakeBack
}

const unbound: ReadonlyArray<Unbound> = [
  { action: "provision", ...starting, steps: provisionSteps },
  { action: "start", ...starting, steps: startSteps },
  { action: "stop", ...stopping, steps: stopSteps },
  { action: "restart", ...starting, steps: restartSteps },
  { action: "rebuild", ...starting, steps: rebuildSteps },
  { action: "recover", ...starting, steps: recoverSteps },
  { action: "snapshot", ...unchanged, steps: snapshotSteps, takeBack: takeBackSnapshot },
  { action: "restore", ...unchanged, steps: restoreSteps, takeBack: takeBackRestore }
]

export const machinePlans: Effect.Effect<ReadonlyArray<ActionPlan>, never, MachineServices> = Effect.map(
  Effect.context<MachineServices>(),
  (context) =>
    unbound.map(({ takeBack, ...plan }) => ({
      ...plan,
      steps: bindSteps(context, plan.steps),
      settledByLastStep: false,
      ...(takeBack === undefined ? {} : { takeBack: bindTakeBack(context, takeBack) })
    }))
)
