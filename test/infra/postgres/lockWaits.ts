/** Transactions held open at a statement, and the fact that another backend waits for them. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { value } from "./operationsFixture.ts"

/** A transaction of its own that ran one statement and stays open until it is released (and then commits). */
export const holding = Effect.fnUntraced(function* (text: string, parameters: ReadonlyArray<unknown>) {
  const db = yield* PluginDb
  const reached = yield* Deferred.make<void>()
  const released = yield* Deferred.make<void>()
  const fiber = yield* Effect.forkChild(
    db.transaction(
      "test.holding",
      Effect.gen(function* () {
        const tx = yield* PluginTx
        yield* tx.query({ operation: "test.holding", text, parameters })
        yield* Deferred.succeed(reached, undefined)
        yield* Deferred.await(released)
      })
    )
  )
  yield* Effect.raceFirst(Deferred.await(reached), Fiber.join(fiber))
  return { release: Effect.andThen(Deferred.succeed(released, undefined), Fiber.join(fiber)) }
})

/** Waits until so many backends wait for a lock on the table, or its rows, and dies after five seconds. */
export const untilWaiting = (table: string, backends: number) =>
  value(
    `select count(distinct w.pid)::int from pg_locks w where not w.granted and exists (
      select from pg_locks h where h.pid = w.pid and h.locktype in ('relation', 'tuple')
        and h.relation = $1::text::regclass)`,
    [table]
  ).pipe(
    Effect.repeat({ until: (count) => count === backends, schedule: Schedule.spaced("2 millis") }),
    Effect.timeoutOrElse({
      duration: "5 seconds",
      orElse: () => Effect.die(new Error(`nobody waits for a lock on ${table}`))
    })
  )

/** The same for an advisory lock of this database. */
export const untilWaitingForAdvisory = (backends: number) =>
  value(
    `select count(*)::int from pg_locks where not granted and locktype = 'advisory'
      and database = (select oid from pg_database where datname = current_database())`
  ).pipe(
    Effect.repeat({ until: (count) => count === backends, schedule: Schedule.spaced("2 millis") }),
    Effect.timeoutOrElse({
      duration: "5 seconds",
      orElse: () => Effect.die(new Error("nobody waits for an advisory lock"))
    })
  )
