/** The root handle: what it refuses inside a transaction, what a snapshot sees, and what leaves the process. */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import {
  HandleMisuse,
  type InsideTransaction,
  PluginDb,
  PluginTx,
  StorageFailure
} from "../../../src/domain/persistence/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { inTime } from "../../support/waiting.ts"
import { atRoot, ids, inside, insert, scratch, statement } from "./scratch.ts"

type Compiles<R> = unknown extends InsideTransaction<R> ? true : false
const bodyWithRootHandle: Compiles<PluginDb | PluginTx> = false
const bodyWithBoundHandle: Compiles<PluginTx | Clone> = true
const bodyWithNothing: Compiles<never> = true

const run = <A, E>(effect: Effect.Effect<A, E, PluginDb | Clone>, connectionsMax = 4) =>
  effect.pipe(Effect.provide(scratch(connectionsMax)))

const defectOf = (exit: Exit.Exit<unknown, unknown>): unknown =>
  Exit.isFailure(exit) ? exit.cause.reasons.filter(Cause.isDieReason)[0]?.defect : undefined

const handles = Effect.flatMap(Clone, (clone) =>
  Effect.map(
    clone.admin(
      `select count(*)::int as n from pg_stat_activity
        where datname = current_database() and application_name like '%daemon%'`
    ),
    (rows) => Number(rows[0]?.["n"])
  )
)

const rootCalls: ReadonlyArray<[string, (db: PluginDb["Service"]) => Effect.Effect<unknown, unknown>]> = [
  ["query", (db) => db.query({ operation: "misused", text: "insert into scratch values (9)" })],
  ["transaction", (db) => db.transaction("misused", Effect.void)],
  ["snapshot", (db) => db.snapshot("misused", Effect.void)],
  ["pipelined", (db) => db.pipelined("misused", [statement("insert into scratch values (9)")])]
]

describe("PluginDb, guards", () => {
  it("SP-TX-02 a body that requires the root handle does not compile, one with the bound handle does", () => {
    assert.deepStrictEqual([bodyWithRootHandle, bodyWithBoundHandle, bodyWithNothing], [false, true, true])
  })

  for (const [name, call] of rootCalls) {
    it.live(
      `SP-TX-02 ${name} inside a transaction dies, names the call, takes no connection, stores nothing`,
      () =>
        Effect.gen(function* () {
          const db = yield* PluginDb
          const exit = yield* Effect.exit(db.transaction("outer", Effect.andThen(insert(1), call(db))))
          assert.deepStrictEqual(defectOf(exit), new HandleMisuse({ call: "misused" }))
          assert.strictEqual(yield* handles, 1)
          assert.deepStrictEqual(yield* ids, [])
        }).pipe(run)
    )
  }

  it.live("SP-TX-02 a fiber forked inside is refused the root handle as well", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const body = Effect.gen(function* () {
        const child = yield* Effect.forkChild(db.query(statement("select 1")))
        return yield* Fiber.await(child)
      })
      const inner = yield* db.transaction("outer", body)
      assert.instanceOf(defectOf(inner), HandleMisuse)
    }).pipe(run)
  )

  it.live("a fiber that outlives the transaction in which it was forked may use the root handle again", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const later = yield* db.transaction("outer", Effect.context<PluginTx>())
      const rows = yield* db.query(statement("select 1 as one")).pipe(Effect.provide(later))
      assert.deepStrictEqual(rows, [{ one: 1 }])
    }).pipe(run)
  )
})

