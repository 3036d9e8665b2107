/**
 * Port of a runtime's log: a ring of the newest rows of each Project. Appending joins the caller's transaction or
 * is a short one of its own, and is serialized per Project. A Project whose runtime is gone takes no lines, so no
 * late writer brings deleted logs back. Source: SP-OPS-05, SP-TX-06, SP-TX-07, SP-DEL-10.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { OperationId, ProjectId } from "../Identity.ts"
import { logLineCharactersMax } from "../Bounds.ts"
import type { StorageFailure, TransactionEnded } from "../persistence/PluginDb.ts"

export interface LogLine {
  readonly rowId: number
  readonly operation: OperationId | null
  readonly atMillis: number
  readonly line: string
}

/** The claim under which an executor writes: its operation's row, its process, and how often it was claimed by then. */
export interface LogClaim {
  readonly rowId: number
  readonly claimedBy: string | null
  readonly claimSequence: number
}

export interface LogEntry {
  readonly operation: OperationId | null
  readonly lines: ReadonlyArray<string>
}

/** One line as it is stored: control characters become spaces, and what is too long is cut and says so. */
export const storedLine = (line: string): string => {
  const plain = Array.from(line, (character) => (isControl(character) ? " " : character))
  return plain.length <= logLineCharactersMax
    ? plain.join("")
    : `${plain.slice(0, logLineCharactersMax - 1).join("")}…`
}

const isControl = (character: string): boolean => {
  const point = character.codePointAt(0) ?? 0
  return point < 0x20 || point === 0x7f
}

export class RuntimeLog extends Context.Service<
  RuntimeLog,
  {
    /** Appends lines in their order and keeps the newest `runtimeLogRowsMax` rows of the Project. */
    readonly append: (
      project: ProjectId,
      entry: LogEntry
    ) => Effect.Effect<void, StorageFailure | TransactionEnded>
    /** The same where the claim is still held; false where it is not, and then nothing is written. Source: SP-OPS-06. */
    readonly appendIfHeld: (
      project: ProjectId,
      entry: LogEntry,
      claim: LogClaim
    ) => Effect.Effect<boolean, StorageFailure | TransactionEnded>
    /** The newest rows, oldest of them first. */
    readonly newest: (
      project: ProjectId,
      limit: number
    ) => Effect.Effect<ReadonlyArray<LogLine>, StorageFailure | TransactionEnded>
    /** Removes all lines of the Project; answers how many. Joins or opens; only project removal asks for it. */
    readonly clear: (project: ProjectId) => Effect.Effect<number, StorageFailure | TransactionEnded>
  }
>()("holdfast/domain/history/RuntimeLog") {}
