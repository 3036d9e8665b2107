/** What a desktop is told as, from everything that was seen of it. Pure. */
import type { Generation, SandboxId } from "../Identity.ts"
import type { Runtime } from "../runtimes/Runtime.ts"
import type { DesktopState } from "./Desktop.ts"

/** The machine that a display was admitted in. */
interface DisplayMachine {
  readonly sandbox: SandboxId
  readonly generation: Generation
}

/** Whether the runtime's machine is the one of the display, and runs by its row. */
export const isMachineOf = (runtime: Runtime | undefined, display: DisplayMachine): boolean =>
  runtime?.observed === "running" &&
  runtime.sandbox === display.sandbox &&
  runtime.generation === display.generation

/** What was seen of a desktop, the last of it in the very moment of the decision. */
export interface SeenDesktop {
  /** The desktop that everything was asked about is still its Project's, and no fence has taken it. */
  readonly isAdmitted: boolean
  readonly isCancelled: boolean
  readonly isMachineOfNow: boolean
  /** Its lease may be used, by the table's word. */
  readonly isLeaseHeld: boolean
  readonly answers: boolean
  readonly isPreparing: boolean
}

/**
 * Ready only when each look still holds: whatever a stop, a replacement of the machine or a cancellation has done
 * meanwhile makes it `none`, or `preparing` where the next one is on its way. Source: SP-DESK-04.
 */
export const decideState = (seen: SeenDesktop): DesktopState => {
  if (!seen.isAdmitted || seen.isCancelled || !seen.isMachineOfNow || !seen.isLeaseHeld) {
    return seen.isPreparing ? "preparing" : "none"
  }
  return seen.answers ? "ready" : "unreachable"
}
