/**
 * What one run changes in its environment's config for itself: a warm native runner wants its sandbox back in the next
 * turn, whatever the environment says. The overlay lives in the acquisition alone and is never stored.
 * Source: RL-REUSE-07, RL-REUSE-08.
 */
import { Environment, type RunnerLifecycle } from "../environments/Environment.ts"
import { nativeRunnerAdapter } from "../work/Work.ts"

/** The environment as this run sees it; only a sandbox with a native runner that stays warm sees another one. */
export const resolveRunnerEnvironmentForRun = (
  environment: Environment,
  adapterType: string | null,
  lifecycle: RunnerLifecycle
): Environment =>
  environment.driver === "sandbox" &&
  adapterType === nativeRunnerAdapter &&
  lifecycle.lifecycleMode === "warm"
    ? new Environment({
        ...environment,
        config: { ...environment.config, reuseLease: true, runnerLifecycleMode: "warm" }
      })
    : environment
