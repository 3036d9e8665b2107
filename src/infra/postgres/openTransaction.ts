/**
 * One open transaction on one connection: its bound handle, what is still under way on it, and how it ends. BEGIN
 * leaves with the first statement, in one write, and its answer is looked at before that statement's. The handle is
 * closed before COMMIT is sent and COMMIT waits for what was already asked, so a fiber that was forked inside can
 * neither write after COMMIT nor reach a reused connection. Source: SP-TX-03.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { databaseCommitMillisMax, databaseRollbackMillisMax } from "../../domain/Bounds.ts"
import {
  CommitUnknown,
  type PluginTx,
  type Query,
  type StorageError,
  type StorageFailure,
  TransactionEnded
} from "../../domain/persistence/PluginDb.ts"
import type { AnswerDeadlines } from "./answerDeadlines.ts"
import { answerLost, storageFailure } from "./storageFailure.ts"
import { cancel, type Kind, poisoned, type Rows, run, send, type Sent } from "./statements.ts"

/** A statement's place in the line of its transaction; `come` wakes who waits for it. */
interface Turn {
  come: (() => void) | null
}

/** An open transaction and, at the same time, the bound handle that its body is given. */
export class OpenTransaction {
  readonly connection: PgConnection.PgConnection
  readonly operation: string
  readonly readOnly: boolean
  /** What to run once it has committed. */
  readonly afterwards: Array<Effect.Effect<void>> = []
  committed = false
  private readonly deadlines: AnswerDeadlines
  private readonly begin: Query
  /** BEGIN on its way or answered; null as long as no statement was asked for, and then there is nothing to end. */
  private begun: Sent | null = null
  private answeredBegin = false
  private open = true
  private givenUp = false
  /** The server has left COMMIT without an answer: nothing more is asked of this connection. */
  private silent = false
  private failed: StorageFailure | null = null
  /** Who has asked, in order; only the first has a statement on the wire, so that a cancel meets no other one's. */
  private readonly line: Array<Turn> = []
  private whenIdle: (() => void) | null = null

  constructor(
    connection: PgConnection.PgConnection,
    deadlines: AnswerDeadlines,
    operation: string,
    kind: Kind
  ) {
    this.connection = connection
    this.deadlines = deadlines
    this.operation = operation
    this.readOnly = kind.readOnly
    this.begin = { operation, text: kind.begin }
  }

  /** Whether what carries this handle may use the root handle again. */
  get ended(): boolean {
    return !this.open
  }

  readonly query = (query: Query): Effect.Effect<Rows, StorageFailure | TransactionEnded> =>
    Effect.suspend(() => {
      if (!this.open) return Effect.fail(new TransactionEnded({ operation: query.operation }))
      const turn: Turn = { come: null }
      this.line.push(turn)
      const asked =
        this.line.length === 1 ? this.ask(query) : Effect.flatMap(this.waitFor(turn), () => this.ask(query))
      return Effect.onExitPrimitive(asked, (exit) => this.answered(turn, exit))
    })

  readonly afterCommit = (effect: Effect.Effect<void>): Effect.Effect<void, TransactionEnded> =>
    Effect.suspend(() => {
      if (!this.open) return Effect.fail(new TransactionEnded({ operation: "PluginTx.afterCommit" }))
      this.afterwards.push(effect)
      return Effect.void
    })

