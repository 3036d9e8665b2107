/** What a transaction registers for after its commit: run then, and only then. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { waitingForLocks } from "../../support/sideBySide.ts"
import { inTime, waitFor } from "../../support/waiting.ts"
import { atRoot, ids, insert, inside, scratch } from "./scratch.ts"

const onOne = <A, E>(effect: Effect.Effect<A, E, PluginDb | Clone>) => effect.pipe(Effect.provide(scratch(1)))

/** COMMIT of a transaction that inserted waits for this advisory lock, which the test may hold. */
const slowCommit = Effect.flatMap(Clone, ({ admin }) =>
  Effect.andThen(
    admin(`create function wait_at_commit() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock_shared(77); return null; end $$`),
    admin(`create constraint trigger slow after insert on scratch deferrable initially deferred
      for each row execute function wait_at_commit()`)
  )
)

/** Starts a transaction that inserts 1 and waits until its COMMIT stands before a lock that `admin` holds. */
const standingAtCommit = <E>(body: Effect.Effect<unknown, E, PluginTx>) =>
  Effect.gen(function* () {
    const { admin } = yield* Clone
    const db = yield* PluginDb
    yield* slowCommit
    yield* admin("select pg_advisory_lock(77)")
    const fiber = yield* Effect.forkChild(db.transaction("slow", Effect.andThen(insert(1), body)))
    yield* waitFor({ fact: "COMMIT waits", look: waitingForLocks, holds: (waiting) => waiting === 1 })
    return { fiber, release: admin("select pg_advisory_unlock(77)") }
  })

describe("afterCommit", () => {
  const note = (told: Array<unknown>, ...what: ReadonlyArray<unknown>) =>
    Effect.sync(() => void told.push(...what))

  it.live("SP-TX-09 runs in order once the rows are there, with the root handle free to use", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const told: Array<unknown> = []
      // What runs after a commit cannot fail by its type.
      const look = Effect.orDie(atRoot("select id from scratch")).pipe(Effect.provideService(PluginDb, db))
      yield* db.transaction(
        "told",
        Effect.gen(function* () {
          const tx = yield* PluginTx
          yield* tx.afterCommit(Effect.flatMap(look, (rows) => note(told, rows)))
          yield* tx.afterCommit(note(told, "second"))
          yield* insert(1)
          assert.deepStrictEqual(told, [])
        })
      )
      assert.deepStrictEqual(told, [[{ id: 1 }], "second"])
    }).pipe(onOne)
  )

  it.live("SP-TX-09 is dropped when the body fails, and when the server refuses COMMIT", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const told: Array<unknown> = []
      const announce = Effect.flatMap(PluginTx, (tx) => tx.afterCommit(note(told, "published")))
      yield* Effect.exit(db.transaction("failed", Effect.andThen(announce, Effect.fail("no"))))
      const swallowed = Effect.ignore(inside("select 1 / 0"))
      yield* Effect.exit(db.transaction("poisoned", Effect.andThen(announce, swallowed)))
      assert.deepStrictEqual(told, [])
    }).pipe(onOne)
  )

  it.live("SP-TX-09 runs although the caller was interrupted while COMMIT was under way", () =>
    Effect.gen(function* () {
      const told: Array<unknown> = []
      const announce = Effect.flatMap(PluginTx, (tx) => tx.afterCommit(note(told, "published")))
      const { fiber, release } = yield* standingAtCommit(announce)
      const interrupted = yield* Effect.forkChild(Fiber.interrupt(fiber), { startImmediately: true })
      yield* release
      yield* inTime("the transaction ends", Fiber.await(interrupted))
      assert.deepStrictEqual(told, ["published"])
      assert.deepStrictEqual(yield* ids, [1])
    }).pipe(onOne)
  )

  it.live("SP-TX-09 runs every effect, although one before it dies", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const told: Array<unknown> = []
      const body = Effect.flatMap(PluginTx, (tx) =>
        Effect.andThen(tx.afterCommit(Effect.die("broken")), tx.afterCommit(note(told, "published")))
      )
      const dying = db.transaction("dying", body)
      const died = yield* Effect.catchDefect(dying, (defect) => Effect.succeed({ defect }))
      assert.deepStrictEqual([told, died], [["published"], { defect: "broken" }])
    }).pipe(onOne)
  )
})
