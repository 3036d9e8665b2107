/**
 * Every action on a machine, cut off at every boundary of every step, its own and those of the programs that it calls;
 * with every call to the guest failing once; and with every step done twice. Whatever happens, the next claim of the
 * same operation ends it in the one state that was asked for: one record, one guest or none, and nothing owed but the
 * machine that is there. The ports that reach outside the database are guarded: one that is used while a transaction is
 * open fails the test.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { OperationPlans, type Step } from "../../../src/domain/operations/plan.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { failNext, type ScriptedCall } from "../../../src/infra/guests/scriptedState.ts"
import { requestOf, Scripted, undispatched } from "../removal/fixture.ts"
import { cutAt } from "../../support/boundaries.ts"
import { carryOut, type Case, cases, check, claim, look, receiptOf } from "./actionCases.ts"

const live = { excludeTestServices: true, timeout: "120 seconds" } as const

/** A restore has some fifty boundaries, and makes real copies at each. */
const testMillisMax = 120_000

const begun = (expected: Case) =>
  Effect.gen(function* () {
    const scene = yield* expected.begin
    const before = yield* look(scene)
    const request = requestOf(scene.project, expected.action)
    yield* admitOperation(scene.caller, request)
    return { before, request, claimed: yield* claim }
  })

/** Carries it out until it is cut off there; then the next daemon goes on. Answers the boundaries that were met. */
const cutAndResumed = (expected: Case, at: number) =>
  Effect.gen(function* () {
    const { before, claimed } = yield* begun(expected)
    const { observer, reached } = cutAt(at)
    yield* Effect.exit(executeClaimed(claimed).pipe(Effect.provideService(StepObserver, observer)))
    const left = yield* receiptOf(claimed.id)
    if (left.state === "claimed") {
      assert.isTrue(yield* (yield* OperationStore).requeueIfClaimedBy(left))
      yield* executeClaimed(yield* claim)
    }
    yield* check(expected, before, claimed, `cut at ${reached[at - 1] ?? "no boundary"}`)
    return reached
  })

/** A step that is done, and done again: its answer was lost. */
const twice =
  (store: OperationStore["Service"]) =>
  (step: Step): Step => ({
    ...step,
    run: (operation, recorder) =>
      Effect.gen(function* () {
        yield* step.run(operation, recorder)
        return yield* step.run(Option.getOrThrow(yield* store.byId(operation.id)), recorder)
      })
  })

const guestCalls: ReadonlyArray<ScriptedCall> = ["inspect", "start", "execute", "end", "pause", "resume"]

describe("operations, every step of every action", () => {
  layer(
    undispatched,
    live
  )((it) => {
    for (const expected of cases) {
      it.effect(
        `SP-OPS-03 SP-TX-08 ${expected.name}: cut off at every boundary, it is resumed to the same end`,
        () =>
          Effect.gen(function* () {
            const boundaries = yield* cutAndResumed(expected, Number.POSITIVE_INFINITY)
            assert.isAbove(boundaries.length, 2)
            for (let at = 1; at <= boundaries.length; at += 1) yield* cutAndResumed(expected, at)
          }),
        testMillisMax
      )

      it.effect(
        `SP-OPS-03 ${expected.name}: with every call to its guest failing once, the same request ends it`,
        () =>
          Effect.gen(function* () {
            for (const call of guestCalls) {
              for (const when of ["before", "after"] as const) {
                const { before, claimed, request } = yield* begun(expected)
                const { guests } = yield* Scripted
                failNext(guests, call, when)
                yield* executeClaimed(claimed)
                guests.faults.length = 0
                const { state } = yield* receiptOf(claimed.id)
                if (state === "failed") yield* carryOut(before.scene, request)
                yield* check(expected, before, claimed, `${call} failed ${when}`)
              }
            }
          }),
        testMillisMax
      )

      it.effect(
        `SP-OPS-03 ${expected.name}: with every step done twice, it ends as if each was done once`,
        () =>
          Effect.gen(function* () {
            const { before, claimed } = yield* begun(expected)
            const { planOf } = yield* OperationPlans
            const plan = planOf(expected.action)!
            const [first, ...others] = plan.steps
            const double = twice(yield* OperationStore)
            const doubled = { ...plan, steps: [double(first), ...others.map(double)] as const }
            yield* executeClaimed(claimed).pipe(
              Effect.provideService(OperationPlans, { planOf: () => doubled })
            )
            yield* check(expected, before, claimed, "every step twice")
          })
      )
    }
  })
})
