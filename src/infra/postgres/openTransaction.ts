/**
 * One open transaction on one connection: its bound handle, what is still under way on it, and how it ends. The
 * handle is closed before COMMIT is sent and COMMIT waits for what was already asked, so a fiber that was forked
 * inside can neither write after COMMIT nor reach a reused connection. Source: SP-TX-03.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import {
  CommitUnknown,
  PluginTx,
  type Query,
  type SqlRow,
  type StorageError,
  StorageFailure,
  TransactionEnded
} from "../../domain/persistence/PluginDb.ts"
import { answerLost, storageFailure } from "./storageFailure.ts"

export type Rows = ReadonlyArray<SqlRow>

const noParameters: ReadonlyArray<unknown> = []

/** Handles whose transaction is over: what still carries one in its context may use the root handle again. */
const endedHandles = new WeakSet<PluginTx["Service"]>()

export const hasEnded = (tx: PluginTx["Service"]): boolean => endedHandles.has(tx)

/** Runs one statement and answers its rows, with the driver's error translated. */
export const run = (
  connection: PgConnection.PgConnection,
  query: Query
): Effect.Effect<Rows, StorageFailure> =>
  Effect.mapBoth(connection.query(query.text, query.parameters ?? noParameters), {
    onFailure: (error) => storageFailure(query.operation, error),
    onSuccess: (result) => result.rows
  })

/** The failure of a transaction that the server rolled back although its body reported success. */
export const poisoned = (operation: string): StorageFailure =>
  new StorageFailure({ operation, fault: "query", state: "25P02", constraint: null })

export class OpenTransaction {
  readonly tx: PluginTx["Service"]
  readonly afterwards: Array<Effect.Effect<void>> = []
  committed = false
  private open = true
  private underWay = 0
  private failed: StorageFailure | null = null
  private whenIdle: (() => void) | null = null
  readonly connection: PgConnection.PgConnection
  readonly operation: string

  constructor(connection: PgConnection.PgConnection, operation: string, readOnly: boolean) {
    this.connection = connection
    this.operation = operation
    this.tx = PluginTx.of({
      readOnly,
      query: (query) => Effect.suspend(() => this.query(query)),
      afterCommit: (effect) =>
        Effect.suspend(() => {
          if (!this.open) return Effect.fail(new TransactionEnded({ operation: "PluginTx.afterCommit" }))
          this.afterwards.push(effect)
          return Effect.void
        })
    })
  }

  private query(query: Query): Effect.Effect<Rows, StorageFailure | TransactionEnded> {
    if (!this.open) return Effect.fail(new TransactionEnded({ operation: query.operation }))
    this.underWay += 1
    return Effect.onExit(run(this.connection, query), (exit) => {
      this.underWay -= 1
      if (exit._tag === "Failure") this.remember(exit.cause.reasons)
      if (this.underWay === 0) this.whenIdle?.()
      return Effect.void
    })
  }

  private remember(reasons: ReadonlyArray<{ readonly _tag: string; readonly error?: unknown }>): void {
    const [first] = reasons
    if (this.failed === null && first?.error instanceof StorageFailure) this.failed = first.error
  }

  /** Ends the handle for good, and waits for the statements that were asked for before. */
  private readonly close: Effect.Effect<void> = Effect.suspend(() => {
    this.open = false
    endedHandles.add(this.tx)
    if (this.underWay === 0) return Effect.void
    return Effect.callback<void>((resume) => {
      this.whenIdle = () => resume(Effect.void)
    })
  })

  /**
   * Commits. Fails with the swallowed failure when the server answers ROLLBACK, and with `CommitUnknown` when it
   * does not answer at all.
   */
  get commit(): Effect.Effect<void, StorageError> {
    return Effect.flatMap(this.close, () =>
      this.failed !== null && answerLost(this.failed)
        ? Effect.fail(this.failed)
        : Effect.matchEffect(this.connection.query("commit"), {
            onFailure: (error): Effect.Effect<void, StorageError> => {
              const failure = storageFailure(this.operation, error)
              return Effect.fail(
                answerLost(failure) ? new CommitUnknown({ operation: this.operation }) : failure
              )
            },
            onSuccess: (answer): Effect.Effect<void, StorageError> => {
              this.committed = answer.command === "COMMIT"
              return this.committed ? Effect.void : Effect.fail(this.failed ?? poisoned(this.operation))
            }
          })
    )
  }

  /** Rolls back and answers whether the connection is fit for another use; a statement still under way is cancelled. */
  get rollback(): Effect.Effect<boolean> {
    return Effect.suspend(() => (this.underWay > 0 ? this.connection.interrupt : Effect.void)).pipe(
      Effect.andThen(this.close),
      Effect.andThen(this.connection.query("rollback")),
      Effect.match({ onFailure: () => false, onSuccess: () => true })
    )
  }
}
