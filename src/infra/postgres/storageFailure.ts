/**
 * The one place where an error of the driver becomes a `StorageFailure`. Nothing of the server's text passes: only
 * the operation's name, the kind of fault, the SQLSTATE and the name of a violated constraint.
 */
import type * as SqlError from "effect/sql/SqlError"
import { type StorageFault, StorageFailure } from "../../domain/persistence/PluginDb.ts"

interface ServerError {
  readonly code?: unknown
  readonly constraint?: unknown
}

const text = (value: unknown): string | null => (typeof value === "string" ? value : null)

/** SQLSTATE that `core.require_room` raises. */
export const tableFullState = "HF003"

/** States of a connection or server that is gone, starting, ending or full. The driver calls some of them unknown. */
const awayStates = /^(08|57P|53)|^(25P03|25P04|3D000|55000)$/

const byReason: Readonly<Partial<Record<SqlError.SqlErrorReason["_tag"], StorageFault>>> = {
  ConnectionError: "connection",
  SerializationError: "serialization",
  DeadlockError: "serialization",
  LockTimeoutError: "lock",
  StatementTimeoutError: "timeout",
  UniqueViolation: "unique",
  ConstraintError: "constraint",
  AuthenticationError: "authentication",
  AuthorizationError: "authentication"
}

const faultOf = (reason: SqlError.SqlErrorReason, state: string | null): StorageFault => {
  if (state?.startsWith("HF") === true) return "refused"
  if (state !== null && awayStates.test(state)) return "connection"
  if (state === "25006") return "readonly"
  return byReason[reason._tag] ?? "query"
}

/** Translates a driver's error. A state of class `HF` is a guard of ours that raised. */
export const storageFailure = (operation: string, error: SqlError.SqlError): StorageFailure => {
  const server: ServerError = (error.reason.cause ?? {}) as ServerError
  const state = text(server.code)
  const known = state !== null && /^[0-9A-Z]{5}$/.test(state) ? state : null
  return new StorageFailure({
    operation,
    fault: faultOf(error.reason, known),
    state: known,
    constraint: text(server.constraint)
  })
}

/**
 * Whether the session was lost, so that nobody knows what became of the statement that was asked. A full disk or a
 * timeout of an idle transaction is the fault of a connection too, but there the server has answered.
 */
export const answerLost = (failure: StorageFailure): boolean =>
  failure.fault === "connection" && (failure.state === null || /^(08|57P)/.test(failure.state))
