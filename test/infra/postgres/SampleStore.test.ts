/** The one statement of a batch of samples: the same as step by step, past held rows, and nothing of a stale one; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { bucketOf, metrics } from "../../../src/domain/history/History.ts"
import { Generation, type ProjectId } from "../../../src/domain/Identity.ts"
import { SampleStore } from "../../../src/domain/sampling/SampleStore.ts"
import { heldTransaction, onClone, seedRuntime, sql, sqlInside } from "../../domain/leases/fixture.ts"
import { composedRecord } from "../../domain/sampling/composedRecord.ts"
import { baseMillis, everythingStored, sampleOf } from "../../domain/sampling/samples.ts"
import { makeSeededRandom, type SeededRandom } from "../../support/seededRandom.ts"

const seedRuntimes = (count: number) =>
  Effect.map(
    Effect.forEach(
      Array.from({ length: count }, (_, at) => `project-${at}`),
      (name) => seedRuntime(name)
    ),
    (all) => all.map(({ project }) => project)
  )

const newEpoch = (project: ProjectId) =>
  sql("update runtimes set refresh_epoch = refresh_epoch + 1 where project_id = $1::bigint", [project])

/** Three Projects each for one way and the other; what happens to the one happens to the other. */
interface Pair {
  readonly batched: ProjectId
  readonly composed: ProjectId
  epoch: number
  lastMillis: number
}

const stepMillis = (random: SeededRandom): number =>
  random.pick([
    10_000,
    10_000,
    10_000,
    1,
    0,
    -5_000,
    59_999,
    60_000,
    bucketOf("minute", 3_600_000 * random.below(3)),
    200_000
  ])

const someValues = (random: SeededRandom) =>
  Object.fromEntries(
    metrics
      .filter(() => random.percent(70))
      .map((metric) => [metric, random.below(random.pick([3, 1_000_000]))])
  )

/** Rows of one of the two ways, with the Projects named by their places. */
const rowsOf = (
  stored: typeof everythingStored extends Effect.Effect<infer A, infer _E, infer _R> ? A : never
) => {
  const of = (projects: ReadonlyArray<ProjectId>) =>
    Object.fromEntries(
      Object.entries(stored).map(([name, rows]) => [
        name,
        rows
          .map((row) => ({
            ...row,
            at: projects.indexOf((row["project_id"] ?? row["project"]) as ProjectId)
          }))
          .filter(({ at }) => at >= 0)
          .map((row) => ({ ...row, project_id: row.at, project: row.at }))
      ])
    )
  return of
}

