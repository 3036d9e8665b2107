/** What a failed operation has made is taken back before it is told, or stays on its receipt: never half a word. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationRefused } from "../../../src/domain/operations/OperationRefused.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { type ActionPlan, OperationPlans, type TakeBack } from "../../../src/domain/operations/plan.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { fixture, queued, self } from "../../infra/postgres/operationsFixture.ts"

const refused = ({ project }: Operation, why: string) =>
  new OperationRefused({ project, code: "no_safe_copy", why })

/** Two steps: the first marks that it makes something, the second ends as it is told. */
const plan = (takeBack: TakeBack, second: ActionPlan["steps"][0]["run"]): ActionPlan => ({
  action: "start",
  desired: null,
  observedMeanwhile: "starting",
  observedAfter: null,
  observedOnFailure: null,
  settledByLastStep: false,
  steps: [
    { name: "first", weight: 1, run: () => Effect.succeed({ flags: ["creating"] }) },
    { name: "second", weight: 1, run: second }
  ],
  takeBack
})

const fails: ActionPlan["steps"][0]["run"] = (operation) => Effect.fail(refused(operation, "it failed"))

const claim = Effect.gen(function* () {
  yield* queued
  return Option.getOrThrow(yield* claimNext(self))
})

const reread = ({ id }: Operation) =>
  Effect.flatMap(OperationStore, (store) => Effect.map(store.byId(id), Option.getOrThrow))

const carriedOut = (claimed: Operation, given: ActionPlan) =>
  executeClaimed(claimed).pipe(Effect.provideService(OperationPlans, { planOf: () => given }))

describe("operations, taking back", () => {
  layer(fixture, { excludeTestServices: true })((it) => {
    it.effect(
      "where nothing is left of it, its request begins anew; where there is no way back, it goes on",
      () =>
        Effect.gen(function* () {
          for (const isTaken of [true, false]) {
            const claimed = yield* claim
            const seen: Array<string | null> = []
            const takeBack: TakeBack = ({ flags, step }) =>
              Effect.sync(() => {
                seen.push(step, ...flags)
                return isTaken
              })
            yield* carriedOut(claimed, plan(takeBack, fails))
            const { errorCode, errorText, flags, state, step } = yield* reread(claimed)
            assert.deepStrictEqual(seen, ["second", "creating"], "it is told how far it came")
            assert.deepStrictEqual([state, errorCode], ["failed", "no_safe_copy"])
            assert.include(errorText ?? "", "it failed")
            assert.deepStrictEqual([step, flags], isTaken ? ["first", []] : ["second", ["creating"]])
          }
        })
    )

    it.effect(
      "what cannot be taken back stays on the receipt, and the failure is the one that came first",
      () =>
        Effect.gen(function* () {
          for (const how of [
            (operation: Operation) => Effect.fail(refused(operation, "it stays")),
            () => Effect.die(new Error("a defect"))
          ]) {
            const claimed = yield* claim
            yield* carriedOut(claimed, plan(how, fails))
            const { errorText, flags, state } = yield* reread(claimed)
            assert.deepStrictEqual([state, flags], ["failed", ["creating"]])
            assert.include(errorText ?? "", "it failed")
          }
        })
    )

    it.effect("SP-OPS-06 nothing is taken back for a success, an interruption or a lost claim", () =>
      Effect.gen(function* () {
        const store = yield* OperationStore
        let taken = 0
        const takeBack: TakeBack = () => Effect.sync(() => (taken += 1) > 0)
        // A step fails as a guest does; a theft that fails is the test's own.
        const steal = (claimed: Operation) =>
          store
            .requeueIfClaimedBy(claimed)
            .pipe(Effect.andThen(claimNext(self)), Effect.orDie, Effect.provide(context))
        const context = yield* Effect.context<Effect.Services<typeof claim>>()
        const done = yield* claim
        yield* carriedOut(
          done,
          plan(takeBack, () => Effect.succeed({}))
        )
        assert.strictEqual((yield* reread(done)).state, "succeeded")
        yield* Effect.exit(
          carriedOut(
            yield* claim,
            plan(takeBack, () => Effect.interrupt)
          )
        )
        const lost = yield* claim
        yield* carriedOut(
          lost,
          plan(takeBack, (_, recorder) =>
            Effect.as(Effect.andThen(steal(lost), recorder.record({ flags: ["removed"] })), {})
          )
        )
        assert.strictEqual((yield* reread(lost)).state, "claimed")
        assert.strictEqual(taken, 0)
        // The step itself fails, or dies, and does not know that another one is at work on the same by then.
        for (const end of [Effect.fail(refused(lost, "it failed")), Effect.die(new Error("a defect"))]) {
          const late = yield* claim
          yield* carriedOut(
            late,
            plan(takeBack, () => Effect.andThen(steal(late), end))
          )
          assert.deepInclude(
            { ...(yield* reread(late)) },
            { state: "claimed", claimSequence: late.claimSequence + 1, flags: ["creating"] }
          )
          assert.strictEqual(taken, 0, "nothing of the successor's is taken back")
        }
      })
    )

    it.effect("an action that changes nothing of the runtime leaves its row as it was", () =>
      Effect.gen(function* () {
        const claimed = yield* claim
        const runtime = Effect.flatMap(RuntimeStore, (store) => store.runtime(claimed.project))
        const before = yield* runtime
        yield* carriedOut(
          claimed,
          plan(
            () => Effect.succeed(true),
            () => Effect.succeed({})
          )
        )
        assert.deepStrictEqual(yield* runtime, before)
      })
    )
  })
})
