/** One transaction and its ends: commit, rollback, lost answers, and what may happen after it. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import {
  CommitUnknown,
  PluginDb,
  PluginTx,
  StorageFailure,
  TransactionEnded
} from "../../../src/domain/persistence/PluginDb.ts"
import * as Db from "../../../src/infra/postgres/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { pluginSchema } from "../../support/schemas.ts"
import { makeBarrier, waitingForLocks } from "../../support/sideBySide.ts"
import { inTime, waitFor } from "../../support/waiting.ts"
import { losingAnswer } from "./cuttingProxy.ts"
import { atRoot, ids, insert, inside, scratch } from "./scratch.ts"

const run = <A, E>(effect: Effect.Effect<A, E, PluginDb | Clone>, connectionsMax = 4) =>
  effect.pipe(Effect.provide(scratch(connectionsMax)))

const onOne = <A, E>(effect: Effect.Effect<A, E, PluginDb | Clone>) => run(effect, 1)

const terminated = inside("select pg_terminate_backend(pg_backend_pid())")

describe("a transaction that has ended", () => {
  it.live(
    "SP-TX-03 its handle fails after commit, after rollback and after a snapshot, and reaches nothing",
    () =>
      Effect.gen(function* () {
        const db = yield* PluginDb
        const kept: Array<PluginTx["Service"]> = []
        const keep = Effect.map(PluginTx, (tx) => void kept.push(tx))
        yield* db.transaction("committed", keep)
        yield* Effect.exit(db.transaction("failed", Effect.andThen(keep, Effect.fail("refused"))))
        yield* db.snapshot("read", keep)
        const used = yield* Effect.forEach(kept, (tx) =>
          Effect.flip(tx.query({ operation: "late", text: "insert into scratch values (1)" }))
        )
        const registered = yield* Effect.forEach(kept, (tx) => Effect.flip(tx.afterCommit(Effect.void)))
        assert.deepStrictEqual(used, Array(3).fill(new TransactionEnded({ operation: "late" })))
        assert.deepStrictEqual(
          registered,
          Array(3).fill(new TransactionEnded({ operation: "PluginTx.afterCommit" }))
        )
        assert.deepStrictEqual(yield* ids, [])
      }).pipe(onOne)
  )

  it.live("SP-TX-03 fibers that were forked inside cannot write after COMMIT", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      const writing = (first: number) =>
        Effect.gen(function* () {
          for (let id = first; ; id += 8) yield* insert(id)
        })
      const fibers = yield* db.transaction(
        "outer",
        Effect.gen(function* () {
          const children = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8], (first) =>
            Effect.forkDetach(writing(first))
          )
          yield* insert(0)
          return children
        })
      )
      const ends = yield* inTime(
        "they end",
        Effect.forEach(fibers, (fiber) => Effect.flip(Fiber.join(fiber)))
      )
      assert.deepStrictEqual(ends, Array(8).fill(new TransactionEnded({ operation: "test insert" })))
      const [written] = yield* admin("select count(distinct xmin::text)::int as transactions from scratch")
      assert.deepStrictEqual(written, { transactions: 1 })
    }).pipe(onOne)
  )
})

describe("a transaction that does not commit", () => {
  it.live("keeps nothing of a body that fails or dies, and answers its failure", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const failed = yield* Effect.flip(db.transaction("fails", Effect.andThen(insert(1), Effect.fail("no"))))
      const dying = db.transaction("dies", Effect.andThen(insert(2), Effect.die("broken")))
      const died = yield* Effect.catchDefect(dying, (defect) => Effect.succeed({ defect }))
      assert.deepStrictEqual([failed, died], ["no", { defect: "broken" }])
      assert.deepStrictEqual(yield* ids, [])
    }).pipe(onOne)
  )

  it.live("does not report success when a failed statement was swallowed, and tells which it was", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const swallowed = Effect.ignore(inside("select 1 / 0"))
      const failure = yield* Effect.flip(db.transaction("poisoned", Effect.andThen(insert(1), swallowed)))
      assert.deepInclude(failure, { _tag: "StorageFailure", operation: "test select", state: "22012" })
      assert.deepStrictEqual(yield* ids, [])
    }).pipe(onOne)
  )

  it.live("commits when the failed statement was undone to a savepoint", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      yield* db.transaction(
        "saved",
        Effect.gen(function* () {
          yield* insert(1)
          yield* inside("savepoint here")
          yield* Effect.ignore(inside("select 1 / 0"))
          yield* inside("rollback to savepoint here")
        })
      )
      assert.deepStrictEqual(yield* ids, [1])
    }).pipe(onOne)
  )

  it.live("rolls back when it is interrupted while a statement waits for a lock, and waits no longer", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      yield* admin("select pg_advisory_lock(5)")
      const waiting = Effect.andThen(insert(1), inside("select pg_advisory_xact_lock(5)"))
      const fiber = yield* Effect.forkChild(db.transaction("interrupted", waiting))
      yield* waitFor({ fact: "it waits", look: waitingForLocks, holds: (count) => count === 1 })
      yield* inTime("the interruption is done", Fiber.interrupt(fiber))
      assert.strictEqual(yield* waitingForLocks, 0)
      assert.deepStrictEqual(yield* atRoot("select 1 as fit"), [{ fit: 1 }])
      assert.deepStrictEqual(yield* ids, [])
    }).pipe(onOne)
  )

  it.live("cancels what a forked fiber still waits for, instead of waiting with it", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      yield* admin("select pg_advisory_lock(5)")
      const body = Effect.gen(function* () {
        yield* Effect.forkDetach(inside("select pg_advisory_xact_lock(5)"))
        yield* waitFor({ fact: "it waits", look: waitingForLocks, holds: (count) => count === 1 })
        return yield* Effect.fail("given up")
      })
      const failure = yield* inTime("the transaction ends", Effect.flip(db.transaction("outer", body)))
      assert.strictEqual(failure, "given up")
    }).pipe(onOne)
  )

  it.live("is a typed, retryable failure when the connection is lost inside, and the pool recovers", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const lost = db.transaction("lost", Effect.andThen(insert(1), terminated))
      const failure = yield* Effect.flip(lost)
      assert.instanceOf(failure, StorageFailure)
      assert.deepInclude(failure, { fault: "connection", retryable: true })
      yield* db.transaction("again", insert(2))
      assert.deepStrictEqual(yield* ids, [2])
    }).pipe(onOne)
  )

  it.live("knows that nothing was stored when the loss inside was swallowed: COMMIT was never sent", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const lost = db.transaction("lost", Effect.andThen(insert(1), Effect.ignore(terminated)))
      assert.deepInclude(yield* Effect.flip(lost), { _tag: "StorageFailure", fault: "connection" })
    }).pipe(onOne)
  )

  it.live("knows it too when the loss befalls a forked statement that COMMIT has to wait for", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const forked = Effect.forkDetach(Effect.exit(terminated), { startImmediately: true })
      const failure = yield* Effect.flip(db.transaction("lost", Effect.andThen(insert(1), forked)))
      assert.deepInclude(failure, { _tag: "StorageFailure", fault: "connection" })
    }).pipe(onOne)
  )

  it.live("fails as refused, with the state, where a guard of ours raises", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      yield* admin(`create function guard() returns void language plpgsql as
        $$ begin raise exception 'not for logs' using errcode = 'HF001'; end $$`)
      const failure = yield* Effect.flip(db.transaction("guarded", inside("select guard()")))
      assert.deepInclude(failure, { fault: "refused", state: "HF001", retryable: false })
    }).pipe(onOne)
  )
})

describe("COMMIT", () => {
  it.live("BX-04 is unknown when its answer is lost, although the server has committed", () =>
    Effect.gen(function* () {
      const { address } = yield* losingAnswer((yield* Clone).address, "COMMIT")
      const db = yield* Db.make({ address, schema: pluginSchema, connectionsMax: 1 })
      const failure = yield* Effect.flip(db.transaction("unanswered", insert(1)))
      assert.deepStrictEqual(failure, new CommitUnknown({ operation: "unanswered" }))
      assert.deepStrictEqual(yield* ids, [1])
    }).pipe(Effect.scoped, onOne)
  )

  it.live("that the server refuses is a failure, and not an unknown outcome", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const db = yield* PluginDb
      yield* admin("alter table scratch add constraint late unique (note) deferrable initially deferred")
      const failure = yield* Effect.flip(db.transaction("doubled", Effect.andThen(insert(1), insert(2))))
      assert.deepInclude(failure, { _tag: "StorageFailure", fault: "unique", constraint: "late" })
      assert.deepStrictEqual(yield* atRoot("select 1 as fit"), [{ fit: 1 }])
    }).pipe(onOne)
  )
})

describe("a snapshot of a busy pool", () => {
  it.live("gives its connection back when it is interrupted while another one holds the pool", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const barrier = yield* makeBarrier("the pool is held")
      const holder = yield* Effect.forkChild(db.snapshot("holder", barrier.arrive))
      yield* barrier.reached
      const started = yield* Deferred.make<void>()
      const waiting = Effect.andThen(
        Deferred.succeed(started, undefined),
        db.snapshot("waiting", Effect.void)
      )
      const waiter = yield* Effect.forkChild(waiting)
      yield* Deferred.await(started)
      yield* inTime("the waiter is interrupted", Fiber.interrupt(waiter))
      yield* barrier.open
      yield* Fiber.join(holder)
      assert.deepStrictEqual(yield* atRoot("select 1 as fit"), [{ fit: 1 }])
    }).pipe(onOne)
  )
})
