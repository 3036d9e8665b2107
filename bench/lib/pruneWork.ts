/**
 * P11's contender: the product's upkeep of a history of so many rows. Each run works on clones of databases that were
 * filled once: one in which every row has expired, and one in which none has.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { historyPruneRowsMax, minuteHistorySeconds } from "../../src/domain/Bounds.ts"
import { prunePass } from "../../src/domain/history/maintenance.ts"
import { HistoryReader } from "../../src/domain/history/HistoryStore.ts"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import * as HistoryStore from "../../src/infra/postgres/HistoryStore.ts"
import { migrateBoth, pluginSchema } from "./admission.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { handleOn, sampledOut } from "./handles.ts"
import { type PlainSettings, plainClient, runPlainly } from "./plainPg.ts"
import { median } from "./statistics.ts"

type Age = "expired" | "live"

const nameOf = (age: Age, rows: number): string => `${age}_${rows}`
const inSchema = (settings: PlainSettings, database: string): PlainSettings => ({
  ...settings,
  database,
  options: `-c search_path=${pluginSchema}`
})
const rowsEachProject = 2_000

/** Rows of Projects with two thousand each, in the order in which minutes are closed: the metrics of one side by side. */
const fillText = (age: Age, rows: number): string => {
  const projects = Math.max(1, rows / rowsEachProject)
  const oldest = `now() - interval '${age === "expired" ? minuteHistorySeconds + 86_400 : minuteHistorySeconds - 3_600} seconds'`
  return `insert into resource_samples (project_id, metric, bucket, minimum, maximum, total, samples)
    select 1 + n / 8 % ${projects}, 1 + n % 8, ${oldest} + n / (8 * ${projects}) * interval '1 minute', n, n, n, 6
    from generate_series(0, ${rows} - 1) n`
}

/** Fills one database of each age, once. */
export const fillHistory = (settings: PlainSettings, rows: number) =>
  Effect.forEach(
    ["expired", "live"] as const,
    (age) => {
      const database = nameOf(age, rows)
      return Effect.gen(function* () {
        yield* runPlainly(settings, [`create database ${database}`])
        yield* migrateBoth({ ...settings, database })
        yield* runPlainly(inSchema(settings, database), [fillText(age, rows), "vacuum analyze"])
      })
    },
    { discard: true }
  )

/** A clone for the scope; what its pages were is read once before anything is timed. */
const cloned = (
  settings: PlainSettings,
  age: Age,
  rows: number
): Effect.Effect<PlainSettings, Error, Scope.Scope> =>
  Effect.gen(function* () {
    const database = `run_${nameOf(age, rows)}`
    const drop = runPlainly(settings, [`drop database if exists ${database} with (force)`])
    yield* Effect.acquireRelease(
      Effect.andThen(
        drop,
        runPlainly(settings, [
          `create database ${database} template ${nameOf(age, rows)} strategy file_copy`,
          "checkpoint"
        ])
      ),
      () => Effect.ignore(drop)
    )
    const clone = inSchema(settings, database)
    yield* runPlainly(clone, ["select count(bucket), count(id) from resource_samples"])
    return clone
  })

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const begun = performance.now()
    const value = yield* effect
    return { value, millis: performance.now() - begun }
  })

const onHistory = <A, E>(
  clone: PlainSettings,
  use: Effect.Effect<A, E, PluginDb | HistoryReader | Layer.Success<typeof HistoryStore.layer>>
) =>
  Effect.gen(function* () {
    const db = Layer.succeed(PluginDb, yield* handleOn(clone, pluginSchema, 1))
    return yield* use.pipe(Effect.provide(HistoryStore.layer.pipe(Layer.provideMerge(db))))
  }).pipe(sampledOut, Effect.scoped)

/** One pass, which has to remove as many rows as it may. */
const fullPass = Effect.flatMap(timed(prunePass()), ({ millis, value }) =>
  value.removed === historyPruneRowsMax
    ? Effect.succeed(millis)
    : Effect.fail(new Error(`a pass removed ${value.removed} rows`))
)

