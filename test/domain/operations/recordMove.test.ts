/** The move of a runtime's row together with the receipt, by a plan whose only step is that move. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Generation } from "../../../src/domain/Identity.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { type ActionPlan, OperationPlans } from "../../../src/domain/operations/plan.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { fixture, queued, recipeOf, self } from "../../infra/postgres/operationsFixture.ts"
import { startPlan } from "./builders.ts"

const live = { excludeTestServices: true } as const

const plans = (plan: ActionPlan) => Effect.provideService(OperationPlans, { planOf: () => plan })

const claim = Effect.gen(function* () {
  yield* queued
  return Option.getOrThrow(yield* claimNext(self))
})

const reread = (operation: Operation) =>
  Effect.flatMap(OperationStore, (store) => Effect.map(store.byId(operation.id), Option.getOrThrow))

const runtimeOf = (operation: Operation) =>
  Effect.flatMap(RuntimeStore, (store) => Effect.map(store.runtime(operation.project), Option.getOrThrow))

/** A rebuild whose only step puts another machine in place, after `between`. */
const moving = (between: Effect.Effect<void>, told: (isMoved: boolean) => void) =>
  startPlan([
    {
      name: "remove",
      weight: 1,
      run: (operation, recorder) =>
        Effect.gen(function* () {
          yield* between
          const recipe = recipeOf(2)
          const isMoved = yield* recorder.recordMove(
            { newRecipe: recipe, flags: ["creating", "switched"] },
            (store) => store.replaceMachine(operation.project, { from: Generation.make(1), recipe })
          )
          told(isMoved)
          return {}
        })
    }
  ])

layer(fixture, live)("StepRecorder.recordMove", (it) => {
  it.effect(
    "SP-OPS-06 SP-TX-06 the runtime's row and the receipt of its new machine move together or not at all",
    () =>
      Effect.gen(function* () {
        const context = yield* Effect.context<Effect.Services<typeof claim> | RuntimeStore>()
        const moves: Array<boolean> = []
        const generationOf = (operation: Operation) =>
          Effect.map(runtimeOf(operation), ({ generation }) => generation)
        const stolen = yield* claim
        const steal = Effect.gen(function* () {
          yield* (yield* OperationStore).requeueIfClaimedBy(stolen)
          yield* claimNext(self)
          // A step fails as a guest does; a theft that fails is the test's own.
        }).pipe(Effect.provide(context), Effect.orDie)
        yield* executeClaimed(stolen).pipe(plans(moving(steal, (is) => moves.push(is))))
        assert.deepStrictEqual([moves, yield* generationOf(stolen)], [[], 1])
        assert.deepStrictEqual([(yield* reread(stolen)).flags, (yield* reread(stolen)).owed], [[], []])

        const replaced = yield* claim
        const replace = Effect.flatMap(
          RuntimeStore,
          (store) => store.replaceMachine(replaced.project, { from: Generation.make(1), recipe: recipeOf(2) })
          // As above.
        ).pipe(Effect.provide(context), Effect.orDie, Effect.asVoid)
        yield* executeClaimed(replaced).pipe(plans(moving(replace, (is) => moves.push(is))))
        assert.deepStrictEqual([moves, yield* generationOf(replaced)], [[false], 2])
        assert.deepStrictEqual((yield* reread(replaced)).owed, [])

        const moved = yield* claim
        yield* executeClaimed(moved).pipe(plans(moving(Effect.void, (is) => moves.push(is))))
        assert.deepStrictEqual([moves, yield* generationOf(moved)], [[false, true], 2])
        const receipt = yield* reread(moved)
        assert.deepStrictEqual([receipt.state, receipt.flags], ["succeeded", ["creating", "switched"]])
        assert.strictEqual(
          (yield* runtimeOf(moved)).observed,
          "running",
          "it is settled as the machine that it became"
        )
      })
  )
})
