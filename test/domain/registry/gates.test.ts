import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { makeGates } from "../../../src/domain/registry/gates.ts"
import { sandboxOf } from "./fixture.ts"

describe("registry/gates", () => {
  it.effect("work on one sandbox is done by one at a time, work on another goes on", () =>
    Effect.gen(function* () {
      const gates = makeGates<string>()
      const done = yield* Deferred.make<void>()
      const order: Array<string> = []
      const note = (what: string) => Effect.sync(() => void order.push(what))
      const first = yield* Effect.forkChild(
        gates.exclusive(sandboxOf(1), Effect.andThen(note("first"), Deferred.await(done)))
      )
      yield* Effect.yieldNow
      const second = yield* Effect.forkChild(gates.exclusive(sandboxOf(1), note("second")))
      yield* Effect.yieldNow
      yield* gates.exclusive(sandboxOf(2), note("other"))
      assert.isTrue(Option.isNone(yield* gates.exclusiveIfFree(sandboxOf(1), note("never"))))
      assert.deepStrictEqual(order, ["first", "other"])
      yield* Deferred.succeed(done, undefined)
      yield* Fiber.joinAll([first, second])
      assert.deepStrictEqual(order, ["first", "other", "second"])
      assert.isTrue(Option.isSome(yield* gates.exclusiveIfFree(sandboxOf(1), note("free"))))
    })
  )

  it.effect(
    "asking for any number of ids, by work that ends, fails or is interrupted, leaves no gate behind",
    () =>
      Effect.gen(function* () {
        const gates = makeGates<string>()
        for (let number = 0; number < 100; number += 1) {
          yield* gates.exclusive(sandboxOf(number), Effect.void)
          yield* Effect.ignore(gates.exclusive(sandboxOf(number), Effect.fail("no")))
          const waiting = yield* Effect.forkChild(gates.exclusive(sandboxOf(number), Effect.never))
          const behind = yield* Effect.forkChild(gates.exclusive(sandboxOf(number), Effect.never))
          yield* Effect.yieldNow
          assert.strictEqual(gates.size(), 1)
          yield* Fiber.interrupt(behind)
          yield* Fiber.interrupt(waiting)
        }
        assert.strictEqual(gates.size(), 0)
      })
  )
})
