/** The harness itself: what it refuses to overlook. */
import { assert, describe, it } from "@effect/vitest"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { inject } from "vitest"
import { PluginDb, PluginTx } from "../../src/domain/persistence/PluginDb.ts"
import config from "../../vitest.config.ts"
import { Clone, clone } from "./clone.ts"
import { everyStep } from "./everyStep.ts"
import { guarded, layerGuarded } from "./outsideGuard.ts"
import { bothOrders, sideBySide } from "./sideBySide.ts"
import { waitFor } from "./waiting.ts"

const outside = Effect.fnUntraced(function* (text: string, parameters: ReadonlyArray<unknown>) {
  const { host, username } = inject("cluster")
  const connection = yield* PgConnection.make({ host, username, database: "postgres" })
  return (yield* connection.query(text, parameters)).rows
}, Effect.scoped)

const exists = (database: string) =>
  outside("select 1 as there from pg_database where datname = $1", [database])

const endOf = (effect: Effect.Effect<unknown, unknown, Clone | PluginDb>) =>
  Effect.exit(effect.pipe(Effect.provide(clone(2))))

describe("a clone", () => {
  it.live("SP-TEST-01 is a database of its own, with both schemas, and is dropped afterwards", () =>
    Effect.gen(function* () {
      const look = Effect.gen(function* () {
        const { address, admin } = yield* Clone
        yield* admin("insert into core.tenants (id, name) values (gen_random_uuid(), 'here only')")
        const tables = yield* admin("select to_regclass('runtimes') is not null as migrated")
        return { database: address.database, tables, there: yield* exists(address.database) }
      }).pipe(Effect.provide(clone()))
      const first = yield* look
      const second = yield* look
      assert.notStrictEqual(first.database, second.database)
      assert.deepStrictEqual([first.tables, first.there], [[{ migrated: true }], [{ there: 1 }]])
      assert.deepStrictEqual(yield* exists(first.database), [])
    })
  )

  it("SP-TEST-01 at most two workers share the machine", () => {
    assert.isAtMost(Number(config.test?.maxWorkers), 2)
  })

  it.live("SP-TEST-01 fails its test when a connection is left after the pools have closed", () =>
    Effect.gen(function* () {
      const kept = yield* Scope.make()
      const leak = Effect.flatMap(Clone, ({ address }) => Scope.provide(PgConnection.make(address), kept))
      const exit = yield* endOf(leak)
      yield* Scope.close(kept, Exit.void)
      assert.isTrue(Exit.hasDies(exit))
    })
  )

  it.live("SP-TEST-01 fails its test when a transaction is left open", () =>
    Effect.gen(function* () {
      const left = Effect.flatMap(PluginDb, (db) =>
        // BEGIN as a statement of the root handle: nobody will ever end it.
        db.query({ operation: "left open", text: "begin" })
      )
      assert.isTrue(Exit.hasDies(yield* endOf(left)))
      assert.isTrue(Exit.isSuccess(yield* endOf(Effect.void)))
    })
  )

  it.live("has a second root handle, as a second daemon has", () =>
    Effect.gen(function* () {
      const { openDb } = yield* Clone
      const me = { operation: "me", text: "select current_setting('application_name') as name" }
      const names = [yield* (yield* PluginDb).query(me), yield* (yield* openDb()).query(me)]
      assert.strictEqual(new Set(names.map((rows) => rows[0]?.["name"])).size, 2)
    }).pipe(Effect.scoped, Effect.provide(clone(1)))
  )
})

describe("waitFor", () => {
  it.live("dies at its deadline and tells what it saw and the diagnosis", () =>
    Effect.gen(function* () {
      const never = waitFor({
        fact: "three",
        look: Effect.succeed(2),
        holds: (seen) => seen === 3,
        diagnosis: Effect.succeed({ why: "stuck" }),
        deadlineMillis: 1
      })
      const message = yield* Effect.catchDefect(never, (defect) => Effect.succeed(String(defect)))
      assert.match(String(message), /three: not after 1 milliseconds; last seen 2; {"why":"stuck"}/)
    })
  )
})

