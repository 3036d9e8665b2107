import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { dispatch } from "../../../src/domain/operations/claims.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
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
  it.effect("SP-OPS-02 a signal that is given while a claim comes back empty starts another one", () =>
    Effect.gen(function* () {
      const store = yield* OperationStore
      const events = yield* OperationEvents
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      const taken = yield* Deferred.make<number>()
      const context = yield* Effect.context<Effect.Services<ReturnType<typeof admitOperation>>>()
      let claims = 0
      // The first claim has found nothing, and its answer has not arrived, when the operation is asked for.
      const meanwhile = Effect.suspend(() => {
        claims += 1
        // The claim under test has no word for a request that is refused.
        return claims > 1 ? Effect.void : Effect.orDie(admitOperation(caller, ask(project)))
      }).pipe(Effect.provideContext(context))
      const late = OperationStore.of({
        ...store,
        claim: (process, operationsMax) => Effect.tap(store.claim(process, operationsMax), () => meanwhile)
      })
      const dispatcher = yield* Effect.forkChild(
        dispatch(self, {
          room: Effect.succeed(3),
          take: (operation) => Effect.andThen(succeed(operation), Deferred.succeed(taken, operation.project))
        }).pipe(Effect.provideService(OperationStore, late))
      )
      yield* events.wake
      assert.strictEqual(yield* Effect.timeout(Deferred.await(taken), "5 seconds"), project)
      yield* Fiber.interrupt(dispatcher)
    })
  )

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
