import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as PubSub from "effect/PubSub"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { admitOperationStepwise } from "../../../src/domain/operations/admissionStepwise.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import {
  type Admit,
  ask,
  fixture,
  newProject,
  queueFaults,
  RaisedAlerts,
  stored
} from "../../infra/postgres/operationsFixture.ts"
import { type Situation, situations } from "./situations.ts"

const play = Effect.fnUntraced(function* (situation: Situation, admit: Admit) {
  const scene = yield* newProject
  const raised = yield* RaisedAlerts
  const events = yield* OperationEvents
  for (const prepare of situation.given) yield* prepare(scene) as Effect.Effect<unknown, never, never>
  const watcher = yield* events.subscribe
  const by = situation.by ?? "caller"
  const result = yield* Effect.result(
    admit(by === "system" ? by : scene[by], ask(scene.project, situation.asked))
  )
  const told =
    result._tag === "Success"
      ? {
          answer: result.success.outcome,
          fields: {
            state: result.success.operation.state,
            action: result.success.operation.action,
            key: result.success.operation.requestKey
          }
        }
      : {
          answer: "code" in result.failure ? result.failure.code : "",
          fields: { ...result.failure, ...stripped }
        }
  return {
    ...told,
    stored: yield* stored(scene.project),
    alerts: raised.filter((each) => each.project === scene.project).map(({ code, action }) => [code, action]),
    published: (yield* PubSub.takeUpTo(watcher, 10)).map(({ action, state }) => [action, state])
  }
}, Effect.scoped)

/** What differs between two Projects by chance. */
const stripped = { project: 0, account: "", operation: "" } as const

describe("admission in both forms", () => {
  layer(fixture, { excludeTestServices: true })((it) => {
    it.effect.each(situations.map((situation) => [situation.name, situation] as const))(
      "%s: the statement and the steps answer, store, publish and alert the same",
      ([, situation]) =>
        Effect.gen(function* () {
          const inOne = yield* play(situation, admitOperation)
          const inSteps = yield* play(situation, admitOperationStepwise)
          assert.strictEqual(inSteps.answer, situation.answer)
          assert.deepStrictEqual(inOne, inSteps)
          assert.strictEqual(yield* queueFaults, 0)
        })
    )
  })
})
