/**
 * Adapter of the two handles over the native driver's pool: a transaction has a connection to itself and runs BEGIN,
 * its statements and COMMIT on it as prepared statements, with one span for the whole, named by the operation, where
 * the trace is kept.
 * `sql.withTransaction` is not used: it costs more and turns a lost connection into a defect.
 * int8 comes as bigint, jsonb parsed, timestamptz as Date; stores convert. Other types are to be cast to text.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import { transactionStatementsPipelinedMax } from "../../domain/Bounds.ts"
import { isSampledOut } from "../../domain/KeptSpan.ts"
import {
  HandleMisuse,
  PluginDb,
  PluginTx,
  type Query,
  type StorageError,
  type StorageFailure
} from "../../domain/persistence/PluginDb.ts"
import {
  checkedSchema,
  type Options,
  poolConfig,
  type SchemaNameRefused,
  transactionPoolConfig
} from "./connection.ts"
import { type AnswerDeadlines, makeAnswerDeadlines } from "./answerDeadlines.ts"
import { hasEnded, OpenTransaction } from "./openTransaction.ts"
import { sendAtOnce } from "./pipeline.ts"
import { type Kind, readOnly, readWrite, run } from "./statements.ts"
import { storageFailure } from "./storageFailure.ts"

export { type Address, type Options, quoted } from "./connection.ts"

const span = {
  kind: "client",
  captureStackTrace: false,
  attributes: { "db.system.name": "postgresql" }
} as const

/**
 * The way into every method: a root handle inside an open transaction is a mistake of the program and costs no
 * statement (source: SP-TX-02). The span is left out where the caller's trace was decided against, since nobody sees it.
 */
const entering = <A, E, R>(operation: string, effect: Effect.Effect<A, E, R>) =>
  Effect.contextWith((context: Context.Context<never>): Effect.Effect<A, E, R> => {
    const tx = Context.getOption(context, PluginTx)
    if (Option.isSome(tx) && !hasEnded(tx.value)) return Effect.die(new HandleMisuse({ call: operation }))
    const parent = Context.getOption(context, Tracer.ParentSpan)
    return Option.isSome(parent) && isSampledOut(parent.value)
      ? effect
      : Effect.withSpan(effect, operation, span)
  })

/** What transactions run on: the pool of their connections, and the bounds on the answers to their ends. */
interface Transactions {
  readonly pool: PgPool.PgPool
  readonly deadlines: AnswerDeadlines
}

/** What is left to do on the connection once the body has ended, however it ended. */
const settle = <A, E>(
  pool: PgPool.PgPool,
  open: OpenTransaction,
  exit: Exit.Exit<A, E>
): Effect.Effect<Exit.Exit<A, E | StorageError>> =>
  Exit.isFailure(exit)
    ? Effect.as(abandon(pool, open), exit)
    : Effect.matchEffect(open.commit(), {
        onFailure: (error) => Effect.as(abandon(pool, open), Exit.fail(error)),
        onSuccess: () => Effect.succeed(exit)
      })

const abandon = (pool: PgPool.PgPool, open: OpenTransaction): Effect.Effect<void> =>
  Effect.flatMap(open.rollback(), (fit) => (fit ? Effect.void : pool.invalidate(open.connection)))

/** Every effect runs, whatever happens to the others and to the caller: the transaction has committed. */
const runAfterwards = (effects: ReadonlyArray<Effect.Effect<void>>): Effect.Effect<void> =>
  Effect.flatMap(Effect.forEach(effects, Effect.exit), (exits) =>
    Effect.forEach(exits, (exit) => exit, { discard: true })
  )

/** Runs on a connection of the pool; only where none can be had does this fail by itself. */
const onConnection = <A, E, R>(
  pool: PgPool.PgPool,
  operation: string,
  use: (connection: PgConnection.PgConnection) => Effect.Effect<Exit.Exit<A, E>, never, R>
): Effect.Effect<A, E | StorageFailure, R> =>
  Effect.flatMap(
    Effect.mapError(pool.use(use), (error) => storageFailure(operation, error)),
    (exit) => exit
  )

