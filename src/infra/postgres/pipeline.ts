/**
 * A whole transaction sent at once: BEGIN, every statement and COMMIT in one write, with one wait. The server skips
 * what follows a failed statement and turns COMMIT into ROLLBACK; a statement that could not even be sent turns the
 * last one into ROLLBACK here. What the answers mean together is the pure `judge`.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import { databaseCommitMillisMax } from "../../domain/Bounds.ts"
import {
  CommitUnknown,
  type Query,
  type StorageError,
  type StorageFailure
} from "../../domain/persistence/PluginDb.ts"
import type { AnswerDeadlines } from "./answerDeadlines.ts"
import { answerLost, storageFailure } from "./storageFailure.ts"
import { poisoned, readWrite, type Rows, send, type Sent } from "./statements.ts"

type Answer = Exit.Exit<PgConnection.Result, StorageFailure>

/** SQLSTATE of a statement that was skipped because an earlier one had failed. */
const skipped = "25P02"

const failureOf = (answer: Answer): StorageFailure | null =>
  Exit.isFailure(answer) ? Option.getOrNull(Cause.findErrorOption(answer.cause)) : null

/**
 * The outcome of a pipelined transaction from the answers to BEGIN, its statements and COMMIT. A refused statement
 * means that nothing was stored; a connection lost without one leaves the commit unknown.
 */
export const judge = (
  operation: string,
  answers: ReadonlyArray<Answer>
): Exit.Exit<ReadonlyArray<Rows>, StorageError> => {
  const died = answers.find((answer) => Exit.isFailure(answer) && failureOf(answer) === null)
  if (died !== undefined && Exit.isFailure(died)) return Exit.failCause(died.cause)
  const failures = answers.slice(0, -1).flatMap((answer) => failureOf(answer) ?? [])
  // Only a refusal of the server's, or a statement that was never sent, proves that nothing was stored.
  const telling = failures.find((failure) => failure.state !== skipped && !unanswered(failure))
  if (telling !== undefined) return Exit.fail(telling)
  const last = answers.at(-1)
  const lost = last === undefined ? null : failureOf(last)
  if (failures.some(unanswered) || (lost !== null && answerLost(lost))) {
    return Exit.fail(new CommitUnknown({ operation }))
  }
  if (lost !== null) return Exit.fail(lost)
  const results = answers.flatMap((answer) => (Exit.isSuccess(answer) ? [answer.value] : []))
  if (results.at(-1)?.command !== "COMMIT") return Exit.fail(poisoned(operation))
  return Exit.succeed(results.slice(1, -1).map((result) => result.rows))
}

/** The server said nothing about the statement: it may have been carried out. */
const unanswered = (failure: StorageFailure): boolean =>
  failure.fault === "connection" && failure.state === null

const answerOf = (query: Query, exit: Exit.Exit<PgConnection.Result, SqlError>): Answer =>
  Exit.mapError(exit, (error) => storageFailure(query.operation, error))

/**
 * Sends the transaction on a connection that the caller has to himself, and answers the rows of every statement.
 * Once sent it is not interrupted: its outcome is seen, or `CommitUnknown` told when the server has not answered after
 * `databaseCommitMillisMax` for each statement; then the connection is not fit for another use.
 */
export const sendAtOnce = (
  connection: PgConnection.PgConnection,
  deadlines: AnswerDeadlines,
  operation: string,
  queries: ReadonlyArray<Query>
): Effect.Effect<ReadonlyArray<Rows>, StorageError> =>
  Effect.uninterruptible(
    Effect.gen(function* () {
      const asked: Array<Query> = [{ operation, text: readWrite.begin }, ...queries]
      const sent: Array<Sent> = []
      for (const query of asked) sent.push(yield* send(connection, query))
      // What has an answer already was never sent: it could not be encoded, or the connection was gone.
      const unsent = sent.some((fiber) => fiber.pollUnsafe() !== undefined)
      const end: Query = { operation, text: unsent ? "rollback" : "commit" }
      asked.push(end)
      const last = yield* send(connection, end)
      sent.push(last)
      // The answers come in the order of the statements: with the last one all are there, for one awakening.
      if (Option.isNone(yield* deadlines.within(last, databaseCommitMillisMax * sent.length))) {
        return yield* new CommitUnknown({ operation })
      }
      const answers: Array<Answer> = []
      for (const [index, fiber] of sent.entries()) {
        answers.push(answerOf(asked[index] ?? end, fiber.pollUnsafe() ?? (yield* Fiber.await(fiber))))
      }
      return yield* judge(operation, answers)
    })
  )
