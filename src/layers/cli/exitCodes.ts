/**
 * The exit codes of `holdfast`, for scripts that must tell one end from another. This table is the only place where
 * a code is chosen; `holdfast --help` prints it.
 *
 *     0        done
 *     1        refused or failed; the error's `code` tells which
 *     2        the command line is wrong, or a confirmation is needed and nobody can be asked
 *     3        no daemon answers at the socket
 *     4        the thing named does not exist
 *     5        the state of the thing does not allow it now
 *     130      interrupted
 *     exec,
 *     run      the command's own code: 126 not executable, 127 not found, 128 + n ended by signal n, 124 timed out;
 *              255 when holdfast itself failed, whatever the reason, so the two are told apart
 */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  unreachable: 3,
  notFound: 4,
  conflict: 5,
  timedOut: 124,
  interrupted: 130,
  executionFailed: 255
} as const

export type ExitCode = number

/** The table as `holdfast --help` shows it. */
export const exitCodesHelp: ReadonlyArray<readonly [code: string, meaning: string]> = [
  ["0", "done"],
  ["1", "refused or failed; the error's code tells which"],
  ["2", "wrong command line, or a confirmation is needed and nobody can be asked"],
  ["3", "no daemon answers at the socket"],
  ["4", "the thing named does not exist"],
  ["5", "the state of the thing does not allow it now"],
  ["130", "interrupted"],
  [
    "exec, run",
    "the command's own code; 124 timed out, 126 not executable, 127 not found, 128+n by signal n"
  ],
  ["255 there", "holdfast itself failed, whatever the reason"]
]

/** Exit code of an answer with this HTTP status. */
export const exitCodeOfStatus = (status: number): ExitCode => {
  if (status === 404) return exitCodes.notFound
  if (status === 409) return exitCodes.conflict
  return exitCodes.failed
}
