/** How a transaction begins: with its first statement, in one write, and what happens when that goes wrong. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { databaseRollbackMillisMax } from "../../../src/domain/Bounds.ts"
import { PluginDb, PluginTx, TransactionEnded } from "../../../src/domain/persistence/PluginDb.ts"
import * as Db from "../../../src/infra/postgres/PluginDb.ts"
import { Clone, type CloneShape } from "../../support/clone.ts"
import { pluginSchema } from "../../support/schemas.ts"
import { waitingForLocks } from "../../support/sideBySide.ts"
import { inTime, onRealClock, waitFor } from "../../support/waiting.ts"
import { answeringAfter, counting, losingAnswer, refusingBegin, swallowing } from "./cuttingProxy.ts"
import { ids, insert, inside, scratch } from "./scratch.ts"

const run = <A, E>(effect: Effect.Effect<A, E, PluginDb | Clone>) => effect.pipe(Effect.provide(scratch(1)))

/** A handle of one connection whose way to the server leads over the address. */
const handleOn = (address: CloneShape["address"]) =>
  Db.make({ address, schema: pluginSchema, connectionsMax: 1 })

const oneWaits = waitFor({ fact: "it waits", look: waitingForLocks, holds: (count) => count === 1 })

const lock = inside("select pg_advisory_xact_lock(5)")

const hold = Effect.flatMap(Clone, ({ admin }) => admin("select pg_advisory_lock(5)"))

describe("BEGIN", () => {
  it.live("needs no answer for the first statement to leave", () =>
    Effect.gen(function* () {
      const { address } = yield* answeringAfter((yield* Clone).address, "begin ", "insert into")
      const db = yield* handleOn(address)
      yield* inTime("it is committed", db.transaction("first", insert(1)))
      assert.deepStrictEqual(yield* ids, [1])
    }).pipe(Effect.scoped, run)
  )

  it.live("costs no write of its own: three statements and COMMIT are four writes", () =>
    Effect.gen(function* () {
      const { address, writes } = yield* counting((yield* Clone).address)
      const db = yield* handleOn(address)
      yield* db.transaction("first", inside("select 1"))
      const before = writes()
      yield* db.transaction("counted", Effect.all([insert(1), insert(2), insert(3)]))
      assert.strictEqual(writes() - before, 4)
    }).pipe(Effect.scoped, run)
  )

  it.live("is not sent for a body that asks nothing, and what it registered runs all the same", () =>
    Effect.gen(function* () {
      const { address, writes } = yield* counting((yield* Clone).address)
      const db = yield* handleOn(address)
      const told: Array<string> = []
      yield* db.transaction("first", inside("select 1"))
      const before = writes()
      const body = Effect.andThen(PluginTx, (tx) => tx.afterCommit(Effect.sync(() => void told.push("done"))))
      yield* db.transaction("asks nothing", body)
      yield* Effect.flip(db.transaction("refuses", Effect.andThen(body, Effect.fail("no"))))
      yield* db.snapshot("looks at nothing", Effect.void)
      assert.deepStrictEqual([writes() - before, told], [0, ["done"]])
    }).pipe(Effect.scoped, run)
  )

  it.live("that the server refuses fails the transaction, and what left with it is not stored", () =>
    Effect.gen(function* () {
      const { address } = yield* refusingBegin((yield* Clone).address)
      const db = yield* handleOn(address)
      const failure = yield* Effect.flip(db.transaction("refused", insert(1)))
      assert.deepInclude(failure, { _tag: "StorageFailure", operation: "refused", state: "42601" })
      const snapshot = yield* Effect.flip(db.snapshot("refused too", inside("select 1")))
      assert.deepInclude(snapshot, { operation: "refused too", state: "42601" })
      assert.deepStrictEqual(yield* ids, [])
    }).pipe(Effect.scoped, run)
  )

  it.live("that was refused is not forgotten when the body swallows it: no COMMIT is believed after it", () =>
    Effect.gen(function* () {
      const { address } = yield* refusingBegin((yield* Clone).address)
      const db = yield* handleOn(address)
      const told: Array<string> = []
      const swallowing = Effect.gen(function* () {
        yield* (yield* PluginTx).afterCommit(Effect.sync(() => void told.push("committed")))
        const first = yield* Effect.flip(insert(1))
        const second = yield* Effect.flip(inside("select 1"))
        assert.deepStrictEqual(second, first)
      })
      const failure = yield* Effect.flip(db.transaction("refused", swallowing))
      assert.deepInclude(failure, { operation: "refused", state: "42601" })
      assert.deepStrictEqual([yield* ids, told], [[], []])
    }).pipe(Effect.scoped, run)
  )

  it.live("whose answer is lost with the connection is a retryable failure, and nothing is stored", () =>
    Effect.gen(function* () {
      const { address } = yield* losingAnswer((yield* Clone).address, "BEGIN")
      const db = yield* handleOn(address)
      const failure = yield* Effect.flip(db.transaction("lost", insert(1)))
      assert.deepInclude(failure, { _tag: "StorageFailure", fault: "connection", retryable: true })
      assert.deepStrictEqual(yield* ids, [])
    }).pipe(Effect.scoped, run)
  )
})

