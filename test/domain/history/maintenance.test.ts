/** Pruning the resource history in bounded passes; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import {
  historyDeletionsAtOnceMax,
  historyPruneRowsMax,
  hourHistorySeconds,
  minuteHistorySeconds
} from "../../../src/domain/Bounds.ts"
import { HistoryStore } from "../../../src/domain/history/HistoryStore.ts"
import { pruneHistory, prunePass, readHistory } from "../../../src/domain/history/maintenance.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { fixtureOver, heldTransaction, onClone, sql, sqlInside } from "../leases/fixture.ts"

const tables = { resource_samples: minuteHistorySeconds, resource_rollups: hourHistorySeconds } as const

/** Rows of one Project, `ageSeconds` old and going back from there, a bucket each. */
const seed = (
  table: keyof typeof tables,
  {
    ageSeconds,
    project,
    rows
  }: { readonly ageSeconds: number; readonly project: number; readonly rows: number }
) =>
  sql(
    `insert into ${table} (project_id, metric, bucket, minimum, maximum, total, samples)
      select $1::bigint, 9, now() - make_interval(secs => $2::float8 + n), 1, 1, 1, 1
      from generate_series(0, $3::int - 1) n order by n desc`,
    [project, ageSeconds, rows]
  )

const expired = (table: keyof typeof tables, rows: number, project = 1) =>
  seed(table, { ageSeconds: tables[table] + 60, project, rows })
const kept = (table: keyof typeof tables, rows: number, project = 1) =>
  seed(table, { ageSeconds: tables[table] - 60 - rows, project, rows })

const count = (table: string, condition = "true") =>
  Effect.map(sql(`select count(*)::int as n from ${table} where ${condition}`), ([row]) => Number(row?.["n"]))

const queueDeletion = Effect.fnUntraced(function* (project: number) {
  const db = yield* PluginDb
  const store = yield* HistoryStore
  yield* db.transaction("test.queueDeletion", store.queueDeletion(ProjectId.make(project)))
})

/** Runs every standalone statement so that the transaction id that it was given, if any, can be read behind it. */
const watchedForIds = () => {
  const ids: Array<unknown> = []
  const layer = fixtureOver((db) => ({
    ...db,
    query: (query) =>
      db
        .transaction(
          query.operation,
          Effect.gen(function* () {
            const tx = yield* PluginTx
            const rows = yield* tx.query(query)
            const [row] = yield* tx.query({
              operation: "test.id",
              text: "select pg_current_xact_id_if_assigned()::text as id"
            })
            ids.push(row?.["id"])
            return rows
          })
        )
        // A single statement of the port cannot tell of a lost COMMIT: here it is the test that would be broken.
        .pipe(Effect.orDie),
    transaction: (operation, body) => {
      ids.push(operation)
      return db.transaction(operation, body)
    }
  }))
  return { ids, layer }
}

const nothingToDo = { worked: false, removed: 0, forgotten: 0 }

