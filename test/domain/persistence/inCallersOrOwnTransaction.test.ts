/** Writes that join the caller's transaction or open their own. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { inCallersOrOwnTransaction } from "../../../src/domain/persistence/inCallersOrOwnTransaction.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { Clone, clone } from "../../support/clone.ts"

const log = Effect.flatMap(PluginTx, (tx) =>
  tx.query({ operation: "log", text: "insert into lines values (txid_current()::text)" })
)

const lines = Effect.flatMap(Clone, ({ admin }) => admin("select line from lines"))

const onClone = <A, E>(effect: Effect.Effect<A, E, Clone | PluginDb>) =>
  Effect.flatMap(Clone, ({ admin }) => Effect.andThen(admin("create table lines (line text)"), effect)).pipe(
    Effect.provide(clone(1))
  )

describe("inCallersOrOwnTransaction", () => {
  it.live("SP-TX-06 opens a transaction of its own when called alone", () =>
    Effect.gen(function* () {
      const write = inCallersOrOwnTransaction(yield* PluginDb)
      yield* write("log", log)
      assert.strictEqual((yield* lines).length, 1)
    }).pipe(onClone)
  )

  it.live("SP-TX-06 joins the caller's: both writes have one transaction, and go with it", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const write = inCallersOrOwnTransaction(db)
      yield* db.transaction("caller", Effect.andThen(log, write("log", log)))
      assert.strictEqual(new Set((yield* lines).map((row) => row["line"])).size, 1)
      const refused = Effect.andThen(write("log", log), Effect.fail("no"))
      yield* Effect.exit(db.transaction("caller", refused))
      assert.strictEqual((yield* lines).length, 2)
    }).pipe(onClone)
  )
})
