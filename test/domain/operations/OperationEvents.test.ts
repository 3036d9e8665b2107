import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as PubSub from "effect/PubSub"
import { operationEventsBufferedMax } from "../../../src/domain/Bounds.ts"
import { OperationEvents, progressOf } from "../../../src/domain/operations/OperationEvents.ts"
import { operation } from "./builders.ts"

describe("OperationEvents", () => {
  it.effect("a watcher that is too slow loses the oldest events and never holds up the publisher", () =>
    Effect.gen(function* () {
      const events = yield* OperationEvents
      const watcher = yield* events.subscribe
      for (let n = 0; n < operationEventsBufferedMax + 3; n += 1) {
        yield* events.publish({ ...progressOf(operation()), message: String(n) })
      }
      const seen = yield* PubSub.takeAll(watcher)
      assert.strictEqual(seen.length, operationEventsBufferedMax)
      assert.strictEqual(seen[0]?.message, "3")
    }).pipe(Effect.provide(OperationEvents.layer))
  )

  it.effect(
    "signals that nobody has taken are one, and a signal given after the last was taken is not lost",
    () =>
      Effect.gen(function* () {
        const events = yield* OperationEvents
        yield* events.wake
        yield* events.wake
        yield* events.awaitWake
        const waiting = yield* Effect.forkChild(events.awaitWake)
        yield* Effect.yieldNow
        assert.isUndefined(waiting.pollUnsafe())
        yield* events.wake
        yield* Fiber.join(waiting)
      }).pipe(Effect.provide(OperationEvents.layer))
  )

  it("progress carries no parameter, recipe, account or error text", () => {
    const keys = Object.keys(progressOf(operation())).toSorted()
    assert.deepStrictEqual(keys, [
      "action",
      "errorCode",
      "fraction",
      "message",
      "operation",
      "project",
      "state",
      "step"
    ])
  })
})
