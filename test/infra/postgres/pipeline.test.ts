/** Transactions that are sent at once: one wait, all or nothing, and what a lost connection means. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { transactionStatementsPipelinedMax } from "../../../src/domain/Bounds.ts"
import { CommitUnknown, PluginDb, StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { judge } from "../../../src/infra/postgres/pipeline.ts"
import * as Db from "../../../src/infra/postgres/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { pluginSchema } from "../../support/schemas.ts"
import { inTime } from "../../support/waiting.ts"
import { answeringAfter, losingAnswer, refusingBegin } from "./cuttingProxy.ts"
import { ids, scratch, statement } from "./scratch.ts"

const run = <A, E>(effect: Effect.Effect<A, E, PluginDb | Clone>) => effect.pipe(Effect.provide(scratch(1)))

const add = (id: number) => statement("insert into scratch (id) values ($1) returning id", [id])

describe("PluginDb.pipelined", () => {
  it.live("answers the rows of every statement, and commits them together", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      const rows = yield* db.pipelined("both", [add(1), statement("select 7 as seven"), add(2)])
      assert.deepStrictEqual(rows, [[{ id: 1 }], [{ seven: 7 }], [{ id: 2 }]])
      const written = yield* admin("select count(distinct xmin::text)::int as transactions from scratch")
      assert.deepStrictEqual(written, [{ transactions: 1 }])
    }).pipe(run)
  )

  it.live("sends everything before it waits: no answer is needed for COMMIT to leave", () =>
    Effect.gen(function* () {
      const { address } = yield* answeringAfter((yield* Clone).address, "begin ", "commit\0")
      const db = yield* Db.make({ address, schema: pluginSchema, connectionsMax: 1 })
      yield* inTime("it is committed", db.pipelined("at once", [add(1), add(2), add(3)]))
      assert.deepStrictEqual(yield* ids, [1, 2, 3])
    }).pipe(Effect.scoped, run)
  )

  it.live("stores nothing when a guard raises, tells which, and the connection stays fit", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      yield* admin(`create function guard() returns void language plpgsql as
        $$ begin raise exception 'closed' using errcode = 'HF001'; end $$`)
      const guarded = [add(1), { operation: "the guard", text: "select guard()" }, add(2)]
      const failure = yield* Effect.flip(db.pipelined("guarded", guarded))
      assert.deepInclude(failure, { operation: "the guard", fault: "refused", state: "HF001" })
      const sessions = admin(
        "select pid from pg_stat_activity where application_name like '%daemon%' and datname = current_database()"
      )
      const before = yield* sessions
      yield* db.pipelined("after", [add(3)])
      const after = yield* sessions
      assert.deepStrictEqual([yield* ids, after], [[3], before])
    }).pipe(run)
  )

  it.live("stores nothing when a parameter cannot be sent at all", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const unsendable = statement("select $1::jsonb", [{ not: "encodable" }])
      const failure = yield* Effect.flip(db.pipelined("unsendable", [add(1), unsendable, add(2)]))
      assert.deepInclude(failure, { _tag: "StorageFailure", fault: "query" })
      assert.deepStrictEqual(yield* ids, [])
      yield* db.pipelined("after", [add(3)])
      assert.deepStrictEqual(yield* ids, [3])
    }).pipe(run)
  )

  it.live("is all or nothing when a prepared statement has become stale", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      const star = (id: number) => [
        statement("insert into scratch (id) values ($1) returning *", [id]),
        statement("select * from scratch where id = $1", [id])
      ]
      yield* db.pipelined("prepared", star(1))
      yield* admin("alter table scratch add column more int")
      // The driver notices one stale statement at a time, each by a failure.
      const firstly = yield* Effect.exit(db.pipelined("stale", star(2)))
      assert.deepStrictEqual(yield* ids, Exit.isSuccess(firstly) ? [1, 2] : [1])
      const secondly = yield* Effect.exit(db.pipelined("stale", star(3)))
      assert.strictEqual((yield* ids).includes(3), Exit.isSuccess(secondly))
      yield* db.pipelined("fresh", star(4))
      assert.include(yield* ids, 4)
    }).pipe(run)
  )

  it.live("keeps transactions of concurrent callers apart on one connection", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const pair = (id: number) => db.pipelined("pair", [add(id), ...(id % 4 === 0 ? [add(id)] : [])])
      const numbers = Array.from({ length: 40 }, (_, index) => index)
      yield* Effect.forEach(numbers, (id) => Effect.exit(pair(id)), { concurrency: "unbounded" })
      assert.deepStrictEqual(
        yield* ids,
        numbers.filter((id) => id % 4 !== 0)
      )
    }).pipe(run)
  )

  it.live("BX-04 is unknown when the answer of its COMMIT is lost, although the server has committed", () =>
    Effect.gen(function* () {
      const { address } = yield* losingAnswer((yield* Clone).address, "COMMIT")
      const db = yield* Db.make({ address, schema: pluginSchema, connectionsMax: 1 })
      const failure = yield* Effect.flip(db.pipelined("unanswered", [add(1)]))
      assert.deepStrictEqual(failure, new CommitUnknown({ operation: "unanswered" }))
      assert.deepStrictEqual(yield* ids, [1])
    }).pipe(Effect.scoped, run)
  )

  it.live("stores nothing when the server refuses BEGIN: what follows meets a session that only reads", () =>
    Effect.gen(function* () {
      const { address } = yield* refusingBegin((yield* Clone).address)
      const db = yield* Db.make({ address, schema: pluginSchema, connectionsMax: 1 })
      const failure = yield* Effect.flip(db.pipelined("refused", [add(1), statement("select 1")]))
      assert.deepInclude(failure, { _tag: "StorageFailure", operation: "refused", state: "42601" })
      assert.deepStrictEqual(yield* ids, [])
    }).pipe(Effect.scoped, run)
  )

  it.live("dies without sending anything when there are too many statements", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const many = Array.from({ length: transactionStatementsPipelinedMax + 1 }, (_, id) => add(id))
      const exit = yield* Effect.exit(db.pipelined("flood", many))
      assert.isTrue(Exit.hasDies(exit))
      assert.deepStrictEqual(yield* ids, [])
    }).pipe(run)
  )
})

describe("judge", () => {
  const done = (command: string) =>
    Exit.succeed({ command, rowCount: 0, oid: null, rows: [{ from: command }], fields: [] })
  const failed = (fault: StorageFailure["fault"], state: string | null) =>
    new StorageFailure({ operation: `${fault} ${state}`, fault, state, constraint: null })
  const lost = failed("connection", null)
  const refused = failed("refused", "HF001")
  const skipped = failed("query", "25P02")
  const shutDown = failed("connection", "57P01")
  const poisoned = new StorageFailure({
    operation: "judged",
    fault: "query",
    state: "25P02",
    constraint: null
  })
  const unknown = new CommitUnknown({ operation: "judged" })
  const fail = Exit.fail

  const cases: ReadonlyArray<
    [string, ReadonlyArray<Parameters<typeof judge>[1][number]>, ReturnType<typeof judge>]
  > = [
    [
      "COMMIT answered",
      [done("BEGIN"), done("SELECT"), done("COMMIT")],
      Exit.succeed([[{ from: "SELECT" }]])
    ],
    ["a guard raised", [done("BEGIN"), fail(refused), fail(skipped), done("ROLLBACK")], fail(refused)],
    ["COMMIT answered ROLLBACK", [done("BEGIN"), done("SELECT"), done("ROLLBACK")], fail(poisoned)],
    ["the last answer is lost", [done("BEGIN"), done("SELECT"), fail(lost)], fail(unknown)],
    ["every answer is lost", [fail(lost), fail(lost), fail(lost)], fail(unknown)],
    ["the server shuts down at COMMIT", [done("BEGIN"), done("SELECT"), fail(shutDown)], fail(unknown)],
    ["the server ends the session before", [done("BEGIN"), fail(shutDown), fail(lost)], fail(shutDown)],
    ["a guard raised, then all is lost", [done("BEGIN"), fail(refused), fail(lost)], fail(refused)]
  ]
  for (const [name, answers, expected] of cases) {
    it(`${name}: ${Exit.isSuccess(expected) ? "rows" : "no more than is known"}`, () => {
      assert.deepStrictEqual(judge("judged", answers), expected)
    })
  }
})
