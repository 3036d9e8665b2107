/**
 * graphile-worker's `addJob` as a contender of P1: a job is stored and durable. It knows no Project, no access of a
 * caller, no generation and no repeated request, all of which an admission checks in the same round trip.
 */
import * as Effect from "effect/Effect"
import { Logger, makeWorkerUtils, run, runOnce, type WorkerUtils } from "graphile-worker"
import { createRequire } from "node:module"
import { loopPromises } from "./closedLoop.ts"
import { counted } from "./counted.ts"
import type { Contender, Load } from "./definition.ts"
import { latencyFigures, paced } from "./dispatchWork.ts"
import { drained, timedDrain } from "./drainWork.ts"
import { type PlainSettings, runPlainly } from "./plainPg.ts"

/** A pool of `pg`, of which the queue's types tell. */
type Pool = NonNullable<Parameters<typeof makeWorkerUtils>[0]["pgPool"]>
const { Pool } = createRequire(import.meta.url)("pg") as {
  readonly Pool: new (settings: PlainSettings & { readonly max: number }) => Pool
}

const quiet = new Logger(() => () => undefined)

const opened = (settings: PlainSettings, connections: number) =>
  Effect.acquireRelease(
    Effect.tryPromise(async () => {
      const pool = new Pool({ ...settings, max: connections })
      // Without listeners the process would end when the server goes away.
      pool.on("error", () => undefined)
      pool.on("connect", (client) => client.on("error", () => undefined))
      return { pool, utils: await makeWorkerUtils({ pgPool: pool, logger: quiet }) }
    }),
    ({ pool, utils }) =>
      Effect.promise(async () => {
        await utils.release()
        await pool.end()
      })
  )

/** Makes the queue's schema, which no run should pay for. */
export const prepareGraphileWorker = (settings: PlainSettings) =>
  Effect.scoped(Effect.flatMap(opened(settings, 1), ({ utils }) => Effect.tryPromise(() => utils.migrate())))

const send = (utils: WorkerUtils, load: Load) => {
  let job = 0
  return loopPromises(load, () => {
    job += 1
    return utils.addJob("start", { project: job, key: `key-${job}` })
  })
}

export const graphileWorker = (settings: PlainSettings): Contender =>
  counted(
    "graphile-worker, addJob",
    (load) =>
      Effect.gen(function* () {
        const { utils } = yield* opened(settings, load.workers)
        return yield* send(utils, load)
      }),
    (all) =>
      Effect.gen(function* () {
        const { rows } = yield* runPlainly(settings, [
          "select count(*)::int as jobs from graphile_worker._private_jobs"
        ])
        yield* runPlainly(settings, ["truncate graphile_worker._private_jobs"])
        const jobs = rows[0]?.["jobs"]
        return jobs === all ? [] : [`${all} jobs were added and ${String(jobs)} are there`]
      })
  )

/** Jobs that are added and waited for: `ask` answers when the worker has begun with one. */
const running = (settings: PlainSettings, concurrency: number) =>
  Effect.gen(function* () {
    // The runner listens on one connection of its own.
    const { pool: pgPool, utils } = yield* opened(settings, concurrency + 1)
    const begun = new Map<number, () => void>()
    yield* Effect.acquireRelease(
      Effect.tryPromise(() =>
        run({
          pgPool,
          logger: quiet,
          concurrency,
          noHandleSignals: true,
          taskList: { start: (payload) => begun.get((payload as { readonly project: number }).project)?.() }
        })
      ),
      (runner) => Effect.promise(() => runner.stop())
    )
    let job = 0
    return async () => {
      job += 1
      const project = job
      const begin = new Promise<void>((resolve) => begun.set(project, resolve))
      await utils.addJob("start", { project, key: `key-${project}` })
      await begin
      begun.delete(project)
    }
  })

const jobsLeft = (settings: PlainSettings): Contender["check"] =>
  Effect.gen(function* () {
    const { rows } = yield* runPlainly(settings, [
      "select count(*)::int as jobs from graphile_worker._private_jobs"
    ])
    yield* runPlainly(settings, ["truncate graphile_worker._private_jobs"])
    const jobs = rows[0]?.["jobs"]
    return jobs === 0 ? [] : [`${String(jobs)} jobs have not ended`]
  })

/** A whole life of a job: added, run by as many workers as ask, and gone from its table, which is how it ends. */
export const graphileCycle = (settings: PlainSettings): Contender => ({
  name: "graphile-worker, add and run",
  run: (load) => Effect.flatMap(running(settings, load.workers), (ask) => loopPromises(load, ask)),
  check: jobsLeft(settings)
})

/** One job at a time, timed until it begins. Answers what the slowest of a hundred was, beside the contender. */
export const graphileDispatch = (
  settings: PlainSettings
): { readonly contender: Contender; readonly p99Millis: () => number } => {
  let p99Millis = Number.NaN
  return {
    p99Millis: () => p99Millis,
    contender: {
      name: "graphile-worker, add to begin",
      run: (load) =>
        Effect.gen(function* () {
          const ask = yield* running(settings, 1)
          const once = Effect.tryPromise(async () => {
            const begun = performance.now()
            await ask()
            return performance.now() - begun
          })
          const { all, millis } = yield* paced(load, once)
          const figures = latencyFigures(millis, all)
          p99Millis = figures["p99Millis"] ?? Number.NaN
          return figures
        }),
      check: jobsLeft(settings)
    }
  }
}

/** Tuned for throughput: jobs are taken 500 at a time, and their ends are written together. */
const tuned = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }

/** A full queue run to its end; a job that has ended is gone from its table. */
export const graphileDrain = (settings: PlainSettings): Contender => {
  let ran = 0
  return {
    name: "graphile-worker, tuned",
    run: (load) =>
      Effect.gen(function* () {
        ran = 0
        const { pool: pgPool } = yield* opened(settings, load.workers + 3)
        yield* runPlainly(settings, [
          "truncate graphile_worker._private_jobs",
          `select graphile_worker.add_job('start', '{}'::json) from generate_series(1, ${drained})`,
          "vacuum analyze graphile_worker._private_jobs"
        ])
        return yield* timedDrain(
          settings,
          Effect.tryPromise(() =>
            runOnce({
              preset: { worker: { ...tuned, concurrentJobs: load.workers } },
              pgPool,
              logger: quiet,
              concurrency: load.workers,
              noHandleSignals: true,
              taskList: { start: () => void (ran += 1) }
            })
          )
        )
      }),
    check: Effect.map(
      runPlainly(settings, ["select count(*)::int as jobs from graphile_worker._private_jobs"]),
      ({ rows }) =>
        ran === drained && rows[0]?.["jobs"] === 0
          ? []
          : [`${ran} of ${drained} jobs have run, and ${String(rows[0]?.["jobs"])} are left`]
    )
  }
}
