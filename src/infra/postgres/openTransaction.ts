/**
 * One open transaction on one connection: its bound handle, what is still under way on it, and how it ends. The
 * handle is closed before COMMIT is sent and COMMIT waits for what was already asked, so a fiber that was forked
 * inside can neither write after COMMIT nor reach a reused connection. Source: SP-TX-03.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import {
  CommitUnknown,
  type PluginTx,
  type Query,
  type SqlRow,
  type StorageError,
  StorageFailure,
  TransactionEnded
} from "../../domain/persistence/PluginDb.ts"
import { answerLost, storageFailure } from "./storageFailure.ts"

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

/** The failure of a transaction that the server rolled back although its body reported success. */
export const poisoned = (operation: string): StorageFailure =>
  new StorageFailure({ operation, fault: "query", state: "25P02", constraint: null })

/** An open transaction and, at the same time, the bound handle that its body is given. */
export class OpenTransaction {
  readonly connection: PgConnection.PgConnection
  readonly operation: string
  readonly readOnly: boolean
  /** What to run once it has committed. */
  readonly afterwards: Array<Effect.Effect<void>> = []
  committed = false
  private open = true
  private underWay = 0
  private failed: StorageFailure | null = null
  private whenIdle: (() => void) | null = null

  constructor(connection: PgConnection.PgConnection, operation: string, readOnly: boolean) {
    this.connection = connection
    this.operation = operation
    this.readOnly = readOnly
  }

  /** Whether what carries this handle may use the root handle again. */
  get ended(): boolean {
    return !this.open
  }

  readonly query = (query: Query): Effect.Effect<Rows, StorageFailure | TransactionEnded> =>
    Effect.suspend(() => {
      if (!this.open) return Effect.fail(new TransactionEnded({ operation: query.operation }))
      this.underWay += 1
      return Effect.onExitPrimitive(run(this.connection, query), this.answered)
    })

  readonly afterCommit = (effect: Effect.Effect<void>): Effect.Effect<void, TransactionEnded> =>
    Effect.suspend(() => {
      if (!this.open) return Effect.fail(new TransactionEnded({ operation: "PluginTx.afterCommit" }))
      this.afterwards.push(effect)
      return Effect.void
    })

  private readonly answered = (exit: Exit.Exit<Rows, StorageFailure>): undefined => {
    this.underWay -= 1
    if (Exit.isFailure(exit)) this.remember(exit.cause)
    if (this.underWay === 0) this.whenIdle?.()
  }

  private remember(cause: Cause.Cause<StorageFailure>): void {
    this.failed ??= Option.getOrNull(Cause.findErrorOption(cause))
  }

  /** Ends the handle for good, and waits for the statements that were asked for before. */
  private close(): Effect.Effect<void> {
    this.open = false
    if (this.underWay === 0) return Effect.void
    return Effect.callback<void>((resume) => {
      this.whenIdle = () => resume(Effect.void)
    })
  }

  /**
   * Commits. Fails with the swallowed failure when the server answers ROLLBACK, and with `CommitUnknown` when it
   * does not answer at all.
   */
  commit(): Effect.Effect<void, StorageError> {
    return Effect.flatMap(this.close(), () =>
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
  rollback(): Effect.Effect<boolean> {
    return Effect.suspend(() => (this.underWay > 0 ? this.connection.interrupt : Effect.void)).pipe(
      Effect.andThen(Effect.suspend(() => this.close())),
      Effect.andThen(this.connection.query("rollback")),
      Effect.match({ onFailure: () => false, onSuccess: () => true })
    )
  }
}

/** Whether a handle's transaction is over. A handle that somebody wrapped counts as open. */
export const hasEnded = (tx: PluginTx["Service"]): boolean => tx instanceof OpenTransaction && tx.ended
