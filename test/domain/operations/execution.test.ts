/**
 * A claimed operation is carried out step by step, and again after every way in which it can be cut off. The plan is
 * a scripted one whose acts converge like real ones; the stores are real.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import {
  type ActionPlan,
  fractionBefore,
  OperationPlans,
  resumeIndex,
  type Step
} from "../../../src/domain/operations/plan.ts"
import { StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { fixture, queued, self } from "../../infra/postgres/operationsFixture.ts"
import { startPlan } from "./builders.ts"

const live = { excludeTestServices: true } as const

const stepNames = ["image", "storage", "guest", "boot"] as const

/** What the scripted machine has come to: each act makes its thing once, however often it is run. */
interface Machine {
  readonly made: Map<string, number>
  readonly runs: Array<string>
}

const makeMachine = (): Machine => ({ made: new Map(), runs: [] })

const scripted = (machine: Machine, change: Partial<ActionPlan> = {}) =>
  startPlan(
    Arr.map(stepNames, (name, index): Step => ({
      name,
      weight: index + 1,
      run: (operation, recorder) =>
        Effect.gen(function* () {
          machine.runs.push(name)
          if (name === "guest") yield* recorder.record({ flags: ["creating"] })
          if (!machine.made.has(name)) machine.made.set(name, operation.claimSequence)
          return name === "boot" ? { message: "up" } : {}
        })
    })),
    change
  )

const plans = (plan: ActionPlan | undefined) => Effect.provideService(OperationPlans, { planOf: () => plan })

const claim = Effect.gen(function* () {
  yield* queued
  return Option.getOrThrow(yield* claimNext(self))
})

const reread = (operation: Operation) =>
  Effect.flatMap(OperationStore, (store) => Effect.map(store.byId(operation.id), Option.getOrThrow))

const observed = (operation: Operation) =>
  Effect.flatMap(RuntimeStore, (store) =>
    Effect.map(store.runtime(operation.project), (runtime) => Option.getOrThrow(runtime).observed)
  )

/** The daemon dies here: the fiber goes without any clean-up of the program, as after a SIGKILL. */
class Killed extends Error {}

const killAt = (boundary: "before" | "after", step: string) =>
  Effect.provideService(StepObserver, {
    before: (_, name) => (boundary === "before" && name === step ? Effect.interrupt : Effect.void),
    after: (_, name) => (boundary === "after" && name === step ? Effect.interrupt : Effect.void)
  })

