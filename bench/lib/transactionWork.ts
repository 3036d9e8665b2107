/**
 * The transaction of P16, and its yardsticks: lock a Project's row, lock its runtime, insert an operation, between BEGIN
 * and COMMIT. Each worker has rows of its own, so that nobody waits for a lock and only the handles are compared.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Reactivity from "effect/reactivity/Reactivity"
import { loopEffects, loopPromises, openConnections } from "./closedLoop.ts"
import { counted } from "./counted.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { type PlainClient, type PlainSettings, plainClients, runPlainly } from "./plainPg.ts"

export const workersMax = 16

/** Schema of its own, small enough to be seen: what matters is how it is reached. */
export const transactionSchema: ReadonlyArray<string> = [
  "create table projects (id int primary key, lifecycle text not null)",
  "create table runtimes (project_id int primary key, generation bigint not null)",
  "create table operations (row_id bigint generated always as identity primary key, project_id int not null, request_key text not null)",
  `insert into projects select number, 'active' from generate_series(1, ${workersMax}) number`,
  `insert into runtimes select number, 1 from generate_series(1, ${workersMax}) number`
]

/** The three statements between BEGIN and COMMIT, for any client. */
export const transactionStatements = (
  worker: number,
  call: number
): ReadonlyArray<{
  readonly name: string
  readonly text: string
  readonly values: ReadonlyArray<unknown>
}> => [
  {
    name: "lock_project",
    text: "select id from projects where id = $1::int and lifecycle = 'active' for share",
    values: [worker + 1]
  },
  {
    name: "lock_runtime",
    text: "select generation from runtimes where project_id = $1::int for update",
    values: [worker + 1]
  },
  {
    name: "insert_operation",
    text: "insert into operations (project_id, request_key) values ($1::int, $2::text) returning row_id",
    values: [worker + 1, `request-${worker}-${call}`]
  }
]

/** A contender whose every transaction must have left exactly one row, each worker's keys without a gap. */
export const transactionContender = (
  name: string,
  settings: PlainSettings,
  run: (load: Load) => Effect.Effect<Figures, unknown>
): Contender =>
  counted(name, run, (all) =>
    Effect.gen(function* () {
      const { rows } = yield* runPlainly(settings, [
        "select count(*)::int as rows, count(distinct request_key)::int as keys from operations"
      ])
      yield* runPlainly(settings, ["truncate operations"])
      const found = [rows[0]?.["rows"], rows[0]?.["keys"]]
      return found.every((count) => count === all)
        ? []
        : [`${all} transactions left ${found[0]} rows with ${found[1]} keys`]
    })
  )

const plainTransaction = async (client: PlainClient, worker: number, call: number): Promise<void> => {
  await client.query("begin")
  for (const statement of transactionStatements(worker, call)) await client.query(statement)
  await client.query("commit")
}

/** Plain `pg`: five statements, five waits, on a connection of the worker's own. */
export const plainFiveWaits = (settings: PlainSettings): Contender =>
  transactionContender("pg, five waits", settings, (load) =>
    Effect.scoped(
      Effect.gen(function* () {
        const clients = yield* plainClients(settings, load.workers)
        return yield* loopPromises(load, (worker, call) => plainTransaction(clients[worker]!, worker, call))
      })
    )
  )

/**
 * The client's connection with nothing around it, a connection for each worker: what is left for PluginDb to reach.
 */
export const bareConnections = (settings: PlainSettings): Contender =>
  transactionContender("PgConnection, five waits", settings, (load) =>
    Effect.gen(function* () {
      const connect = PgConnection.make({
        host: settings.host,
        port: settings.port,
        username: settings.user,
        database: settings.database
      })
      const connections = yield* Effect.all(Array.from({ length: load.workers }, () => connect))
      return yield* loopEffects(load, (worker, call) =>
        Effect.gen(function* () {
          const connection = connections[worker]!
          yield* connection.query("begin")
          for (const { text, values } of transactionStatements(worker, call)) {
            yield* connection.query(text, values)
          }
          yield* connection.query("commit")
        })
      )
    }).pipe(Effect.scoped)
  )

/** The client's own transactions, with the same statements: what PluginDb does not use. */
export const clientTransactions = (settings: PlainSettings): Contender =>
  transactionContender("sql.withTransaction", settings, (load) =>
    Effect.gen(function* () {
      const sql = yield* PgClient.make({
        host: settings.host,
        port: settings.port,
        username: settings.user,
        database: settings.database,
        maxConnections: load.workers
      })
      yield* openConnections(load, (text) => sql.unsafe(text))
      return yield* loopEffects(load, (worker, call) =>
        sql.withTransaction(
          Effect.forEach(
            transactionStatements(worker, call),
            ({ text, values }) => sql.unsafe(text, values),
            { discard: true }
          )
        )
      )
    }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
  )
