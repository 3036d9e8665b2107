/** The look at the database server before anything is built on it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { placeOf, requireServer } from "../../../src/infra/postgres/serverCheck.ts"
import { databaseVersionMin } from "../../../src/domain/Bounds.ts"
import { Clone, clone } from "../../support/clone.ts"
import { olderBy } from "./cuttingProxy.ts"

const password = "open-sesame"

describe("requireServer", () => {
  it.live("answers the major version of a server that is there", () =>
    Effect.gen(function* () {
      const { address, admin } = yield* Clone
      const [row] = yield* admin("select current_setting('server_version') as told")
      assert.strictEqual(yield* requireServer(address), Number.parseInt(String(row?.["told"]), 10))
    }).pipe(Effect.provide(clone(1)))
  )

  it.live("takes the oldest server that it promises, and refuses an older one with both versions", () =>
    Effect.gen(function* () {
      const { address } = yield* Clone
      const oldest = yield* olderBy(address, databaseVersionMin)
      assert.strictEqual(yield* requireServer(oldest.address), databaseVersionMin)
      const older = yield* olderBy(address, databaseVersionMin - 1)
      const refusal = yield* Effect.flip(requireServer(older.address))
      assert.deepInclude(refusal, { code: "database_too_old", found: 14, needed: 15 })
      assert.include(refusal.message, "runs PostgreSQL 14, and 15 or newer is needed: upgrade it")
    }).pipe(Effect.scoped, Effect.provide(clone(1)))
  )

  it.live("refuses a database that does not exist on a server that does", () =>
    Effect.gen(function* () {
      const { address } = yield* Clone
      const refusal = yield* Effect.flip(requireServer({ ...address, database: "absent" }))
      assert.deepInclude(refusal, { code: "database_unavailable", state: "3D000" })
    }).pipe(Effect.provide(clone(1)))
  )

  it.live("refuses a server that is away, naming the place and not the password", () =>
    Effect.gen(function* () {
      const url = `postgresql://somebody:${password}@127.0.0.1:1/holdfast`
      const refusal = yield* Effect.flip(requireServer({ url }))
      assert.deepInclude(refusal, { code: "database_unavailable", place: "127.0.0.1:1/holdfast" })
      assert.notInclude(JSON.stringify(refusal) + refusal.message, password)
    })
  )
})

describe("placeOf", () => {
  for (const [url, place] of [
    [`postgresql://u:${password}@db.example:5433/hf?sslmode=require`, "db.example:5433/hf"],
    [`postgresql:///hf?host=/run/pg&user=u&password=${password}`, "/run/pg/hf"],
    [`not a url ${password}`, "an address that cannot be read"]
  ] as const) {
    it(`says ${place} and no credentials`, () => {
      assert.strictEqual(placeOf({ url }), place)
    })
  }
})
