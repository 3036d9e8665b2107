/**
 * Adapter of the two handles over the native driver's pool: a transaction has a connection to itself and runs BEGIN,
 * its statements and COMMIT on it as prepared statements, with one span for the whole, named by the operation.
 * `sql.withTransaction` is not used: it costs more and turns a lost connection into a defect.
 * int8 comes as bigint, jsonb parsed, timestamptz as Date; stores convert. Other types are to be cast to text.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { transactionStatementsPipelinedMax } from "../../domain/Bounds.ts"
import {
  HandleMisuse,
  PluginDb,
  PluginTx,
  type Query,
  type StorageError,
  type StorageFailure
} from "../../domain/persistence/PluginDb.ts"
import { checkedSchema, type Options, poolConfig, type SchemaNameRefused } from "./connection.ts"
import { hasEnded, OpenTransaction, run } from "./openTransaction.ts"
import { sendAtOnce } from "./pipeline.ts"
import { storageFailure } from "./storageFailure.ts"

export { type Address, type Options, quoted } from "./connection.ts"

const span = {
  kind: "client",
  captureStackTrace: false,
  attributes: { "db.system.name": "postgresql" }
} as const

/** A root handle inside an open transaction is a mistake of the program; it costs no statement. Source: SP-TX-02. */
const outside = <A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const tx = Context.getOption(context, PluginTx)
    return Option.isSome(tx) && !hasEnded(tx.value) ? Effect.die(new HandleMisuse({ call })) : effect
  })

interface Kind {
  readonly begin: string
  readonly readOnly: boolean
}

const readWrite: Kind = { begin: "begin isolation level read committed read write", readOnly: false }
const readOnly: Kind = { begin: "begin isolation level repeatable read read only", readOnly: true }

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
 * BEGIN, body and COMMIT or ROLLBACK on one connection. Interruptible while it waits for a connection, in BEGIN and
 * in the body. What was registered for after the commit runs when the connection is back in the pool, also where
 * the caller was interrupted meanwhile.
 */
const inTransaction = <A, E, R>(
  pool: PgPool.PgPool,
  operation: string,
  kind: Kind,
  body: Effect.Effect<A, E, R>
): Effect.Effect<A, E | StorageError, Exclude<R, PluginTx>> =>
  Effect.suspend(() => {
    let open: OpenTransaction | undefined
    const transaction = onConnection(pool, operation, (connection) =>
      Effect.uninterruptibleMask((restore) => {
        const current = new OpenTransaction(connection, operation, kind.readOnly)
        open = current
        const whole = Effect.andThen(
          run(connection, { operation, text: kind.begin }),
          Effect.provideService(body, PluginTx, current)
        )
        return Effect.flatMap(Effect.exit(restore(whole)), (exit) => settle(pool, current, exit))
      })
    )
    return Effect.onExitPrimitive(transaction, () =>
      open?.committed === true && open.afterwards.length > 0 ? runAfterwards(open.afterwards) : undefined
    )
  })

const pipelined = (pool: PgPool.PgPool, operation: string, queries: ReadonlyArray<Query>) =>
  queries.length > transactionStatementsPipelinedMax
    ? Effect.die(
        new Error(
          `${operation} pipelines ${queries.length} statements: at most ${transactionStatementsPipelinedMax} are sent at once`
        )
      )
    : onConnection(pool, operation, (connection) => Effect.exit(sendAtOnce(connection, operation, queries)))

const query = (pool: PgPool.PgPool, asked: Query) =>
  onConnection(pool, asked.operation, (connection) => Effect.exit(run(connection, asked)))

/**
 * Builds the handle over two pools: one whose connections wait for each answer, one whose connections are written
 * whole transactions. Both open connections when they are first needed and close them with the scope.
 * Refused: a schema name that PostgreSQL would not keep as it is.
 */
export const make: (options: Options) => Effect.Effect<PluginDb["Service"], SchemaNameRefused, Scope.Scope> =
  Effect.fnUntraced(function* (options: Options) {
    const schema = yield* checkedSchema(options.schema)
    const config = poolConfig(options)
    // A pool that opens connections only when they are needed has nothing to fail with.
    const pool = yield* Effect.orDie(PgPool.make(config))
    // The same holds here. One fiber a connection: a pipeline must not meet another one's BEGIN.
    const pipelines = yield* Effect.orDie(
      PgPool.make({ ...config, multiplex: true, multiplexConcurrency: 1 })
    )
    return PluginDb.of({
      schema,
      query: (asked) => outside(asked.operation, Effect.withSpan(query(pool, asked), asked.operation, span)),
      transaction: (operation, body) =>
        outside(operation, Effect.withSpan(inTransaction(pool, operation, readWrite, body), operation, span)),
      snapshot: (operation, body) =>
        outside(operation, Effect.withSpan(inTransaction(pool, operation, readOnly, body), operation, span)),
      pipelined: (operation, queries) =>
        outside(operation, Effect.withSpan(pipelined(pipelines, operation, queries), operation, span))
    })
  })

/** The root handle of one schema, for as long as the layer lives. */
export const layer = (options: Options): Layer.Layer<PluginDb, SchemaNameRefused> =>
  Layer.effect(PluginDb, make(options))
