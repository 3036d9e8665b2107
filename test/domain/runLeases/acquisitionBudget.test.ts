/** How long an acquisition on the sandbox driver may take, at the call. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { acquisitionBudgets } from "../environments/acquisitionBudgets.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { fakeConfigSchema, onClone } from "./fixture.ts"

/** A default of the schema may mean the lifetime of the resource: it is no budget. */
const configSchema = {
  ...fakeConfigSchema,
  properties: {
    image: { type: "string" },
    timeoutMs: { type: "number", default: 3_600_000 },
    bridgeRequestTimeoutMs: { type: "number" },
    reuseLease: { type: "boolean" }
  }
}

describe("acquisitionBudget", () => {
  it.live.each(acquisitionBudgets)("RL-BUDGET-01 RL-BUDGET-02 %s", ([, explicit, declared, budget]) =>
    Effect.gen(function* () {
      const config = { image: "i", ...explicit, reuseLease: false }
      const scene = yield* leasedPlugin({
        config: { provider: "fake-plugin", ...config },
        entry: { configSchema, defaultAcquireTimeoutMs: declared }
      })
      yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
      const [call, ...others] = scene.workers.calls
      assert.deepStrictEqual(others, [])
      assert.deepStrictEqual([call?.given.length, call?.given[3]], [4, budget])
      assert.deepStrictEqual(call?.params["config"], config)
    }).pipe(onClone)
  )
})
