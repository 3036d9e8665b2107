/**
 * A database of its own for each fixture: a clone of the template, dropped when the scope closes. A clone that still
 * has an open transaction, or a connection after its pools have closed, makes the test fail. Source: SP-TEST-01.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { inject } from "vitest"
import { PluginDb, type SqlRow } from "../../src/domain/persistence/PluginDb.ts"
import * as Db from "../../src/infra/postgres/PluginDb.ts"
import { pluginSchema } from "./schemas.ts"
import { waitFor } from "./waiting.ts"

/** The clone that a fixture works on. */
export interface CloneShape {
  readonly address: { readonly host: string; readonly username: string; readonly database: string }
  /** A further root handle on the same clone, as a second daemon has it. */
  readonly openDb: (
    options?: Partial<Pick<Db.Options, "schema" | "connectionsMax" | "applicationName">>
  ) => Effect.Effect<PluginDb["Service"], never, Scope.Scope>
  /** A statement on a connection that belongs to no daemon: for what the test itself looks at or arranges. */
  readonly admin: (text: string, parameters?: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<SqlRow>>
}

export class Clone extends Context.Service<Clone, CloneShape>()("holdfast/test/support/clone/Clone") {}

let clones = 0

const nameNext = (): string => {
  clones += 1
  return `c_${process.pid}_${process.env["VITEST_POOL_ID"] ?? "0"}_${clones}`
}

const onServer = (text: string) => {
  const { host, username } = inject("cluster")
  return Effect.scoped(
    Effect.flatMap(PgConnection.make({ host, username, database: "postgres" }), (connection) =>
      connection.query(text, [], false)
    )
  ).pipe(Effect.orDie)
}

const others = `select pid, application_name, state, left(query, 200) as query from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`

const openTransactions = `${others} and state like 'idle in transaction%' and application_name = $1`

/** Closing pools and rolling back take the server a moment; after the deadline it is a leak. */
const noneLeft = (fact: string, look: Effect.Effect<ReadonlyArray<SqlRow>>) =>
  Effect.asVoid(waitFor({ fact, look, holds: (rows) => rows.length === 0, deadlineMillis: 1_000 }))

const makeFrom = (template: string): Effect.Effect<CloneShape, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { host, username } = inject("cluster")
    const database = nameNext()
    const address = { host, username, database }
    yield* Effect.acquireRelease(
      onServer(`create database ${database} template ${template} strategy file_copy`),
      () => onServer(`drop database if exists ${database} with (force)`)
    )
    const connection = yield* Effect.orDie(
      PgConnection.make({ ...address, startupParameters: { search_path: pluginSchema } })
    )
    const admin: CloneShape["admin"] = (text, parameters) =>
      Effect.map(
        Effect.orDie(connection.query(text, parameters ?? [], false)),
        (result): ReadonlyArray<SqlRow> => result.rows
      )
    yield* Effect.addFinalizer(() => noneLeft("every connection to the clone is closed", admin(others)))
    let handles = 0
    const openDb: CloneShape["openDb"] = (options = {}) =>
      Effect.gen(function* () {
        handles += 1
        const applicationName = options.applicationName ?? `${database}_daemon_${handles}`
        const db = yield* Effect.orDie(
          Db.make({ address, schema: pluginSchema, connectionsMax: 4, ...options, applicationName })
        )
        yield* Effect.addFinalizer(() =>
          noneLeft("no transaction is left open", admin(openTransactions, [applicationName]))
        )
        return db
      })
    return { address, admin, openDb }
  })

/** Makes a clone of the migrated template; its connections and itself are gone when the scope closes. */
export const makeClone: Effect.Effect<CloneShape, never, Scope.Scope> = Effect.suspend(() =>
  makeFrom(inject("cluster").template)
)

/** Makes a database in which nothing was migrated yet. */
export const makeEmpty: Effect.Effect<CloneShape, never, Scope.Scope> = makeFrom("template0")

const withHandle = (made: Effect.Effect<CloneShape, never, Scope.Scope>, connectionsMax: number) =>
  Layer.effect(
    PluginDb,
    Effect.flatMap(Clone, ({ openDb }) => openDb({ connectionsMax }))
  ).pipe(Layer.provideMerge(Layer.effect(Clone, made)))

/** A clone with one root handle on it, of `connectionsMax` connections: 4 unless told otherwise. */
export const clone = (connectionsMax = 4): Layer.Layer<Clone | PluginDb> =>
  withHandle(makeClone, connectionsMax)

/** The same on a database in which nothing was migrated yet. */
export const emptyClone = (connectionsMax = 4): Layer.Layer<Clone | PluginDb> =>
  withHandle(makeEmpty, connectionsMax)
