/**
 * Plans of the history's upkeep and reads at a size where a wrong one shows: no walk through a whole table, whether
 * nothing has expired or everything. What a million rows cost is measured by the benchmark of pruning.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { HistoryReader, HistoryStore } from "../../../src/domain/history/HistoryStore.ts"
import { metrics } from "../../../src/domain/history/History.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { PluginDb, PluginTx, type Query } from "../../../src/domain/persistence/PluginDb.ts"
import { fixtureOver, sql } from "../../domain/leases/fixture.ts"

const rows = 60_000
const tables = ["resource_samples", "resource_rollups"]

/** Rows of a thousand Projects, a minute apart, the newest of them so many days old. */
const fill = (ageDays: number) =>
  Effect.forEach(
    tables,
    (table) =>
      Effect.andThen(
        sql(`insert into ${table} (project_id, metric, bucket, minimum, maximum, total, samples)
          select 1 + n % 1000, 1 + n / 1000 % 9, now() - make_interval(days => ${ageDays}, mins => n / 9000), 1, 1, 1, 1
          from generate_series(1, ${rows}) n`),
        sql(`analyze ${table}`)
      ),
    { discard: true }
  )

/** Every statement that upkeep and a read send. */
const statements = Effect.fnUntraced(function* (sent: Array<Query>) {
  const db = yield* PluginDb
  const store = yield* HistoryStore
  const reader = yield* HistoryReader
  const pruning = Effect.flatMap(PluginTx, (tx) =>
    store.prune.pipe(
      Effect.provideService(PluginTx, {
        readOnly: tx.readOnly,
        afterCommit: (effect) => tx.afterCommit(effect),
        query: (query) => {
          sent.push(query)
          return tx.query(query)
        }
      }),
      Effect.andThen(Effect.fail("not to be kept" as const))
    )
  )
  sent.length = 0
  yield* Effect.flip(db.transaction("test.prune", pruning))
  yield* reader.pruneWorkExists
  const range = { metrics: metrics.slice(0, 2), fromMillis: 0, toMillis: 10 ** 14 }
  for (const resolution of ["minute", "hour"] as const) {
    yield* reader.read(ProjectId.make(500), { ...range, resolution })
  }
  return [...sent]
})

/** The plan that is made for whatever parameters come, as that of a statement that is prepared for long. */
const planOf = Effect.fnUntraced(function* ({ parameters = [], text }: Query) {
  const literal = (parameter: unknown): string =>
    Array.isArray(parameter) ? `'{${parameter.join(",")}}'` : `'${String(parameter)}'`
  const plain = text.replace(/\$(\d+)/g, (_, place) => literal(parameters[Number(place) - 1]))
  const plan = yield* sql(`explain ${plain}`)
  return plan.map((row) => row["QUERY PLAN"]).join("\n")
})

describe("plans of the history", () => {
  it.live.each([0, 40])(
    "SP-RES-07 SP-RES-08 no statement walks through a table whose newest row is %s days old",
    (ageDays) => {
      const sent: Array<Query> = []
      const layer = fixtureOver((db) => ({
        ...db,
        query: (query) =>
          Effect.suspend(() => {
            sent.push(query)
            return db.query(query)
          })
      }))
      return Effect.gen(function* () {
        yield* fill(ageDays)
        yield* sql("insert into history_deletions select 500 + n from generate_series(1, 5) n")
        const all = yield* statements(sent)
        assert.deepStrictEqual(
          all.map(({ operation }) => operation),
          [
            "HistoryStore.prune.resource_samples",
            "HistoryStore.prune.resource_rollups",
            "HistoryStore.prune.deletions",
            "HistoryReader.pruneWorkExists",
            "HistoryReader.read",
            "HistoryReader.read"
          ]
        )
        for (const query of all) {
          const plan = yield* planOf(query)
          assert.notMatch(plan, /Seq Scan on resource_/, `${query.operation}\n${plan}`)
          assert.match(plan, /Index (Only )?Scan/)
          if (!query.operation.startsWith("HistoryStore.prune.resource_")) continue
          assert.match(plan, /Index Cond: \(bucket < /, "what has expired comes by its index")
          assert.match(plan, /Index Cond: \(project_id = /, "what a Project has left comes by its key")
        }
      }).pipe(Effect.scoped, Effect.provide(layer))
    },
    30_000
  )
})
