/**
 * The scoped loops about run leases. As the others, each reads everything, decides and records, and a pass that fails costs
 * only the time to the next one. Workers come first: without them no provider can be asked.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import {
  cleanupBackoffMillisDefault,
  historyPruneIntervalMillis,
  providerOrphanGraceMillis,
  reconcileIntervalMillis
} from "../domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../domain/environments/EnvironmentLeaseStore.ts"
import { ProjectStore } from "../domain/host/ProjectStore.ts"
import { nodeProviderKey } from "../domain/providers/nodeProvider.ts"
import { EnvironmentRuntime } from "../domain/runLeases/EnvironmentRuntime.ts"
import { endInterruptedRuns } from "../domain/runLeases/interruptedRuns.ts"
import { makeStraySearch } from "../domain/runLeases/strayResources.ts"
import { rekeySecrets } from "../domain/secrets/vault.ts"
import { allDone, reportSweep, type SweepCount } from "../domain/SweepReports.ts"
import { keepInstalledWorkers } from "../infra/providers/keptPlugins.ts"

const lostCreations = Effect.map(
  Effect.flatMap(EnvironmentRuntime, ({ recoverLostCreations }) => recoverLostCreations),
  ({ dropped, found }): SweepCount => allDone(dropped + found)
)

const cleanups = EnvironmentRuntime.use(({ sweepCleanups }) => sweepCleanups(cleanupBackoffMillisDefault))

/** One pass: workers, what dead daemons and lost answers left, then every cleanup that is due. */
const sweep = Effect.gen(function* () {
  yield* reportSweep("provider workers", Effect.map(keepInstalledWorkers(), allDone))
  yield* reportSweep("interrupted runs", endInterruptedRuns())
  yield* reportSweep("lost creations", lostCreations)
  yield* reportSweep("lease cleanups", cleanups)
})

/** The installation's own tenant; a database that is away is asked again. */
const ownTenant = Effect.flatMap(ProjectStore, ({ bootstrap }) => bootstrap).pipe(
  Effect.tapError((failure) => Effect.logWarning(`the search for strays waits: ${failure.message}`)),
  Effect.retry(Schedule.spaced(reconcileIntervalMillis)),
  Effect.map(({ tenant }) => tenant)
)

/** Passes are as far apart as two observations of one stray have to be. */
const straySearch = Effect.gen(function* () {
  const search = yield* makeStraySearch({ own: yield* ownTenant, providers: [nodeProviderKey] })
  return yield* Effect.repeat(
    reportSweep("stray resources", search),
    Schedule.spaced(providerOrphanGraceMillis)
  )
})

/** Boxes of former keys are closed anew, at the start and should a pass have failed; one that no key opens is told. */
const rekeying = reportSweep(
  "secret keys",
  Effect.map(rekeySecrets(), ({ rekeyed, unreadable }): SweepCount => ({
    attempted: rekeyed + unreadable,
    done: rekeyed,
    failed: unreadable
  }))
)

const pruning = reportSweep(
  "ended leases",
  Effect.map(
    Effect.flatMap(EnvironmentLeaseStore, ({ pruneEnded }) => pruneEnded),
    allDone
  )
).pipe(Effect.repeat(Schedule.fixed(historyPruneIntervalMillis)))

/** Everything that goes on about run leases beside requests. Ends with the scope. */
export const layer = Layer.mergeAll(
  Layer.effectDiscard(Effect.forkScoped(Effect.repeat(sweep, Schedule.fixed(reconcileIntervalMillis)))),
  Layer.effectDiscard(Effect.forkScoped(straySearch)),
  Layer.effectDiscard(Effect.forkScoped(rekeying)),
  Layer.effectDiscard(Effect.forkScoped(pruning))
)
