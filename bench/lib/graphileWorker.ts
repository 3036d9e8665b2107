/**
 * graphile-worker's `addJob` as a contender of P1: a job is stored and durable. It knows no Project, no access of a
 * caller, no generation and no repeated request, all of which an admission checks in the same round trip.
 */
import * as Effect from "effect/Effect"
import { Logger, makeWorkerUtils, type WorkerUtils } from "graphile-worker"
import { createRequire } from "node:module"
import { loopPromises } from "./closedLoop.ts"
import type { Contender, Load } from "./definition.ts"
import { type PlainSettings, runPlainly } from "./plainPg.ts"

interface Emitter {
  readonly on: (event: "error", listener: () => void) => void
}

/** What a pool of `pg` is to this file; the package has no types of its own. */
interface Pool {
  readonly on: (event: "error" | "connect", listener: (client: Emitter) => void) => void
  readonly end: () => Promise<void>
}
const { Pool } = createRequire(import.meta.url)("pg") as {
  readonly Pool: new (settings: PlainSettings & { readonly max: number }) => Pool
}

const quiet = new Logger(() => () => undefined)

const opened = (settings: PlainSettings, load: Load) =>
  Effect.acquireRelease(
    Effect.tryPromise(async () => {
      const pool = new Pool({ ...settings, max: load.workers })
      // Without listeners the process would end when the server goes away.
      pool.on("error", () => undefined)
      pool.on("connect", (client) => client.on("error", () => undefined))
      // It is a pool of the same package that the queue's types are about.
      const pgPool = pool as unknown as NonNullable<Parameters<typeof makeWorkerUtils>[0]["pgPool"]>
      return { pool, utils: await makeWorkerUtils({ pgPool, logger: quiet }) }
    }),
    ({ pool, utils }) =>
      Effect.promise(async () => {
        await utils.release()
        await pool.end()
      })
  )

/** Makes the queue's schema, which no run should pay for. */
export const prepareGraphileWorker = (settings: PlainSettings) =>
  Effect.scoped(
    Effect.flatMap(opened(settings, { workers: 1, warmUpSeconds: 0, seconds: 0 }), ({ utils }) =>
      Effect.tryPromise(() => utils.migrate())
    )
  )

const send = (utils: WorkerUtils, load: Load) => {
  let job = 0
  return loopPromises(load, () => {
    job += 1
    return utils.addJob("start", { project: job, key: `key-${job}` })
  })
}

export const graphileWorker = (settings: PlainSettings): Contender => {
  let all = 0
  return {
    name: "graphile-worker, addJob",
    run: (load) =>
      Effect.gen(function* () {
        const { utils } = yield* opened(settings, load)
        const figures = yield* send(utils, load)
        all = figures["operationsAll"] ?? 0
        return figures
      }),
    check: Effect.gen(function* () {
      const { rows } = yield* runPlainly(settings, [
        "select count(*)::int as jobs from graphile_worker._private_jobs"
      ])
      yield* runPlainly(settings, ["truncate graphile_worker._private_jobs"])
      const jobs = rows[0]?.["jobs"]
      return jobs === all ? [] : [`${all} jobs were added and ${String(jobs)} are there`]
    })
  }
}
