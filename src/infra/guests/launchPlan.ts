/**
 * What a supervisor's program is started with. The shape that the builders of the command lines share with the
 * launcher that runs them.
 */

/** Descriptors of the started program. */
export const descriptors = {
  /** Plain file that outlives the daemon: child pid, end of set-up, exit code. */
  status: 3,
  /** Options of the program. */
  options: 4,
  /** The guest's first instruction waits until this is readable or closed. */
  block: 5,
  /** Program of the system-call filter. */
  filter: 6
} as const

export interface LaunchPlan {
  readonly argv: ReadonlyArray<string>
  /** Sent over the options descriptor; no word of it is in the process list. */
  readonly options: string
  /** `reported`: the status file names init's pid. `grandchild`: init is the child of the monitor's child. */
  readonly initIs: "reported" | "grandchild"
}
