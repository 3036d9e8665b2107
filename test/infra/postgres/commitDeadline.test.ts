/** A server that takes COMMIT and says nothing: the outcome is unknown, and nobody waits for ever. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { databaseCommitMillisMax } from "../../../src/domain/Bounds.ts"
import { CommitUnknown, type PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import * as Db from "../../../src/infra/postgres/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { pluginSchema } from "../../support/schemas.ts"
import { swallowing } from "./cuttingProxy.ts"
import { ids, insert, scratch } from "./scratch.ts"

/** A handle of one session whose server takes the first COMMIT and says nothing, and a sign that it was sent. */
const unanswering = Effect.gen(function* () {
  const sent = yield* Deferred.make<void>()
  // Only the first request completes it, so only that one is kept.
  const { address } = yield* swallowing((yield* Clone).address, "commit\0", () =>
    Deferred.doneUnsafe(sent, Effect.void)
  )
  const db = yield* Db.make({ address, schema: pluginSchema, connectionsMax: 1 })
  return { db, sent: Deferred.await(sent) }
})

describe("an unanswered COMMIT", () => {
  const insertion = { operation: "scratch.insert", text: "insert into scratch (id) values (1)" }
  const ways = [
    {
      way: "a transaction",
      boundMillis: databaseCommitMillisMax,
      ask: (db: PluginDb["Service"]) => Effect.asVoid(db.transaction("unanswered", insert(1)))
    },
    {
      way: "a transaction sent at once",
      boundMillis: 3 * databaseCommitMillisMax,
      ask: (db: PluginDb["Service"]) => Effect.asVoid(db.pipelined("unanswered", [insertion]))
    }
  ]
  for (const { ask, boundMillis, way } of ways) {
    it.effect(`of ${way} is unknown after the bound and not before, and the session is given up`, () =>
      Effect.gen(function* () {
        const { db, sent } = yield* unanswering
        const running = yield* Effect.forkChild(Effect.flip(ask(db)))
        yield* sent
        yield* TestClock.adjust(boundMillis - 1)
        assert.isUndefined(running.pollUnsafe())
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(yield* Fiber.join(running), new CommitUnknown({ operation: "unanswered" }))
        // It is over without an answer to ROLLBACK, and the next one has a session that answers him.
        yield* db.transaction("next", insert(2))
        assert.deepStrictEqual(yield* ids, [2])
      }).pipe(Effect.scoped, Effect.provide(scratch(4)))
    )
  }
})
