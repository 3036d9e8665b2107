/** How long an acquisition on the sandbox driver may take, at the call. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
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

const rows = [
  [
    "explicit provider and bridge budgets",
    { timeoutMs: 1234, bridgeRequestTimeoutMs: 40_000 },
    300_000,
    70_000
  ],
  ["declared acquisition default", {}, 300_000, 330_000],
  ["explicit shorter provider budget", { timeoutMs: 5000 }, 300_000, 35_000],
  [
    "bridge budget does not shorten acquisition default",
    { bridgeRequestTimeoutMs: 40_000 },
    300_000,
    330_000
  ],
  ["bridge extends the acquisition default", { bridgeRequestTimeoutMs: 400_000 }, 300_000, 430_000],
  ["undeclared provider retains worker default", {}, undefined, undefined],
  ["timeoutMs 1234, no bridge, undeclared", { timeoutMs: 1234 }, undefined, 31_234]
] as const

describe("acquisitionBudget", () => {
  it.live.each(rows)("RL-BUDGET-01 RL-BUDGET-02 %s", ([, explicit, declared, budget]) =>
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
