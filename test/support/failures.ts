/** What an exit failed with. */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"

/** The failure or defect itself; undefined for a success. */
export const failureOf = <A, E>(exit: Exit.Exit<A, E>): unknown =>
  Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
