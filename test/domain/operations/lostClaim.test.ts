/** An executor that goes on although its claim is another's by now: the runtime's row, its log and its receipt stay. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RuntimeLog } from "../../../src/domain/history/RuntimeLog.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { OperationPlans, type Step } from "../../../src/domain/operations/plan.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { daemon, fixture, queued, self } from "../../infra/postgres/operationsFixture.ts"
import { startPlan } from "./builders.ts"

const starting = (run: Step["run"]) => startPlan([{ name: "image", weight: 1, run }])

const carryOut = (operation: Operation, run: Step["run"]) =>
  Effect.provideService(executeClaimed(operation), OperationPlans, { planOf: () => starting(run) })

const claim = Effect.gen(function* () {
  yield* queued
  return Option.getOrThrow(yield* claimNext(self))
})

/** The claim goes back to the queue and to somebody else: the sweep took it for one whose answer had been lost. */
const steal = (operation: Operation) =>
  Effect.gen(function* () {
    assert.isTrue(yield* (yield* OperationStore).requeueIfClaimedBy(operation))
    return Option.getOrThrow(yield* claimNext(daemon(300)))
  })

const linesOf = ({ project }: Operation) =>
  Effect.flatMap(RuntimeLog, (log) =>
    Effect.map(log.newest(project, 200), (lines) => lines.map(({ line }) => line))
  )

/** Everything that an executor can write of. */
const written = (operation: Operation) =>
  Effect.gen(function* () {
    const runtime = yield* (yield* RuntimeStore).runtime(operation.project)
    const receipt = yield* (yield* OperationStore).byId(operation.id)
    return { runtime, receipt, lines: yield* linesOf(operation) }
  })

layer(fixture, { excludeTestServices: true })("an executor without its claim", (it) => {
  it.effect("SP-OPS-06 one that lost it before it began writes nothing, whoever has it by then", () =>
    Effect.gen(function* () {
      const runs: Array<string> = []
      const operation = yield* claim
      const late = carryOut(operation, () => Effect.sync(() => (runs.push("image"), {})))
      assert.isTrue(yield* (yield* OperationStore).requeueIfClaimedBy(operation))
      const queuedAgain = yield* written(operation)
      yield* late
      assert.deepStrictEqual(yield* written(operation), queuedAgain)
      yield* claimNext(daemon(300))
      const claimedAgain = yield* written(operation)
      yield* late
      assert.deepStrictEqual(yield* written(operation), claimedAgain)
      assert.deepStrictEqual(runs, [])
    })
  )

  it.effect("SP-OPS-06 a line that it adds behind the theft is refused, and ends it", () =>
    Effect.gen(function* () {
      const operation = yield* claim
      const context = yield* Effect.context<Effect.Services<ReturnType<typeof steal>>>()
      const refusals: Array<string> = []
      yield* carryOut(operation, (_, recorder) =>
        Effect.gen(function* () {
          yield* recorder.log("it is up")
          // A step fails as a guest does; a theft that fails is the test's own.
          yield* steal(operation).pipe(Effect.provide(context), Effect.orDie)
          yield* Effect.tapError(recorder.log("it is up, says a late one"), ({ _tag }) =>
            Effect.sync(() => void refusals.push(_tag))
          )
          return {}
        })
      )
      assert.deepStrictEqual(refusals, ["ClaimLost"])
      assert.deepStrictEqual(yield* linesOf(operation), ["it is up"])
      assert.strictEqual(Option.getOrThrow((yield* written(operation)).receipt).state, "claimed")
    })
  )
})