describe("pruning", () => {
  it.live("SP-RES-07 with nothing to do a pass assigns no transaction id and opens no transaction", () => {
    const { ids, layer } = watchedForIds()
    return Effect.gen(function* () {
      yield* kept("resource_samples", 5)
      yield* kept("resource_rollups", 5)
      ids.length = 0
      assert.deepStrictEqual(yield* prunePass(), nothingToDo)
      assert.deepStrictEqual(ids, [null])
      yield* sql("update resource_samples set samples = 2")
      assert.isString(ids.at(-1), "a write is seen to be given one")
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.live("SP-RES-07 an expired minute, an expired hour or a deleted Project alone is work", () =>
    Effect.gen(function* () {
      for (const table of ["resource_samples", "resource_rollups"] as const) {
        yield* expired(table, 1)
        assert.deepStrictEqual(yield* prunePass(), { worked: true, removed: 1, forgotten: 0 })
      }
      yield* queueDeletion(1)
      assert.deepStrictEqual(yield* prunePass(), { worked: true, removed: 0, forgotten: 1 })
      assert.deepStrictEqual(yield* prunePass(), nothingToDo)
    }).pipe(onClone)
  )

  it.live(
    "SP-RES-08 one pass removes at most 1,000 rows of minutes, hours and deleted Projects together",
    () =>
      Effect.gen(function* () {
        yield* expired("resource_samples", 400)
        yield* kept("resource_samples", 300, 2)
        yield* expired("resource_rollups", 400)
        yield* kept("resource_rollups", 300, 2)
        yield* queueDeletion(2)
        assert.strictEqual((yield* prunePass()).removed, historyPruneRowsMax)
        assert.strictEqual((yield* count("resource_samples")) + (yield* count("resource_rollups")), 400)
        assert.strictEqual(yield* count("history_deletions"), 1)
        assert.strictEqual((yield* prunePass()).removed, 400)
        assert.strictEqual(yield* count("history_deletions"), 0)
      }).pipe(onClone)
  )

  it.live("SP-RES-08 a pass takes rows in the order of their identity", () =>
    Effect.gen(function* () {
      yield* expired("resource_samples", 1_500)
      // Identities in an order that has nothing to do with the age.
      yield* sql("update resource_samples set bucket = bucket - make_interval(secs => 4000 * (id % 7))")
      const oldest = yield* sql("select id::int from resource_samples order by id offset 1000")
      yield* prunePass()
      assert.deepStrictEqual(yield* sql("select id::int from resource_samples order by id"), oldest)
    }).pipe(onClone)
  )

  it.live("SP-RES-08 rows that another transaction holds stall no pass: it takes a thousand others", () =>
    Effect.gen(function* () {
      yield* expired("resource_samples", 1_600)
      const oldest = "id in (select id from resource_samples order by id limit 500)"
      const holder = yield* heldTransaction(
        sqlInside(`select 1 from resource_samples where ${oldest} for update`)
      )
      const pass = yield* prunePass().pipe(Effect.timeout("5 seconds"))
      assert.strictEqual(pass.removed, historyPruneRowsMax)
      assert.strictEqual(yield* count("resource_samples", oldest), 500)
      yield* holder.release
      assert.strictEqual((yield* prunePass()).removed, 600)
    }).pipe(onClone)
  )

  it.live("SP-RES-09 repeated passes finish any backlog and lose no row that should stay", () =>
    Effect.gen(function* () {
      yield* expired("resource_samples", 2_700)
      yield* kept("resource_samples", 50)
      yield* expired("resource_rollups", 1_300)
      yield* kept("resource_rollups", 50)
      yield* kept("resource_samples", 1_100, 2)
      yield* kept("resource_rollups", 700, 2)
      yield* expired("resource_rollups", 700, 2)
      yield* kept("resource_samples", 20, 3)
      yield* queueDeletion(2)
      yield* queueDeletion(2)
      const staying =
        "select project_id::int, bucket::text from resource_samples where project_id <> 2 and bucket > now() - interval '1 day' order by 1, 2"
      const before = yield* sql(staying)
      assert.lengthOf(before, 70)
      assert.strictEqual(yield* pruneHistory(), 2_700 + 1_300 + 1_100 + 700 + 700)
      assert.deepStrictEqual(yield* sql(staying), before)
      assert.strictEqual(yield* count("resource_samples"), 70)
      assert.strictEqual(yield* count("resource_rollups"), 50)
      assert.strictEqual(yield* count("history_deletions"), 0)
      assert.deepStrictEqual(yield* prunePass(), nothingToDo)
    }).pipe(onClone)
  )

  it.live.each(["resource_samples", "resource_rollups"] as const)(
    "SP-RES-09 a deleted Project with more %s than a pass takes is not forgotten before the last of them",
    (table) =>
      Effect.gen(function* () {
        yield* kept(table, historyPruneRowsMax + 1)
        yield* queueDeletion(1)
        assert.strictEqual((yield* prunePass()).removed, historyPruneRowsMax)
        assert.strictEqual((yield* prunePass()).removed, 1)
        assert.strictEqual(yield* count(table), 0)
      }).pipe(onClone)
  )

  it.live(
    "SP-RES-09 more deleted Projects than a pass looks at are all forgotten, those without rows too",
    () =>
      Effect.gen(function* () {
        const projects = historyDeletionsAtOnceMax + 40
        yield* sql(
          `insert into resource_rollups (project_id, metric, bucket, minimum, maximum, total, samples)
          select n, 9, date_trunc('hour', now()), 1, 1, 1, 1 from generate_series(1, $1::int, 2) n`,
          [projects]
        )
        yield* sql("insert into history_deletions select n from generate_series(1, $1::int) n", [projects])
        yield* kept("resource_rollups", 3, projects + 1)
        yield* pruneHistory()
        assert.strictEqual(yield* count("history_deletions"), 0)
        assert.strictEqual(yield* count("resource_rollups"), 3)
      }).pipe(onClone)
  )

  it.live("a chart's range is refused where one read cannot answer it", () =>
    Effect.gen(function* () {
      const range = { metrics: ["pids"], resolution: "minute", fromMillis: 0, toMillis: 10 ** 12 } as const
      const refusal = yield* Effect.flip(readHistory(ProjectId.make(1), range))
      assert.deepInclude(refusal, { code: "history_range_refused" })
      assert.deepStrictEqual(yield* readHistory(ProjectId.make(1), { ...range, toMillis: 60_000 }), [])
    }).pipe(onClone)
  )
})