/**
 * The body, and COMMIT or ROLLBACK, on one connection; BEGIN leaves with the body's first statement. Interruptible
 * while it waits for a connection and in the body. What was registered for after the commit runs when the connection
 * is back in the pool, also where the caller was interrupted meanwhile.
 */
const inTransaction = <A, E, R>(
  { deadlines, pool }: Transactions,
  operation: string,
  kind: Kind,
  body: Effect.Effect<A, E, R>
): Effect.Effect<A, E | StorageError, Exclude<R, PluginTx>> =>
  Effect.suspend(() => {
    let open: OpenTransaction | undefined
    const transaction = onConnection(pool, operation, (connection) =>
      Effect.uninterruptibleMask((restore) => {
        const current = new OpenTransaction(connection, deadlines, operation, kind)
        open = current
        const bound = Effect.provideService(body, PluginTx, current)
        return Effect.flatMap(Effect.exit(restore(bound)), (exit) => settle(pool, current, exit))
      })
    )
    return Effect.onExitPrimitive(transaction, () =>
      open?.committed === true && open.afterwards.length > 0 ? runAfterwards(open.afterwards) : undefined
    )
  })

/** Whatever the server still has to say on such a connection, nobody may take for an answer to him. */
const isCommitUnknown = <A>(exit: Exit.Exit<A, StorageError>): boolean =>
  Exit.isFailure(exit) && Option.getOrNull(Cause.findErrorOption(exit.cause))?._tag === "CommitUnknown"

const pipelined = ({ deadlines, pool }: Transactions, operation: string, queries: ReadonlyArray<Query>) =>
  queries.length > transactionStatementsPipelinedMax
    ? Effect.die(
        new Error(
          `${operation} pipelines ${queries.length} statements: at most ${transactionStatementsPipelinedMax} are sent at once`
        )
      )
    : onConnection(pool, operation, (connection) =>
        Effect.tap(Effect.exit(sendAtOnce(connection, deadlines, operation, queries)), (exit) =>
          isCommitUnknown(exit) ? pool.invalidate(connection) : Effect.void
        )
      )

const query = (pool: PgPool.PgPool, asked: Query) =>
  onConnection(pool, asked.operation, (connection) => Effect.exit(run(connection, asked)))

/** A pool that opens connections only when they are needed has nothing to fail with: a failure is our mistake. */
const openPool = (config: Parameters<typeof PgPool.make>[0]) => Effect.orDie(PgPool.make(config))

/**
 * Builds the handle over two pools: one for single statements, one for transactions, whose connections take several
 * statements before the first is answered. Both open connections when they are first needed and close them with the
 * scope.
 * Refused: a schema name that PostgreSQL would not keep as it is.
 */
export const make: (options: Options) => Effect.Effect<PluginDb["Service"], SchemaNameRefused, Scope.Scope> =
  Effect.fnUntraced(function* (options: Options) {
    const schema = yield* checkedSchema(options.schema)
    const single = yield* openPool(poolConfig(options))
    const transactions: Transactions = {
      pool: yield* openPool(transactionPoolConfig(options)),
      deadlines: yield* makeAnswerDeadlines
    }
    return PluginDb.of({
      schema,
      query: (asked) => entering(asked.operation, query(single, asked)),
      transaction: (operation, body) =>
        entering(operation, inTransaction(transactions, operation, readWrite, body)),
      snapshot: (operation, body) =>
        entering(operation, inTransaction(transactions, operation, readOnly, body)),
      pipelined: (operation, queries) => entering(operation, pipelined(transactions, operation, queries))
    })
  })

/** The root handle of one schema, for as long as the layer lives. */
export const layer = (options: Options): Layer.Layer<PluginDb, SchemaNameRefused> =>
  Layer.effect(PluginDb, make(options))