describe("PluginDb, snapshot", () => {
  it.live("SP-TX-05 sees one snapshot, whatever commits meanwhile", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      const seen = yield* db.snapshot(
        "look twice",
        Effect.gen(function* () {
          const before = yield* inside("select count(*)::int as n from scratch")
          yield* admin("insert into scratch values (1)")
          const after = yield* inside("select count(*)::int as n from scratch")
          return [before, after, (yield* PluginTx).readOnly]
        })
      )
      assert.deepStrictEqual(seen, [[{ n: 0 }], [{ n: 0 }], true])
      assert.deepStrictEqual(yield* ids, [1])
    }).pipe(run)
  )

  it.live(
    "SP-TX-05 takes no row lock and no transaction id: a writer of the row that it read is not blocked",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        const db = yield* PluginDb
        yield* admin("insert into scratch values (1)")
        const locks = yield* db.snapshot(
          "read",
          Effect.gen(function* () {
            const [me] = yield* inside("select pg_backend_pid() as pid, note from scratch where id = 1")
            yield* inTime("the writer is done", admin("update scratch set note = 'written' where id = 1"))
            return yield* admin(
              `select distinct locktype, mode from pg_locks where pid = $1 and locktype <> 'virtualxid' order by 1, 2`,
              [me?.["pid"]]
            )
          })
        )
        assert.deepStrictEqual(locks, [{ locktype: "relation", mode: "AccessShareLock" }])
      }).pipe(run)
  )

  it.live("SP-TX-05 refuses a write", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const failure = yield* Effect.flip(db.snapshot("write", insert(1)))
      assert.instanceOf(failure, StorageFailure)
      assert.deepInclude(failure, { fault: "readonly", state: "25006", operation: "test insert" })
    }).pipe(run)
  )
})

describe("PluginDb, sessions", () => {
  it.live("SP-DB-06 the search path is the supplied schema alone, however it is spelt", () =>
    Effect.gen(function* () {
      const { admin, openDb } = yield* Clone
      const schema = `We"ird, "Name`
      yield* admin(`create schema "We""ird, ""Name"`)
      const db = yield* openDb({ schema })
      yield* db.query(statement("create table found (id int)"))
      const rows = yield* db.query(
        statement("select current_schemas(false) as path, 'found'::regclass::oid::int > 0 as there")
      )
      assert.deepStrictEqual(rows, [{ path: [schema], there: true }])
      assert.strictEqual(db.schema, schema)
    }).pipe(Effect.scoped, run)
  )

  it.live("a statement that is planned while its table is empty goes by the index all the same", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const { admin } = yield* Clone
      const text = "explain (costs off) select from live_operations where project_id = 1"
      yield* admin("vacuum analyze live_operations")
      const [alone] = yield* admin(text)
      assert.match(String(alone?.["QUERY PLAN"]), /^Seq Scan/)
      const [planned] = yield* db.query({ operation: "explained", text })
      assert.match(String(planned?.["QUERY PLAN"]), /^Index (Only )?Scan/)
    }).pipe(run)
  )

  it.live("a failure carries operation, fault, state and constraint, and nothing that the server said", () =>
    Effect.gen(function* () {
      yield* atRoot("insert into scratch values (1, 'secret')")
      const failure = yield* Effect.flip(atRoot("insert into scratch values (1, 'secret')"))
      assert.deepStrictEqual(JSON.parse(JSON.stringify(failure)), {
        _tag: "StorageFailure",
        code: "storage_failure",
        operation: "test insert",
        fault: "unique",
        state: "23505",
        constraint: "scratch_pkey"
      })
      assert.notInclude(failure.message, "secret")
    }).pipe(run)
  )

  const noting = (spans: Array<Tracer.Span>) =>
    Effect.withTracer(
      Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
    )

  it.live("has one span an operation, named by it, and puts no statement into it", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.Span> = []
      const db = yield* PluginDb
      yield* db.transaction("store", insert(1)).pipe(noting(spans))
      assert.deepStrictEqual(
        spans.map((span) => [span.name, Object.fromEntries(span.attributes)]),
        [["store", { "db.system.name": "postgresql" }]]
      )
    }).pipe(run)
  )

  it.live("makes no span in a trace that was decided against, and one beside a part that is not traced", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.Span> = []
      const db = yield* PluginDb
      const below = (sampled: boolean, annotations = Context.empty()) =>
        Effect.withParentSpan(Tracer.externalSpan({ traceId: "0af7", spanId: "b7ad", sampled, annotations }))
      const look = (operation: string) => db.query({ operation, text: "select 1" })
      yield* look("decided against").pipe(below(false), noting(spans))
      yield* look("sampled").pipe(below(true), noting(spans))
      const hidden = Context.make(Tracer.DisablePropagation, true)
      yield* look("beside").pipe(below(false, hidden), noting(spans))
      assert.deepStrictEqual(
        spans.map((span) => span.name),
        ["sampled", "beside"]
      )
    }).pipe(run)
  )
})
