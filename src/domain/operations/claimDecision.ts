/**
 * The pure part of recovery: what happens to a claim, given what is known of its claimant. Whether a process lives
 * is decided in Processes.ts; the conditional write is recovery.ts.
 */
import type { ProcessIdentity } from "../Identity.ts"
import type { Liveness } from "../Processes.ts"

/** `steal`: the holder is dead, its claim goes back to the queue. `own`: this process has claimed it. */
export type ClaimDecision = "steal" | "leave" | "own"

/**
 * Decides from the written identity of a claimant. A live one and one of another node are left alone, whatever the
 * clock says. Source: SP-OPS-02.
 */
export const decideClaim = (
  here: ProcessIdentity,
  claimant: ProcessIdentity,
  liveness: Liveness
): ClaimDecision => {
  if (claimant.toString() === here.toString()) {
    return "own"
  }
  return liveness === "dead" ? "steal" : "leave"
}
