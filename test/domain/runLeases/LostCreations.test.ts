/** What is remembered of creations whose answers were lost. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { LostCreations } from "../../../src/domain/runLeases/LostCreations.ts"

describe("LostCreations", () => {
  it.effect(
    "BX-03 an absence counts from its first observation, and anew once the resource was forgotten",
    () =>
      Effect.gen(function* () {
        const lost = yield* LostCreations
        const intent = EnvironmentLeaseId.make(crypto.randomUUID())
        assert.isFalse(yield* lost.isNoted(intent))
        yield* lost.note(intent)
        assert.isTrue(yield* lost.isNoted(intent))
        assert.strictEqual(yield* lost.observeAbsence(intent), 0)
        yield* TestClock.adjust(1_500)
        assert.strictEqual(yield* lost.observeAbsence(intent), 1_500)
        yield* lost.forget(intent)
        assert.isFalse(yield* lost.isNoted(intent))
        assert.strictEqual(yield* lost.observeAbsence(intent), 0)
      }).pipe(Effect.provide(LostCreations.layer))
  )
})
