/** The product's own database on its embedded cluster: made when it is missing. Its schemas are migrate.ts's. */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import { databaseConnectMillisMax } from "../../domain/Bounds.ts"
import type { Address } from "./connection.ts"
import { quoted } from "./connection.ts"
import type { Cluster } from "./EmbeddedCluster.ts"
import { storageFailure } from "./storageFailure.ts"

const databaseName = "holdfast"

/** Address of the database on a running cluster, which has it after this. Fails with `StorageFailure`. */
export const ensureDatabase = Effect.fn("embeddedDatabase.ensure")(
  function* (cluster: Pick<Cluster, "socketDirectory" | "user">) {
    const server = { host: cluster.socketDirectory, username: cluster.user }
    const connection = yield* PgConnection.make({
      ...server,
      database: "postgres",
      connectTimeout: databaseConnectMillisMax
    })
    const found = yield* connection.query("select 1 from pg_database where datname = $1", [databaseName])
    if (found.rows.length === 0) yield* connection.query(`create database ${quoted(databaseName)}`, [], false)
    const address: Address = { ...server, database: databaseName }
    return address
  },
  Effect.scoped,
  Effect.mapError((error) => storageFailure("embeddedDatabase.ensure", error))
)
