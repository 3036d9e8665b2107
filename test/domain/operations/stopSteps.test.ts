/** Ending a machine over scripted guests. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { failNext } from "../../../src/infra/guests/scriptedState.ts"
import { fixture, ask, provisioned, Scripted, settled } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const observed = (project: Parameters<RuntimeStore["Service"]["runtime"]>[0]) =>
  Effect.flatMap(RuntimeStore, (store) =>
    Effect.map(store.runtime(project), (runtime) => Option.getOrThrow(runtime))
  )

describe("operations/stopSteps", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("a stop that cannot end the guest fails, and the machine stays charged", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { guests } = yield* Scripted
        failNext(guests, "end")
        const failed = yield* Effect.flatMap(ask(scene, "stop"), settled)
        assert.deepStrictEqual([failed.state, failed.errorCode], ["failed", "guest_failure"])
        assert.strictEqual((yield* Effect.flatMap(ask(scene, "stop"), settled)).state, "succeeded")
        assert.strictEqual((yield* observed(scene.project)).observed, "stopped")
        const receipts = yield* Effect.flatMap(OperationStore, (store) =>
          store.newestOfProject(scene.project, { limit: 5 })
        )
        assert.deepStrictEqual(
          receipts.map(({ action, state }) => `${action} ${state}`),
          ["stop succeeded", "stop failed", "provision succeeded"]
        )
      })
    )
  })
})