describe("the first statement", () => {
  it.live("that fails is named, aborts the transaction, and leaves the connection fit", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const body = Effect.gen(function* () {
        const first = yield* Effect.flip(inside("select 1 / 0"))
        const second = yield* Effect.flip(insert(1))
        return yield* Effect.fail([first, second])
      })
      const [first, second] = yield* Effect.flip(
        Effect.mapError(db.transaction("fails", body), (error) => [error].flat())
      )
      assert.deepInclude(first, { operation: "test select", state: "22012" })
      assert.deepInclude(second, { operation: "test insert", state: "25P02" })
      yield* db.transaction("again", insert(2))
      assert.deepStrictEqual(yield* ids, [2])
    }).pipe(run)
  )

  it.live("that cannot even be sent does not take BEGIN with it: the next one is inside", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const unsendable = inside("select $1::jsonb", [{ not: "encodable" }])
      const body = Effect.andThen(Effect.flip(unsendable), insert(1))
      yield* Effect.flip(db.transaction("rolled back", Effect.andThen(body, Effect.fail("no"))))
      assert.deepStrictEqual(yield* ids, [])
      yield* db.transaction("committed", body)
      assert.deepStrictEqual(yield* ids, [1])
    }).pipe(run)
  )

  it.live("that waits for a lock is cancelled when the transaction is interrupted", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      yield* hold
      const fiber = yield* Effect.forkChild(db.transaction("interrupted", Effect.andThen(lock, insert(1))))
      yield* oneWaits
      yield* inTime("the interruption is done", Fiber.interrupt(fiber))
      assert.strictEqual(yield* waitingForLocks, 0)
      yield* db.transaction("again", insert(2))
      assert.deepStrictEqual(yield* ids, [2])
    }).pipe(run)
  )

  it.live("is never sent when the interruption comes before it, and the connection is given back", () =>
    Effect.gen(function* () {
      const { address, writes } = yield* counting((yield* Clone).address)
      const db = yield* handleOn(address)
      yield* db.transaction("first", inside("select 1"))
      const before = writes()
      const started = yield* Deferred.make<void>()
      const body = Effect.andThen(
        Deferred.succeed(started, undefined),
        Effect.andThen(Effect.never, insert(1))
      )
      const fiber = yield* Effect.forkChild(db.transaction("interrupted", body))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(writes() - before, 0)
      yield* db.transaction("again", insert(2))
      assert.deepStrictEqual(yield* ids, [2])
    }).pipe(Effect.scoped, run)
  )
})

describe("statements of one transaction at the same time", () => {
  it.live("go one by one: who is interrupted in the queue is not sent, and cancels nobody else", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      yield* hold
      const body = Effect.gen(function* () {
        const first = yield* Effect.forkChild(Effect.andThen(lock, insert(1)), { startImmediately: true })
        const queued = yield* Effect.forkChild(insert(2), { startImmediately: true })
        yield* oneWaits
        yield* Fiber.interrupt(queued)
        yield* admin("select pg_advisory_unlock(5)")
        yield* Fiber.join(first)
      })
      yield* inTime("it is committed", db.transaction("queued", body))
      assert.deepStrictEqual(yield* ids, [1])
    }).pipe(run)
  )

  it.live("are not begun any more once the transaction is given up", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      yield* hold
      const queued = yield* Deferred.make<unknown>()
      const body = Effect.gen(function* () {
        yield* Effect.forkDetach(Effect.exit(lock), { startImmediately: true })
        const last = Effect.flatMap(Effect.flip(insert(2)), (error) => Deferred.succeed(queued, error))
        yield* Effect.forkDetach(last, { startImmediately: true })
        yield* oneWaits
        return yield* Effect.fail("given up")
      })
      yield* inTime("it ends", Effect.flip(db.transaction("outer", body)))
      assert.deepStrictEqual(
        yield* inTime("the queued one ends", Deferred.await(queued)),
        new TransactionEnded({ operation: "test insert" })
      )
    }).pipe(run)
  )
})

describe("ROLLBACK", () => {
  it.live("that is not answered in time costs the connection and not the caller", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const isToKeep = () => {
        Deferred.doneUnsafe(asked, Effect.void)
        return true
      }
      const { address } = yield* swallowing((yield* Clone).address, "rollback\0", isToKeep)
      const db = yield* handleOn(address)
      const failing = Effect.andThen(insert(1), Effect.fail("no"))
      const fiber = yield* Effect.forkChild(Effect.flip(db.transaction("unanswered", failing)))
      yield* onRealClock(inTime("ROLLBACK is asked for", Deferred.await(asked)))
      yield* TestClock.adjust(databaseRollbackMillisMax)
      assert.strictEqual(yield* inTime("the caller goes on", Fiber.join(fiber)), "no")
      yield* db.transaction("again", insert(2))
      yield* waitFor({ fact: "only the second is there", look: ids, holds: (found) => found.join() === "2" })
    }).pipe(Effect.scoped, Effect.provide(TestClock.layer()), run)
  )
})
