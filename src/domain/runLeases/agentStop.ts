/**
 * Stopping agents: their live runs are cancelled, what those hold is released, and what was retained for them is destroyed.
 * Source: RL-DESTROY-09.
 */
import * as Effect from "effect/Effect"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import type { AgentId, RunId } from "../Identity.ts"
import { WorkStore } from "../work/WorkStore.ts"
import { destroyLease } from "./destruction.ts"
import { releaseRunLeases } from "./runRelease.ts"

/** Ends one run and releases what it holds; false where a lease of it is still owed or was not released. */
const stopRun = Effect.fnUntraced(function* (run: RunId, reason: string) {
  let faults = 0
  yield* WorkStore.use((work) => work.setRunStatus(run, { status: "cancelled", errorCode: reason }))
  const released = yield* releaseRunLeases(run, {
    status: "failed",
    cancelActiveWork: true,
    onError: () => Effect.sync(() => void (faults += 1))
  })
  return faults === 0 && released.every(({ lease }) => lease.status !== "pending_cleanup")
})

const stopAgent = Effect.fnUntraced(function* (agent: AgentId, reason: string) {
  const runs = yield* WorkStore.use((work) => work.liveRunsOf(agent))
  const stopped = yield* Effect.forEach(runs, ({ id }) => stopRun(id, reason))
  const leases = yield* EnvironmentLeaseStore.use((store) => store.ofAgent(agent))
  const fates = yield* Effect.forEach(leases, (lease) => destroyLease(lease, null, "agent_stop"))
  const areGone = fates.every((fate) => fate._tag === "claimed" && fate.lease.status !== "pending_cleanup")
  return areGone && stopped.every((each) => each)
})

/**
 * Stops the agents, whose runs end as `cancelled` with the reason as their error code. True when nothing that they held is
 * left to be ended; what is left stays owed, and the sweep goes on with it.
 */
export const stopInvocationsForAgents = Effect.fn("runLeases.stopInvocationsForAgents")(function* (
  agents: ReadonlyArray<AgentId>,
  reason: string
) {
  const stopped = yield* Effect.forEach(agents, (agent) => stopAgent(agent, reason))
  return stopped.every((each) => each)
})
