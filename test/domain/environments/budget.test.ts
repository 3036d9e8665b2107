import { assert, describe, it } from "vitest"
import { providerCallMarginMillis, providerCallMillisMax } from "../../../src/domain/Bounds.ts"
import {
  acquisitionBudgetMillis,
  executionBudgetMillis,
  lifecycleBudgetMillis,
  pluginAcquisitionBudgetMillis
} from "../../../src/domain/environments/budget.ts"
import { acquisitionBudgets } from "./acquisitionBudgets.ts"
import { makeSeededRandom } from "../../support/seededRandom.ts"

const unusable: ReadonlyArray<unknown> = [0, -1, Number.NaN, Number.POSITIVE_INFINITY, "5000", null, {}]

describe("environments/budget", () => {
  it.each(acquisitionBudgets)("RL-BUDGET-01 acquisition: %s", (_, config, declared, budget) => {
    assert.strictEqual(acquisitionBudgetMillis({ ...config }, declared), budget)
  })

  it("RL-BUDGET-03 resume, release, stop and destroy get the recorded time-out and the margin", () => {
    assert.strictEqual(lifecycleBudgetMillis({ timeoutMs: 1234, bridgeRequestTimeoutMs: 40_000 }), 31_234)
    assert.isUndefined(lifecycleBudgetMillis({}))
  })

  it("RL-BUDGET-04 a command has its own time-out before the config's", () => {
    assert.strictEqual(executionBudgetMillis(1000, { timeoutMs: 1234 }), 31_000)
    assert.strictEqual(executionBudgetMillis(undefined, { timeoutMs: 1234 }), 31_234)
    assert.isUndefined(executionBudgetMillis(undefined, {}))
  })

  it("RL-BUDGET-05 driver plugin: declared or none", () => {
    assert.strictEqual(pluginAcquisitionBudgetMillis(300_000), 330_000)
    assert.isUndefined(pluginAcquisitionBudgetMillis(undefined))
  })

  it.each(unusable)("RL-BUDGET-01 a time-out of %j says nothing", (timeoutMs) => {
    assert.isUndefined(acquisitionBudgetMillis({ timeoutMs, bridgeRequestTimeoutMs: timeoutMs }, undefined))
    assert.isUndefined(lifecycleBudgetMillis({ timeoutMs }))
  })

  it("RL-BUDGET-01 no budget is longer than a timer can wait", () => {
    assert.strictEqual(acquisitionBudgetMillis({ timeoutMs: 1e300 }, undefined), providerCallMillisMax)
    assert.strictEqual(lifecycleBudgetMillis({ timeoutMs: 1e300 }), providerCallMillisMax)
  })

  it("RL-BUDGET-01 property: the bridge only lengthens, the declaration counts only without a time-out", () => {
    const seed = 20_260_501
    const random = makeSeededRandom(seed)
    for (let round = 0; round < 500; round += 1) {
      const timeoutMs = 1 + random.below(500_000)
      const declared = 1 + random.below(500_000)
      const bridge = 1 + random.below(500_000)
      const plain = acquisitionBudgetMillis({ timeoutMs }, declared) ?? 0
      const bridged = acquisitionBudgetMillis({ timeoutMs, bridgeRequestTimeoutMs: bridge }, declared) ?? 0
      assert.strictEqual(plain, timeoutMs + providerCallMarginMillis, `seed ${seed}, round ${round}`)
      assert.strictEqual(bridged, Math.max(plain, bridge + providerCallMarginMillis), `seed ${seed}`)
    }
  })
})
