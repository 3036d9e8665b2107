import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { dispatch } from "../../../src/domain/operations/claims.ts"
import {
  fixture,
  queued,
  queueFaults,
  self,
  succeed,
  oneByOne
} from "../../infra/postgres/operationsFixture.ts"

const live = { excludeTestServices: true } as const

layer(fixture, live)("the dispatcher", (it) => {
  it.effect(
    "SP-OPS-02 no wake-up is lost: every operation asked for beside a working dispatcher is taken without a poll",
    () =>
      Effect.gen(function* () {
        const total = 150
        const all = yield* Deferred.make<void>()
        let taken = 0
        const dispatcher = yield* Effect.forkChild(
          dispatch(
            self,
            oneByOne((operation) =>
              Effect.gen(function* () {
                yield* succeed(operation)
                taken += 1
                if (taken === total) yield* Deferred.succeed(all, undefined)
              })
            )
          )
        )
        yield* Effect.forEach(Array.from({ length: total }), () => queued, {
          concurrency: 6,
          discard: true
        })
        yield* Deferred.await(all).pipe(
          Effect.timeoutOrElse({
            duration: "5 seconds",
            orElse: () => Effect.die(new Error(`only ${taken} of ${total} were taken`))
          })
        )
        yield* Fiber.interrupt(dispatcher)
        assert.strictEqual(yield* queueFaults, 0)
      })
  )
})