describe("sideBySide", () => {
  const lockRow = (db: PluginDb["Service"], held: Effect.Effect<void>) =>
    db.transaction(
      "lock",
      Effect.flatMap(PluginTx, (tx) =>
        Effect.andThen(tx.query({ operation: "lock", text: "select id from rows for update" }), held)
      )
    )
  const withRow = <A, E>(effect: Effect.Effect<A, E, Clone | PluginDb>) =>
    Effect.flatMap(Clone, ({ admin }) =>
      Effect.andThen(admin("create table rows as select 1 as id"), effect)
    ).pipe(Effect.provide(clone()))

  it.live("tells a contender that waited for a lock from one that did not", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const locked = yield* sideBySide((held) => lockRow(db, held), lockRow(db, Effect.void))
      const read = { operation: "read", text: "select id from rows" }
      const free = yield* sideBySide((held) => lockRow(db, held), db.query(read))
      assert.deepStrictEqual([locked.waited, free.waited], [true, false])
      assert.isTrue(Exit.isSuccess(locked.holder) && Exit.isSuccess(locked.contender))
    }).pipe(withRow)
  )

  it.live("runs both orders on fixtures of their own", () =>
    Effect.gen(function* () {
      const both = yield* bothOrders(Effect.service(PluginDb), lockRow, (db, held) =>
        Effect.andThen(db.query({ operation: "read", text: "select id from rows" }), held)
      )
      assert.deepStrictEqual([both.firstHolds.waited, both.secondHolds.waited], [false, false])
    }).pipe(withRow)
  )
})

describe("everyStep", () => {
  it.live("strikes at each step in each way", () =>
    Effect.gen(function* () {
      const runs: Array<string> = []
      let done: Array<string> = []
      const steps = yield* everyStep({
        kinds: ["failAt", "crashAfter", "repeat"],
        program: (faults) => {
          done = []
          const act = (name: string) =>
            faults.step(
              name,
              Effect.sync(() => void done.push(name)),
              (): "failed" => "failed"
            )
          return Effect.andThen(act("a"), act("b"))
        },
        check: ({ exit, fault }) =>
          Effect.sync(
            () =>
              void runs.push(`${fault?.kind ?? "none"} ${fault?.step ?? ""}: ${done} ${Exit.isSuccess(exit)}`)
          )
      })
      assert.deepStrictEqual(steps, ["a", "b"])
      assert.deepStrictEqual(runs, [
        "none : a,b true",
        "failAt a:  false",
        "crashAfter a: a false",
        "repeat a: a,a,b true",
        "failAt b: a false",
        "crashAfter b: a,b false",
        "repeat b: a,b,b true"
      ])
    })
  )

  it.live("is not content with a program without a step", () =>
    Effect.gen(function* () {
      const none = everyStep({ kinds: ["failAt"], program: () => Effect.void, check: () => Effect.void })
      assert.isTrue(Exit.hasDies(yield* Effect.exit(none)))
    })
  )
})

describe("outsideGuard", () => {
  class Disk extends Context.Service<
    Disk,
    { readonly sync: Effect.Effect<string>; readonly write: (path: string) => Effect.Effect<string> }
  >()("holdfast/test/support/harness/Disk") {}

  const disk = { sync: Effect.succeed("synced"), write: (path: string) => Effect.succeed(path) }
  const inTransaction = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.flatMap(PluginDb, (db) => db.transaction("outer", effect))

  it.live("SP-TX-08 a guarded port dies inside a transaction and works outside", () =>
    Effect.gen(function* () {
      const port = guarded("Disk", disk)
      assert.deepStrictEqual([yield* port.sync, yield* port.write("a")], ["synced", "a"])
      for (const call of [port.sync, port.write("a")]) {
        assert.isTrue(Exit.hasDies(yield* Effect.exit(inTransaction(call))))
      }
    }).pipe(Effect.provide(clone(1)))
  )

  it.live("SP-TX-08 a use that the program swallows fails the test when its fixture closes", () =>
    Effect.gen(function* () {
      const guardedDisk = layerGuarded(Disk, Layer.succeed(Disk, disk))
      const swallowing = Effect.flatMap(Disk, (port) =>
        inTransaction(Effect.catchDefect(port.sync, () => Effect.succeed("swallowed")))
      )
      const exit = yield* Effect.exit(swallowing.pipe(Effect.provide(guardedDisk)))
      assert.isTrue(Exit.hasDies(exit))
    }).pipe(Effect.provide(clone(1)))
  )
})
