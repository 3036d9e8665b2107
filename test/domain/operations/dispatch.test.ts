import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { dispatch } from "../../../src/domain/operations/claims.ts"
import {
  ask,
  fixture,
  newProject,
  provisioned,
  queueFaults,
  self,
  succeed
} from "../../infra/postgres/operationsFixture.ts"

const live = { excludeTestServices: true } as const

layer(fixture, live)("the dispatcher", (it) => {
  it.effect.each([1, 3])(
    "SP-OPS-02 no wake-up is lost: each of 1,000 operations that race for %s places is taken without a poll",
    (places) =>
      Effect.gen(function* () {
        const [askers, each] = [20, 50]
        const taken = new Map<number, Deferred.Deferred<void>>()
        const dispatcher = yield* Effect.forkChild(
          dispatch(self, {
            room: Effect.succeed(places),
            take: (operation) =>
              Effect.gen(function* () {
                yield* succeed(operation)
                yield* Deferred.succeed(taken.get(operation.project)!, undefined)
              })
          })
        )
        const asking = Effect.gen(function* () {
          const { caller, project } = yield* newProject
          yield* provisioned(project)
          for (let asked = 0; asked < each; asked += 1) {
            const mine = yield* Deferred.make<void>()
            taken.set(project, mine)
            yield* admitOperation(caller, ask(project))
            // Nobody asks again before: a signal that is lost now is not made up for by another one.
            yield* Deferred.await(mine)
          }
        })
        yield* Effect.all(
          Array.from({ length: askers }, () => asking),
          { concurrency: "unbounded", discard: true }
        ).pipe(
          Effect.timeoutOrElse({
            duration: "30 seconds",
            orElse: () => Effect.die(new Error("an operation was not taken"))
          })
        )
        yield* Fiber.interrupt(dispatcher)
        assert.strictEqual(yield* queueFaults, 0)
      }),
    40_000
  )
})