describe("SampleStore.recordMany", () => {
  it.live(
    "SP-RES-02 SP-RES-04 a batch is what its samples are step by step, in answers and in rows",
    () =>
      Effect.gen(function* () {
        const seed = 20_261_130
        const random = makeSeededRandom(seed)
        const projects = yield* seedRuntimes(8)
        const pairs = projects.slice(0, 4).map((batched, at): Pair => {
          return { batched, composed: projects[at + 4]!, epoch: 0, lastMillis: baseMillis }
        })
        const { recordMany } = yield* SampleStore
        for (let round = 0; round < 60; round += 1) {
          const why = `seed ${seed}, round ${round}`
          const asked = pairs
            .filter(() => random.percent(80))
            .map((pair) => {
              const startedAtMillis = pair.lastMillis + stepMillis(random)
              const refreshEpoch = random.percent(5) ? pair.epoch + 1 : pair.epoch
              const times = { startedAtMillis, nowMillis: startedAtMillis, refreshEpoch }
              return { pair, partial: { ...times, values: someValues(random) } }
            })
          const samples = yield* Effect.forEach(asked, ({ pair, partial }) => sampleOf(pair.batched, partial))
          const { accepted, busy } = yield* recordMany(samples)
          assert.deepStrictEqual([...busy], [])
          for (const { pair, partial } of asked) {
            const sample = yield* sampleOf(pair.composed, partial)
            const wasAccepted = yield* composedRecord(sample)
            assert.strictEqual(accepted.has(pair.batched), wasAccepted, why)
            if (wasAccepted) pair.lastMillis = partial.startedAtMillis
          }
          for (const pair of pairs.filter(() => random.percent(10))) {
            pair.epoch += 1
            yield* newEpoch(pair.batched)
            yield* newEpoch(pair.composed)
          }
          const stored = rowsOf(yield* everythingStored)
          assert.deepStrictEqual(
            stored(pairs.map(({ batched }) => batched)),
            stored(pairs.map(({ composed }) => composed)),
            why
          )
        }
        const [counts] = yield* sql(
          "select (select count(*) from resource_samples)::int as minutes, (select count(*) from resource_rollups)::int as hours"
        )
        assert.isAbove(Number(counts?.["minutes"]), 100, "the samples have closed minutes")
        assert.isAbove(Number(counts?.["hours"]), 20, "and hours")
      }).pipe(onClone),
    30_000
  )

  it.live("SP-RES-04 stale samples in a batch write nothing, and the others of it stay", () =>
    Effect.gen(function* () {
      const [generation, epoch, late, deleted, gone, fresh] = yield* seedRuntimes(6)
      const { recordMany } = yield* SampleStore
      yield* recordMany([yield* sampleOf(late!, { startedAtMillis: baseMillis + 1_000 })])
      yield* sql("update runtimes set observed = 'deleted' where project_id = $1::bigint", [deleted])
      yield* sql("delete from runtimes where project_id = $1::bigint", [gone])
      const before = yield* everythingStored
      const stale = [
        yield* sampleOf(generation!, { generation: Generation.make(2) }),
        yield* sampleOf(epoch!, { refreshEpoch: 1 }),
        yield* sampleOf(late!, { startedAtMillis: baseMillis + 1_000 }),
        yield* sampleOf(deleted!),
        yield* sampleOf(gone!)
      ]
      const answer = yield* recordMany([...stale, yield* sampleOf(fresh!)])
      assert.deepStrictEqual(answer, { accepted: new Set([fresh!]), busy: new Set<ProjectId>() })
      const after = yield* everythingStored
      const ofOthers = (rows: ReadonlyArray<Readonly<Record<string, unknown>>>) =>
        rows.filter((row) => (row["project_id"] ?? row["project"]) !== fresh)
      assert.deepStrictEqual(ofOthers(after.samples), ofOthers(before.samples))
      assert.deepStrictEqual(ofOthers(after.minutes), ofOthers(before.minutes))
      assert.lengthOf(after.minutes, before.minutes.length + 2)
    }).pipe(onClone)
  )

  it.live("SP-RES-02 rows that others hold are busy and delay no other: those are recorded", () =>
    Effect.gen(function* () {
      const [held, free] = yield* seedRuntimes(2)
      const { recordMany } = yield* SampleStore
      const batch = [yield* sampleOf(held!), yield* sampleOf(free!)]
      const holder = yield* heldTransaction(
        sqlInside("select 1 from runtimes where project_id = $1::bigint for update", [held])
      )
      const answer = yield* recordMany(batch).pipe(Effect.timeout("5 seconds"))
      assert.deepStrictEqual(answer, { accepted: new Set([free!]), busy: new Set([held!]) })
      yield* holder.release
      assert.deepStrictEqual(yield* recordMany(batch), {
        accepted: new Set([held!]),
        busy: new Set<ProjectId>()
      })
    }).pipe(onClone)
  )

  it.live(
    "SP-RES-05 a bucket that is in the history against all rules is merged into when it is closed alone",
    () =>
      Effect.gen(function* () {
        const [project, other] = yield* seedRuntimes(2)
        const { recordMany } = yield* SampleStore
        const at = (startedAtMillis: number, values = { pids: 5 }) => ({ startedAtMillis, values })
        yield* recordMany([yield* sampleOf(project!, at(baseMillis))])
        yield* sql(
          `insert into resource_samples (project_id, metric, bucket, minimum, maximum, total, samples)
          values ($1::bigint, 9, to_timestamp($2::bigint / 1000), 7, 7, 7, 1)`,
          [project, baseMillis]
        )
        const next = yield* sampleOf(project!, at(baseMillis + 60_000))
        const before = yield* everythingStored
        const refused = yield* Effect.flip(recordMany([next, yield* sampleOf(other!)]))
        assert.strictEqual(refused.fault, "unique")
        assert.deepStrictEqual(yield* everythingStored, before, "SP-RES-03 nothing of the whole batch")
        assert.isTrue((yield* recordMany([next])).accepted.has(project!))
        const row = {
          project,
          metric: "pids",
          bucket: baseMillis,
          minimum: 5,
          maximum: 7,
          total: 12,
          samples: 2
        }
        assert.deepStrictEqual((yield* everythingStored).minutes[0], row)
      }).pipe(onClone)
  )

  it.live(
    "SP-RES-06 what ends a run of the machine closes its minute and its hour; removal drops what is open",
    () =>
      Effect.gen(function* () {
        const [stopped, replaced, removed, running] = yield* seedRuntimes(4)
        const { recordMany } = yield* SampleStore
        for (const startedAtMillis of [baseMillis, baseMillis + 60_000]) {
          const one = (project: ProjectId) => sampleOf(project, { startedAtMillis, values: { pids: 3 } })
          yield* recordMany(yield* Effect.forEach([stopped!, replaced!, removed!, running!], one))
        }
        const before = yield* everythingStored
        const change = (project: ProjectId | undefined, text: string) =>
          sql(`${text} where project_id = $1::bigint`, [project])
        yield* change(stopped, "update runtimes set observed = 'stopped', refresh_epoch = refresh_epoch + 1")
        yield* change(
          replaced,
          "update runtimes set generation = generation + 1, refresh_epoch = refresh_epoch + 1"
        )
        yield* change(running, "update runtimes set refresh_epoch = refresh_epoch, changed_at = now()")
        const after = yield* everythingStored
        assert.deepStrictEqual([after.minutes, after.hours], [before.minutes, before.hours])
        const closedOf = (project: ProjectId | undefined) =>
          after.closed.filter((row) => row["project"] === project).map((row) => row["kind"])
        assert.deepStrictEqual(closedOf(stopped), ["hour", "minute", "minute"])
        assert.deepStrictEqual(closedOf(replaced), ["hour", "minute", "minute"])
        assert.deepStrictEqual(closedOf(running), ["minute"])
        yield* change(removed, "delete from runtimes")
        const { hours, minutes } = yield* everythingStored
        assert.lengthOf(hours, before.hours.length - 1)
        assert.lengthOf(minutes, before.minutes.length - 1)
      }).pipe(onClone)
  )

  it.live("the places of the metrics in the schema are those of the domain's list", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* sql("select metric_names() as names"), [{ names: [...metrics] }])
    }).pipe(onClone)
  )

  it.live("no index of the runtimes names a column that a sample writes, so that it can be heap-only", () =>
    Effect.gen(function* () {
      const indexed = yield* sql(`select distinct a.attname::text as name from pg_index i
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
        where i.indrelid = 'runtimes'::regclass`)
      assert.deepStrictEqual(indexed, [{ name: "project_id" }])
    }).pipe(onClone)
  )
})
