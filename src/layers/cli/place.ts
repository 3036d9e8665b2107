/**
 * Which daemon the command line means: the flags, then the environment, then the defaults of layers/config.ts.
 * Reads nothing but the environment and touches nothing.
 */
import * as Path from "node:path"
import { defaultHome, socketPathOf } from "../config.ts"

export interface Place {
  /** As named, or undefined when the environment or the default is to decide. */
  readonly homeFlag: string | undefined
  readonly home: string
  readonly socketPath: string
}

/** The place that `--home` and `--socket` name. */
export const placeOf = (flags: {
  readonly home: string | undefined
  readonly socket: string | undefined
}): Place => {
  const home = Path.resolve(flags.home ?? defaultHome(process.env, process.getuid?.() ?? -1))
  const socketPath = flags.socket === undefined ? socketPathOf(home) : Path.resolve(flags.socket)
  return { homeFlag: flags.home, home, socketPath }
}
