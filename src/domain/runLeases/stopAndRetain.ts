/**
 * Stopping a sandbox so that it can be resumed. The wish is durable before anything is sent, and from then on nothing but a
 * stop may ever be sent for the lease. Source: RL section 4.4, RL-EXPORT-04, RL-EXPORT-05, 5.2 #13 to #15.
 */
import * as Effect from "effect/Effect"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { stopAndRetainMarker } from "../environments/markers.ts"
import { tearDown } from "./teardown.ts"

/**
 * Stops the resource of a lease that its run holds, or of one whose export its run leaves behind. Answers the row:
 * `released` once the stop is confirmed, `pending_cleanup` until then; null where it was not this caller's to stop.
 */
export const stopAndRetain = Effect.fn("runLeases.stopAndRetain")(function* (
  lease: EnvironmentLease,
  cancelActiveWork: boolean
) {
  const isHeld = lease.status === "active"
  const outcome = yield* tearDown({
    lease,
    from: isHeld ? ["active"] : ["pending_cleanup"],
    refuseLiveRun: false,
    failureReason: null,
    actor: "run",
    ...(isHeld ? { marker: stopAndRetainMarker(lease, cancelActiveWork) } : {})
  })
  return outcome._tag === "Ended" || outcome._tag === "Owed" ? outcome.lease : null
})
