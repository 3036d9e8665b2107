/** Whether what a run executed at providers has stopped, by evidence alone. Source: RL-STOP-03, U27. */
import * as Effect from "effect/Effect"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { haveAllStopped } from "../environments/receipts.ts"
import type { RunId, TenantId } from "../Identity.ts"

/** True when every provider-backed lease of the run carries matching evidence; a run without one has not stopped by it. */
export const remoteExecutionHasStopped = Effect.fn("runLeases.remoteExecutionHasStopped")(
  (tenant: TenantId, run: RunId) =>
    EnvironmentLeaseStore.use((store) => store.listLeases({ tenant, run })).pipe(Effect.map(haveAllStopped))
)
