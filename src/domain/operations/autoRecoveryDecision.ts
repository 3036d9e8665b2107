/**
 * Whether a runtime that is wanted running and does not run is started again by itself, and when. Pure: ages come from
 * the database's clock. Each attempt waits longer than the one before; a machine that has run for a while, and a start
 * that somebody asked for, begin the count anew. Source: SP figures (automatic recovery), FC-11.
 */
import { recoveryDelaysSeconds, recoveryHealthySeconds } from "../Bounds.ts"
import type { RuntimeDesired, RuntimeObserved } from "../runtimes/Runtime.ts"

export interface RecoveryFacts {
  readonly desired: RuntimeDesired
  readonly observed: RuntimeObserved
  /** Whether an operation of the Project is queued or under way. */
  readonly isBusy: boolean
  /** Recoveries that were begun since the machine was last healthy. */
  readonly attempts: number
  /** Milliseconds until the next attempt, negative when it is overdue; null: none is waited for. */
  readonly dueInMillis: number | null
  /** Milliseconds since the machine was first seen to run without a break; null: it was not seen to. */
  readonly runningForMillis: number | null
}

export type RecoveryDecision =
  | { readonly _tag: "Nothing" }
  /** It runs: healthy time counts from now. */
  | { readonly _tag: "NoteRunning" }
  /** The count begins anew, and nothing is waited for. */
  | { readonly _tag: "Reset" }
  | { readonly _tag: "Schedule"; readonly delaySeconds: number }
  | { readonly _tag: "Recover" }

const nothing: RecoveryDecision = { _tag: "Nothing" }
const reset: RecoveryDecision = { _tag: "Reset" }

/** How long the attempt after so many waits; the last delay stays. Never given up. */
export const delaySecondsAfter = (attempts: number): number =>
  recoveryDelaysSeconds[Math.min(attempts, recoveryDelaysSeconds.length - 1)] ?? 0

const whenRunning = ({ attempts, dueInMillis, runningForMillis }: RecoveryFacts): RecoveryDecision => {
  if (runningForMillis === null || dueInMillis !== null) return { _tag: "NoteRunning" }
  return attempts > 0 && runningForMillis >= recoveryHealthySeconds * 1_000 ? reset : nothing
}

const whenDown = ({ attempts, dueInMillis }: RecoveryFacts): RecoveryDecision => {
  const delaySeconds = delaySecondsAfter(attempts)
  if (dueInMillis === null && delaySeconds > 0) return { _tag: "Schedule", delaySeconds }
  return dueInMillis === null || dueInMillis <= 0 ? { _tag: "Recover" } : nothing
}

export const decideRecovery = (facts: RecoveryFacts): RecoveryDecision => {
  const { attempts, desired, dueInMillis, isBusy, observed, runningForMillis } = facts
  if (desired !== "running") {
    return attempts > 0 || dueInMillis !== null || runningForMillis !== null ? reset : nothing
  }
  if (isBusy) return nothing
  if (observed === "running") return whenRunning(facts)
  return observed === "failed" || observed === "stopped" ? whenDown(facts) : nothing
}
