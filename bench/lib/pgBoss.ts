/**
 * pg-boss's `send` as a contender of P1: a job is stored and durable. It knows no Project, no access of a caller, no
 * generation and no repeated request, all of which an admission checks in the same round trip.
 */
import * as Effect from "effect/Effect"
import { PgBoss } from "pg-boss"
import { loopPromises } from "./closedLoop.ts"
import { counted } from "./counted.ts"
import type { Contender } from "./definition.ts"
import { drained, timedDrain } from "./drainWork.ts"
import { type PlainSettings, runPlainly } from "./plainPg.ts"

const queue = "start"

/** Without its own maintenance, which would run beside every contender. */
const opened = (settings: PlainSettings, connectionsMax: number) =>
  Effect.acquireRelease(
    Effect.tryPromise(async () => {
      const boss = new PgBoss({ ...settings, max: connectionsMax, supervise: false, schedule: false })
      // An error without a listener would end the process; a failed send rejects besides.
      boss.on("error", () => undefined)
      await boss.start()
      return boss
    }),
    (boss) => Effect.promise(() => boss.stop({ graceful: false }))
  )

/** Makes the queue's schema, which no run should pay for. */
export const preparePgBoss = (settings: PlainSettings) =>
  Effect.scoped(
    Effect.flatMap(opened(settings, 1), (boss) => Effect.tryPromise(() => boss.createQueue(queue)))
  )

export const pgBoss = (settings: PlainSettings): Contender =>
  counted(
    "pg-boss, send",
    (load) =>
      Effect.gen(function* () {
        const boss = yield* opened(settings, load.workers)
        let job = 0
        return yield* loopPromises(load, () => {
          job += 1
          return boss.send(queue, { project: job, key: `key-${job}` })
        })
      }),
    (all) =>
      Effect.gen(function* () {
        const { rows } = yield* runPlainly(settings, [
          `select count(*)::int as jobs from pgboss.job where name = '${queue}'`
        ])
        yield* runPlainly(settings, ["truncate pgboss.job"])
        const jobs = rows[0]?.["jobs"]
        return jobs === all ? [] : [`${all} jobs were sent and ${String(jobs)} are there`]
      })
  )

/** A whole life of a job: sent, fetched and completed, which leaves it in its table until it is cleared away. */
export const pgBossCycle = (settings: PlainSettings): Contender =>
  counted(
    "pg-boss, send, fetch, complete",
    (load) =>
      Effect.gen(function* () {
        const boss = yield* opened(settings, load.workers)
        let job = 0
        return yield* loopPromises(load, async () => {
          job += 1
          await boss.send(queue, { project: job, key: `key-${job}` })
          // Another worker may have this one's job, and his own may not be seen yet.
          for (;;) {
            const [fetched] = await boss.fetch(queue)
            if (fetched !== undefined) return boss.complete(queue, fetched.id)
          }
        })
      }),
    (all) =>
      Effect.gen(function* () {
        const { rows } = yield* runPlainly(settings, [
          `select count(*)::int as jobs, count(*) filter (where state = 'completed')::int as completed
           from pgboss.job where name = '${queue}'`
        ])
        yield* runPlainly(settings, ["truncate pgboss.job"])
        const { completed, jobs } = rows[0] ?? {}
        return completed === all && jobs === all
          ? []
          : [`${all} jobs were completed, and ${String(completed)} of ${String(jobs)} are`]
      })
  )

/** Jobs that are fetched, and completed, by one call. */
const batch = 256

/** A full queue fetched and completed to its end, batch by batch. */
export const pgBossDrain = (settings: PlainSettings): Contender =>
  counted(
    `pg-boss, fetch ${batch}, complete ${batch}`,
    (load) =>
      Effect.gen(function* () {
        const boss = yield* opened(settings, 2 * load.workers)
        yield* runPlainly(settings, ["truncate pgboss.job"])
        yield* Effect.tryPromise(() =>
          boss.insert(
            queue,
            Array.from({ length: drained }, () => ({ data: {} }))
          )
        )
        yield* runPlainly(settings, ["vacuum analyze pgboss.job"])
        // As the product does it: a batch is fetched while the one before it is completed.
        const worker = async () => {
          let completing: Promise<unknown> = Promise.resolve()
          for (;;) {
            const jobs = await boss.fetch(queue, { batchSize: batch })
            await completing
            if (jobs.length === 0) return
            completing = boss.complete(
              queue,
              jobs.map(({ id }) => id)
            )
          }
        }
        const figures = yield* timedDrain(
          settings,
          Effect.tryPromise(() => Promise.all(Array.from({ length: load.workers }, worker)))
        )
        return figures
      }),
    (all) =>
      Effect.map(
        runPlainly(settings, ["select count(*)::int as jobs from pgboss.job where state = 'completed'"]),
        ({ rows }) =>
          rows[0]?.["jobs"] === all ? [] : [`${String(rows[0]?.["jobs"])} of ${all} jobs are completed`]
      )
  )
