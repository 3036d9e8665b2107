/**
 * The release of everything that a run holds: each lease by the driver that it records, one after another's fault, under
 * the parent of what was executed on it. Source: RL-REL-01, RL-REL-09 to -11, RL-EXPORT-05, RL-TRACE-01.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { releasesAtOnceMax } from "../Bounds.ts"
import type { EnvironmentLease, LeaseInEnvironment } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import { hasTerminalExport } from "../environments/markers.ts"
import type { RunId } from "../Identity.ts"
import { keptSpan } from "../KeptSpan.ts"
import type { Release, ReleaseFault } from "./EnvironmentDriver.ts"
import { EnvironmentDrivers } from "./EnvironmentDrivers.ts"
import { EnvironmentDriverUnregistered } from "./RunLeaseErrors.ts"
import { TraceParents } from "./TraceParents.ts"

/** How a run's leases are released. */
export interface RunRelease extends Pick<Release, "cancelActiveWork" | "disposition" | "ending"> {
  readonly status?: Release["status"]
  readonly onError?: ReleaseFault
}

/** A lease as it is after its release. */
export type ReleasedLease = LeaseInEnvironment

/** A lease that the run holds, or whose export it left to be ended. */
const isReleasable = (lease: EnvironmentLease): boolean =>
  lease.status === "active" || (lease.status === "pending_cleanup" && hasTerminalExport(lease))

/** Releases one lease by its recorded driver. Fails with whatever the driver fails with. */
const releaseIn = Effect.fnUntraced(function* (
  { environment, lease }: LeaseInEnvironment,
  { cancelActiveWork, disposition, ending, status = "released" }: Omit<RunRelease, "onError">
) {
  const name = lease.metadata["driver"]
  const driver = typeof name === "string" ? (yield* EnvironmentDrivers).find(name) : undefined
  if (driver === undefined) return yield* new EnvironmentDriverUnregistered({ driver: String(name) })
  const parents = yield* TraceParents
  const released = yield* parents.under(lease.id)(
    driver.releaseRunLease({
      lease,
      environment,
      status,
      ...(disposition === undefined ? {} : { disposition }),
      ...(cancelActiveWork === undefined ? {} : { cancelActiveWork }),
      ...(ending === undefined ? {} : { ending })
    })
  )
  if (released === null) return null
  if (released.status !== "pending_cleanup") yield* parents.forget(lease.id)
  const done: ReleasedLease = { environment, lease: released }
  return done
})

/** Releases one lease in the environment that it was acquired in. Fails with whatever its driver fails with. */
export const releaseLease = Effect.fnUntraced(function* (
  lease: EnvironmentLease,
  how: Omit<RunRelease, "onError">
) {
  const { environment: id } = lease
  const found = id === null ? Option.none() : yield* EnvironmentStore.use(({ getById }) => getById(id))
  return yield* releaseIn({ environment: Option.getOrNull(found), lease }, how)
})

/**
 * Releases what the run holds and answers those leases that were handled without an error; `onError` is told of each of the
 * others, which stays as it is. Fails only where the run's leases cannot be read.
 */
export const releaseRunLeases = Effect.fnUntraced(function* (
  run: RunId,
  { onError, ...how }: RunRelease = {}
) {
  const held = yield* EnvironmentLeaseStore.use((store) => store.heldByRun(run))
  const released = yield* Effect.forEach(
    held.filter(({ lease }) => isReleasable(lease)),
    (one) =>
      releaseIn(one, how).pipe(
        Effect.catch((error) => Effect.as(onError?.(one.lease.id, error) ?? Effect.void, null))
      ),
    { concurrency: releasesAtOnceMax }
  )
  return released.filter((each) => each !== null)
}, keptSpan("runLeases.releaseRunLeases"))
