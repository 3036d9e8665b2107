import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { operationsAtOnceMax } from "../../../src/domain/Bounds.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { Executions } from "../../../src/domain/operations/Executions.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationPlans, type Step } from "../../../src/domain/operations/plan.ts"
import { recoverClaims } from "../../../src/domain/operations/recovery.ts"
import { fixture, queued, self, value } from "../../infra/postgres/operationsFixture.ts"

const live = { excludeTestServices: true } as const

/** A start whose only step waits until it is let go on. */
const held = Effect.gen(function* () {
  const goOn = yield* Deferred.make<void>()
  const begun: Array<Operation["id"]> = []
  const step: Step = {
    name: "hold",
    weight: 1,
    run: (operation) =>
      Effect.suspend(() => {
        begun.push(operation.id)
        return Effect.as(Deferred.await(goOn), {})
      })
  }
  const plan = {
    action: "start",
    desired: "running",
    observedMeanwhile: null,
    observedAfter: "running",
    observedOnFailure: null,
    steps: [step],
    settledByLastStep: false
  } as const
  const plans = Layer.succeed(OperationPlans, { planOf: () => plan })
  const executions = Executions.layer.pipe(Layer.provide(plans))
  return { begun, executions, goOn: Deferred.succeed(goOn, undefined) }
})

const stateOf = (operation: Operation) =>
  value("select state from runtime_operations where id = $1::uuid", [operation.id])

const untilSettled = (operation: Operation) =>
  Effect.repeat(stateOf(operation), { until: (state) => state === "succeeded" })

const sweep = Effect.gen(function* () {
  const { own } = yield* recoverClaims()
  yield* (yield* Executions).giveBackUnheld(own)
  return own.length
})

const claimed = Effect.gen(function* () {
  yield* queued
  return Option.getOrThrow(yield* claimNext(self))
})

layer(fixture, live)("operations/Executions", (it) => {
  it.effect(
    "SP-OPS-02 BX-04 a claim whose answer was lost is given back, and carried out by who claims it next",
    () =>
      Effect.gen(function* () {
        const { executions, goOn } = yield* held
        yield* Effect.gen(function* () {
          const lost = yield* claimed
          assert.strictEqual(yield* sweep, 1)
          assert.strictEqual(yield* stateOf(lost), "queued")
          const again = Option.getOrThrow(yield* claimNext(self))
          assert.strictEqual(again.id, lost.id)
          yield* goOn
          yield* (yield* Executions).take(again)
          yield* untilSettled(again)
        }).pipe(Effect.provide(executions))
      })
  )

  it.effect(
    "SP-OPS-02 BX-04 what is carried out here is not given back, nor what waits here for a place",
    () =>
      Effect.gen(function* () {
        const { begun, executions, goOn } = yield* held
        yield* Effect.gen(function* () {
          const { isBusy, take } = yield* Executions
          const all = yield* Effect.forEach(Array.from({ length: operationsAtOnceMax }), () => claimed)
          yield* Effect.forEach(all, take, { discard: true })
          const waiting = yield* claimed
          yield* Effect.forkChild(take(waiting), { startImmediately: true })
          assert.isTrue(isBusy(waiting.project))
          assert.strictEqual(yield* sweep, all.length + 1)
          for (const operation of [...all, waiting]) assert.strictEqual(yield* stateOf(operation), "claimed")
          yield* goOn
          for (const operation of [...all, waiting]) yield* untilSettled(operation)
          assert.strictEqual(begun.length, all.length + 1)
          yield* Effect.repeat(
            Effect.sync(() => [...all, waiting].some(({ project }) => isBusy(project))),
            { until: (busy) => !busy }
          )
        }).pipe(Effect.provide(executions))
      })
  )
})
