/** A server that takes COMMIT and says nothing: the outcome is unknown, and nobody waits for ever. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { databaseCommitMillisMax } from "../../../src/domain/Bounds.ts"
import { CommitUnknown } from "../../../src/domain/persistence/PluginDb.ts"
import * as Db from "../../../src/infra/postgres/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { pluginSchema } from "../../support/schemas.ts"
import { swallowing } from "./cuttingProxy.ts"
import { insert, scratch } from "./scratch.ts"

describe("postgres/openTransaction at an unanswered COMMIT", () => {
  it.effect(
    "the outcome is unknown after the bound and not before, and the session is not asked to roll back",
    () =>
      Effect.gen(function* () {
        const asked = yield* Deferred.make<void>()
        const { address } = yield* swallowing((yield* Clone).address, "commit\0", () =>
          Deferred.doneUnsafe(asked, Effect.void)
        )
        const db = yield* Db.make({ address, schema: pluginSchema, connectionsMax: 1 })
        const running = yield* Effect.forkChild(Effect.flip(db.transaction("unanswered", insert(1))))
        yield* Deferred.await(asked)
        yield* TestClock.adjust(databaseCommitMillisMax - 1)
        assert.isUndefined(running.pollUnsafe())
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(yield* Fiber.join(running), new CommitUnknown({ operation: "unanswered" }))
        // It is over without an answer to ROLLBACK, and the place in the pool is free.
        assert.strictEqual(yield* db.transaction("next", Effect.succeed(2)), 2)
      }).pipe(Effect.scoped, Effect.provide(scratch(4)))
  )
})