describe("operations/execution", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("runs every step once, in order, and says what the runtime is in the end", () =>
      Effect.gen(function* () {
        const machine = makeMachine()
        const operation = yield* claim
        yield* executeClaimed(operation).pipe(plans(scripted(machine)))
        const settled = yield* reread(operation)
        assert.deepStrictEqual(machine.runs, [...stepNames])
        assert.strictEqual(settled.state, "succeeded")
        assert.deepStrictEqual(settled.flags, ["creating"])
        assert.strictEqual(yield* observed(operation), "running")
        const runtime = yield* Effect.flatMap(RuntimeStore, (store) => store.runtime(operation.project))
        assert.strictEqual(Option.getOrThrow(runtime).desired, "running")
      })
    )

    for (const boundary of ["before", "after"] as const) {
      for (const step of stepNames) {
        it.effect(
          `SP-OPS-03 a daemon that dies ${boundary} ${step} is resumed to the same end, with nothing made twice`,
          () =>
            Effect.gen(function* () {
              const machine = makeMachine()
              const operation = yield* claim
              const cut = yield* executeClaimed(operation).pipe(
                plans(scripted(machine)),
                killAt(boundary, step),
                Effect.exit
              )
              assert.isTrue(Exit.isFailure(cut))
              const left = yield* reread(operation)
              assert.strictEqual(left.state, "claimed")
              assert.strictEqual(left.step, step)
              yield* Effect.flatMap(OperationStore, (store) => store.requeueIfClaimedBy(left))
              const again = Option.getOrThrow(yield* claimNext(self))
              assert.strictEqual(again.id, operation.id)
              yield* executeClaimed(again).pipe(plans(scripted(machine)))
              assert.strictEqual((yield* reread(operation)).state, "succeeded")
              assert.strictEqual(yield* observed(operation), "running")
              assert.deepStrictEqual([...machine.made.keys()], [...stepNames])
              const first = machine.runs.slice(
                0,
                machine.runs.length - stepNames.length + stepNames.indexOf(step)
              )
              assert.deepStrictEqual(
                machine.runs.slice(first.length),
                stepNames.slice(stepNames.indexOf(step)),
                "a resumed operation begins at the step that it was cut off in"
              )
            })
        )
      }
    }

    it.effect("SP-OPS-03 the step's intent is durable before its act runs", () =>
      Effect.gen(function* () {
        const operation = yield* claim
        const seen: Array<string | null> = []
        const store = yield* OperationStore
        const watcher = {
          before: (_: string, step: string) =>
            store.byId(operation.id).pipe(
              Effect.map((row) => void seen.push(Option.getOrThrow(row).step, step)),
              // An observer cannot fail.
              Effect.orDie
            ),
          after: () => Effect.void
        }
        yield* executeClaimed(operation).pipe(
          plans(scripted(makeMachine())),
          Effect.provideService(StepObserver, watcher)
        )
        assert.deepStrictEqual(
          seen,
          stepNames.flatMap((name) => [name, name])
        )
      })
    )

    it.effect("a refused step ends the operation with its code and the runtime as failed", () =>
      Effect.gen(function* () {
        const operation = yield* claim
        const refuse: Step = {
          name: "image",
          weight: 1,
          run: () =>
            Effect.fail({ _tag: "Refused", code: "image_not_found", message: "there is no such image" })
        }
        yield* executeClaimed(operation).pipe(plans(scripted(makeMachine(), { steps: [refuse] })))
        const settled = yield* reread(operation)
        assert.deepStrictEqual(
          [settled.state, settled.errorCode, settled.errorText],
          ["failed", "image_not_found", "there is no such image"]
        )
        assert.strictEqual(yield* observed(operation), "failed")
      })
    )

    it.effect("a step that dies fails its operation and tells nothing of the defect", () =>
      Effect.gen(function* () {
        const operation = yield* claim
        const die: Step = { name: "image", weight: 1, run: () => Effect.die(new Killed("canary-4711")) }
        const logged: Array<string> = []
        const logger = Logger.make(({ message }) => void logged.push(JSON.stringify(message)))
        yield* executeClaimed(operation).pipe(
          plans(scripted(makeMachine(), { steps: [die] })),
          Effect.provide(Logger.layer([logger]))
        )
        const settled = yield* reread(operation)
        assert.strictEqual(settled.errorCode, "internal")
        assert.include(logged.join(), "died in its step")
        assert.include(logged.join(), "execution.test.ts", "the log says where")
        assert.notInclude(logged.join(), "canary-4711")
        assert.notInclude(JSON.stringify(settled), "canary-4711")
      })
    )

    it.effect("a statement that the schema refuses ends the operation, it is not tried for ever", () =>
      Effect.gen(function* () {
        const operation = yield* claim
        const refused = new StorageFailure({
          operation: "test",
          fault: "constraint",
          state: "23503",
          constraint: null
        })
        const step: Step = { name: "image", weight: 1, run: () => Effect.fail(refused) }
        yield* executeClaimed(operation).pipe(plans(scripted(makeMachine(), { steps: [step] })))
        assert.strictEqual((yield* reread(operation)).errorCode, "storage_failure")
      })
    )

    it.effect(
      "a database that was away for a moment only makes the operation wait, and the step is run again",
      () =>
        Effect.gen(function* () {
          const operation = yield* claim
          const away = new StorageFailure({
            operation: "test",
            fault: "connection",
            state: null,
            constraint: null
          })
          let tries = 0
          const step: Step = {
            name: "image",
            weight: 1,
            run: () => Effect.suspend(() => ((tries += 1) < 3 ? Effect.fail(away) : Effect.succeed({})))
          }
          yield* executeClaimed(operation).pipe(plans(scripted(makeMachine(), { steps: [step] })))
          assert.deepStrictEqual([(yield* reread(operation)).state, tries], ["succeeded", 3])
        })
    )

    it.effect("an action without a plan is refused, not left claimed", () =>
      Effect.gen(function* () {
        const operation = yield* claim
        yield* executeClaimed(operation).pipe(plans(undefined))
        assert.strictEqual((yield* reread(operation)).errorCode, "action_not_supported")
      })
    )

    it.effect("SP-OPS-06 an executor whose claim was stolen in a step changes nothing afterwards", () =>
      Effect.gen(function* () {
        const machine = makeMachine()
        const operation = yield* claim
        const steal = Effect.gen(function* () {
          const store = yield* OperationStore
          yield* store.requeueIfClaimedBy(operation)
          return Option.getOrThrow(yield* claimNext(self))
          // An observer cannot fail.
        }).pipe(
          Effect.provide(yield* Effect.context<Effect.Services<typeof claim> | RuntimeStore>()),
          Effect.orDie
        )
        const thief = {
          before: (_: string, step: string) => (step === "guest" ? Effect.asVoid(steal) : Effect.void),
          after: () => Effect.void
        }
        yield* executeClaimed(operation).pipe(
          plans(scripted(machine)),
          Effect.provideService(StepObserver, thief)
        )
        const now = yield* reread(operation)
        assert.deepStrictEqual(
          [now.state, now.claimSequence, now.step],
          ["claimed", operation.claimSequence + 1, "guest"]
        )
        assert.notInclude(machine.runs, "boot")
      })
    )

    it.effect("progress is the weight of the steps before, and never goes back", () =>
      Effect.sync(() => {
        const plan = scripted(makeMachine())
        assert.deepStrictEqual(
          stepNames.map((_, index) => fractionBefore(plan, index)),
          [0, 0.1, 0.3, 0.6]
        )
        assert.strictEqual(resumeIndex(plan, { step: null }), 0)
        assert.strictEqual(resumeIndex(plan, { step: "boot" }), 3)
        assert.strictEqual(resumeIndex(plan, { step: "of another version" }), 0)
      })
    )
  })
})
