/** The product's own database on an embedded cluster. */
import { assert, describe, it } from "@effect/vitest"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import { inject } from "vitest"
import { endpoint } from "../../../src/infra/postgres/connection.ts"
import { ensureDatabase } from "../../../src/infra/postgres/embeddedDatabase.ts"

describe("ensureDatabase", () => {
  it.live("makes the database where it is missing, and leaves one that is there with what it holds", () =>
    Effect.gen(function* () {
      const { host, username } = inject("cluster")
      const cluster = { socketDirectory: host, user: username }
      const admin = yield* PgConnection.make({ host, username, database: "postgres" })
      yield* Effect.addFinalizer(() =>
        Effect.orDie(admin.query("drop database holdfast with (force)", [], false))
      )
      const address = yield* ensureDatabase(cluster)
      const connection = yield* PgConnection.make(endpoint(address))
      yield* connection.query("create table kept (id int)", [], false)
      assert.deepStrictEqual(yield* ensureDatabase(cluster), address)
      const { rows } = yield* connection.query("select to_regclass('kept') is not null as kept", [], false)
      assert.deepStrictEqual(rows, [{ kept: true }])
    }).pipe(Effect.scoped)
  )
})
