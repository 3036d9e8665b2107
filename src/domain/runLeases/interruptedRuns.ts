/**
 * Runs whose daemon died: they are over, and so are their leases. What a provider still has of them is destroyed under a
 * reason of its own; what cannot be yet stays owed, and the sweep goes on with it. Source: SP-OPS-02, FC-02, FC-22.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { providerWorkerReadyMillisDefault, providerWorkerReadyPollMillisDefault } from "../Bounds.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { parseProcessIdentity } from "../Identity.ts"
import { Processes } from "../Processes.ts"
import type { SweepCount } from "../SweepReports.ts"
import { DaemonRuns, daemonSourcePrefix } from "../work/DaemonRuns.ts"
import type { Run } from "../work/Work.ts"
import { WorkStore } from "../work/WorkStore.ts"
import { EnvironmentRuntime } from "./EnvironmentRuntime.ts"

/** The error code of such a run, and the reason on what it had leased. */
export const daemonDied = "daemon_died"

const isDead = ({ invocationSource }: Run) =>
  Effect.flatMap(Processes, ({ liveness }) =>
    liveness(parseProcessIdentity(invocationSource.slice(daemonSourcePrefix.length)))
  ).pipe(Effect.map((liveness) => liveness === "dead"))

/** Waits a while for the worker of the lease's provider, where it has one: right after a start it is on its way. */
const awaitOwner = (lease: EnvironmentLease) =>
  lease.provider === null
    ? Effect.void
    : EnvironmentRuntime.use((runtime) => runtime.isPendingCleanupWorkerReady(lease)).pipe(
        Effect.repeat({
          until: (isReady) => isReady,
          schedule: Schedule.spaced(providerWorkerReadyPollMillisDefault)
        }),
        Effect.timeoutOption(providerWorkerReadyMillisDefault),
        Effect.asVoid
      )

/** Answers whether nothing of it is owed any more. */
const endInterrupted = Effect.fnUntraced(
  function* (run: Run) {
    const runtime = yield* EnvironmentRuntime
    const store = yield* EnvironmentLeaseStore
    const leases = (yield* store.listLeases({ tenant: run.tenant, run: run.id })).filter(
      ({ status }) => status === "active"
    )
    yield* Effect.forEach(leases, awaitOwner)
    // From here on the run is over: should this process die too, its leases are abandoned ones.
    yield* WorkStore.use((work) => work.setRunStatus(run.id, { status: "failed", errorCode: daemonDied }))
    yield* runtime.releaseRunLeases(run.id, {
      status: "failed",
      disposition: "destroy",
      ending: { actor: "recovery", reason: daemonDied }
    })
    const left = yield* store.listLeases({ tenant: run.tenant, run: run.id })
    return left.every(({ status }) => status !== "active" && status !== "pending_cleanup")
  },
  Effect.orElseSucceed(() => false)
)

/** One pass over the runs of dead daemons of this node; those of living ones are counted nowhere. */
export const endInterruptedRuns = Effect.fn("runLeases.endInterruptedRuns")(function* () {
  const runs = yield* Effect.flatMap(DaemonRuns, ({ live }) => live)
  const interrupted = yield* Effect.filter(runs, isDead)
  const ended = yield* Effect.forEach(interrupted, endInterrupted)
  const done = ended.filter((isEnded) => isEnded).length
  const count: SweepCount = { attempted: ended.length, done, failed: ended.length - done }
  return count
})