const holdOldest =
  "select 1 from resource_samples where id in (select id from resource_samples order by id limit 500) for update"

/** Passes over expired rows, in turns alone and beside a transaction that holds the 500 rows that come first. */
const passes = (clone: PlainSettings) =>
  Effect.gen(function* () {
    const holder = yield* plainClient(clone)
    const ask = (text: string) => Effect.promise(() => holder.query(text))
    return yield* onHistory(
      clone,
      Effect.gen(function* () {
        for (let warm = 0; warm < 2; warm++) yield* fullPass
        const alone: Array<number> = []
        const beside: Array<number> = []
        for (let turn = 0; turn < 3; turn++) {
          alone.push(yield* fullPass)
          yield* ask("begin")
          yield* ask(holdOldest)
          beside.push(yield* fullPass)
          yield* ask("rollback")
        }
        return { passMillis: median(alone), lockedRatio: median(beside) / median(alone) }
      })
    )
  })

/** The look when there is nothing to do, and passes that find nothing but deleted Projects. */
const quiet = (clone: PlainSettings) =>
  Effect.gen(function* () {
    const client = yield* plainClient(clone)
    return yield* onHistory(
      clone,
      Effect.gen(function* () {
        const { pruneWorkExists } = yield* HistoryReader
        const idle: Array<number> = []
        for (let turn = 0; turn < 25; turn++) {
          const { millis, value } = yield* timed(pruneWorkExists)
          if (value) return yield* Effect.fail(new Error("there is work where none is"))
          if (turn >= 5) idle.push(millis)
        }
        yield* Effect.promise(() =>
          client.query(
            "insert into history_deletions select distinct project_id from resource_samples limit 4"
          )
        )
        const deleted: Array<number> = []
        for (let turn = 0; turn < 7; turn++) {
          const millis = yield* fullPass
          if (turn >= 2) deleted.push(millis)
        }
        return { idleMillis: median(idle), deletedMillis: median(deleted) }
      })
    )
  })

/** The product's passes and looks at so many rows. `growth` is against the smallest history of the same round. */
export const upkeep = (settings: PlainSettings, smallest: number): Contender => {
  let base = Number.NaN
  return {
    name: "prunePass",
    run: ({ workers: rows }: Load) =>
      Effect.gen(function* () {
        const old = yield* passes(yield* cloned(settings, "expired", rows))
        const rest = yield* quiet(yield* cloned(settings, "live", rows))
        if (rows === smallest) base = old.passMillis
        return { ...old, ...rest, growth: old.passMillis / base } satisfies Figures
      }),
    check: Effect.succeed([])
  }
}

/** Everything that has expired, pass by pass to the end: what one costs, and the last tenth beside the first. */
export const wholeBacklog = (settings: PlainSettings): Contender => {
  let left = Number.NaN
  return {
    name: "every pass to the end",
    run: ({ workers: rows }: Load) =>
      Effect.gen(function* () {
        const clone = yield* cloned(settings, "expired", rows)
        const millis: Array<number> = []
        yield* onHistory(
          clone,
          Effect.gen(function* () {
            for (;;) {
              const pass = yield* timed(prunePass())
              if (!pass.value.worked) break
              if (pass.value.removed > historyPruneRowsMax)
                yield* Effect.fail(new Error("a pass was too large"))
              millis.push(pass.millis)
            }
          })
        )
        const { rows: found } = yield* runPlainly(clone, [
          "select count(*)::int as left from resource_samples"
        ])
        left = Number(found[0]?.["left"])
        const tenth = Math.max(1, Math.floor(millis.length / 10))
        return {
          passMillis: median(millis),
          maxMillis: Math.max(...millis),
          passes: millis.length,
          lastTenth: median(millis.slice(-tenth)) / median(millis.slice(0, tenth))
        } satisfies Figures
      }),
    check: Effect.sync(() => (left === 0 ? [] : [`${left} expired rows are left`]))
  }
}