  private waitFor(turn: Turn): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      if (this.line[0] === turn) return resume(Effect.void)
      turn.come = () => resume(Effect.void)
    })
  }

  private ask(query: Query): Effect.Effect<Rows, StorageFailure | TransactionEnded> {
    if (this.givenUp) return Effect.fail(new TransactionEnded({ operation: query.operation }))
    const asked = run(this.connection, query)
    if (this.answeredBegin) return asked
    const whole = this.begun === null ? Effect.andThen(this.sendBegin(), asked) : asked
    return Effect.flatMap(Effect.exit(whole), (exit) => Effect.andThen(this.beginAnswer(), exit))
  }

  /** Sent and remembered in one step: no statement can follow a BEGIN that nobody knows of. */
  private sendBegin(): Effect.Effect<void> {
    return Effect.uninterruptible(
      Effect.map(send(this.connection, this.begin), (sent) => {
        this.begun = sent
      })
    )
  }

  /** Fails where BEGIN was refused: what was asked after it ran outside of a transaction, in a session that reads only. */
  private beginAnswer(): Effect.Effect<void, StorageFailure> {
    if (this.begun === null || this.answeredBegin) return Effect.void
    return Effect.flatMap(Fiber.await(this.begun), (exit) => {
      if (Exit.isSuccess(exit)) {
        this.answeredBegin = true
        return Effect.void
      }
      return Effect.mapError(exit, (error) => storageFailure(this.operation, error))
    })
  }

  /** A turn that is interrupted ends when the server has been told, so that the cancel cannot meet the next one. */
  private answered(
    turn: Turn,
    exit: Exit.Exit<Rows, StorageFailure | TransactionEnded>
  ): Effect.Effect<void> | undefined {
    if (Exit.isSuccess(exit)) return this.leave(turn)
    this.remember(exit.cause)
    return this.line[0] === turn && Cause.hasInterrupts(exit.cause)
      ? Effect.map(cancel(this.connection), () => this.leave(turn))
      : this.leave(turn)
  }

  private leave(turn: Turn): undefined {
    const at = this.line.indexOf(turn)
    this.line.splice(at, 1)
    if (at === 0) this.line[0]?.come?.()
    if (this.line.length === 0) this.whenIdle?.()
  }

  private remember(cause: Cause.Cause<StorageFailure | TransactionEnded>): void {
    const failure = Option.getOrNull(Cause.findErrorOption(cause))
    if (failure?._tag === "StorageFailure") this.failed ??= failure
  }

  /** Ends the handle for good, and waits for the statements that were asked for before. */
  private close(): Effect.Effect<void> {
    this.open = false
    return this.line.length === 0 ? Effect.void : this.idle
  }

  private readonly idle = Effect.callback<void>((resume) => {
    if (this.line.length === 0) return resume(Effect.void)
    this.whenIdle = () => resume(Effect.void)
  })

  /**
   * Commits; a transaction that never asked anything has nothing to commit. Fails with the swallowed failure when the
   * server answers ROLLBACK, and with `CommitUnknown` when it does not answer, at the latest after
   * `databaseCommitMillisMax`.
   */
  commit(): Effect.Effect<void, StorageError> {
    return Effect.flatMap(this.close(), () => {
      if (this.begun === null) {
        this.committed = true
        return Effect.void
      }
      if (this.failed !== null && answerLost(this.failed)) return Effect.fail(this.failed)
      return this.answeredBegin ? this.sendCommit() : Effect.andThen(this.beginAnswer(), this.sendCommit())
    })
  }

  private sendCommit(): Effect.Effect<void, StorageError> {
    const answer = Effect.flatMap(
      send(this.connection, { operation: this.operation, text: "commit" }),
      (sent) => this.deadlines.within(sent, databaseCommitMillisMax)
    )
    return Effect.flatMap(answer, (exit): Effect.Effect<void, StorageError> => {
      if (Option.isNone(exit)) {
        this.silent = true
        return Effect.fail(new CommitUnknown({ operation: this.operation }))
      }
      return Effect.matchEffect(exit.value, {
        onFailure: (error): Effect.Effect<void, StorageError> => {
          const failure = storageFailure(this.operation, error)
          return Effect.fail(answerLost(failure) ? new CommitUnknown({ operation: this.operation }) : failure)
        },
        onSuccess: ({ command }): Effect.Effect<void, StorageError> => {
          this.committed = command === "COMMIT"
          return this.committed ? Effect.void : Effect.fail(this.failed ?? poisoned(this.operation))
        }
      })
    })
  }

  /**
   * Rolls back and answers whether the connection is fit for another use; a statement still under way is cancelled,
   * one that waits for its turn is dropped. Bound: `databaseRollbackMillisMax`.
   */
  rollback(): Effect.Effect<boolean> {
    return Effect.suspend(() => {
      if (this.silent) return Effect.succeed(false)
      this.givenUp = true
      const cancelled = this.line.length === 0 ? Effect.void : cancel(this.connection)
      const over = Effect.andThen(cancelled, this.close())
      return Effect.flatMap(over, () => (this.begun === null ? Effect.succeed(true) : this.sendRollback()))
    })
  }

  private sendRollback(): Effect.Effect<boolean> {
    return this.connection
      .query("rollback")
      .pipe(
        Effect.match({ onFailure: () => false, onSuccess: () => true }),
        Effect.timeoutOption(databaseRollbackMillisMax),
        Effect.map(Option.getOrElse(() => false))
      )
  }
}

/** Whether a handle's transaction is over. A handle that somebody wrapped counts as open. */
export const hasEnded = (tx: PluginTx["Service"]): boolean => tx instanceof OpenTransaction && tx.ended
