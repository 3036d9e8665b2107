/**
 * Statements on one connection that its caller has to himself: run and waited for, sent without waiting, cancelled.
 * The connections of transactions take several statements at once, which the driver calls multiplexed.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { SqlError } from "effect/sql/SqlError"
import { type Query, type SqlRow, StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { storageFailure } from "./storageFailure.ts"

export type Rows = ReadonlyArray<SqlRow>

const noParameters: ReadonlyArray<unknown> = []

/** Runs one statement and answers its rows, with the driver's error translated. */
export const run = (
  connection: PgConnection.PgConnection,
  query: Query
): Effect.Effect<Rows, StorageFailure> =>
  Effect.mapBoth(connection.query(query.text, query.parameters ?? noParameters), {
    onFailure: (error) => storageFailure(query.operation, error),
    onSuccess: (result) => result.rows
  })

export type Sent = Fiber.Fiber<PgConnection.Result, SqlError>

const immediately = { startImmediately: true, uninterruptible: true } as const

/** Starts in this very tick, so the order of the calls is that of the wire. Nobody interrupts it. */
export const send = (connection: PgConnection.PgConnection, query: Query): Effect.Effect<Sent> =>
  Effect.forkDetach(connection.query(query.text, query.parameters ?? noParameters), immediately)

interface Cancelling {
  readonly cancel: Effect.Effect<void>
}

const cancels = (connection: object): connection is Cancelling =>
  "cancel" in connection && Effect.isEffect(connection.cancel)

/**
 * Asks the server to cancel the statement under way; done when the server has been told. On a multiplexed connection
 * the driver's `interrupt` does nothing, since it cannot know that the connection is lent to one transaction only;
 * its `cancel`, which its types do not show, asks no such question.
 */
export const cancel = (connection: PgConnection.PgConnection): Effect.Effect<void> =>
  cancels(connection) ? connection.cancel : connection.interrupt

/** How a transaction begins: what it is allowed does not depend on the defaults of the session or the database. */
export interface Kind {
  readonly begin: string
  readonly readOnly: boolean
}

export const readWrite: Kind = {
  begin: "begin isolation level read committed read write",
  readOnly: false
}

export const readOnly: Kind = { begin: "begin isolation level repeatable read read only", readOnly: true }

/** The failure of a transaction that the server rolled back although its body reported success. */
export const poisoned = (operation: string): StorageFailure =>
  new StorageFailure({ operation, fault: "query", state: "25P02", constraint: null })
