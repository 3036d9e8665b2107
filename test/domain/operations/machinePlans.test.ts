/** The actions on a machine: their steps and weights. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { machinePlans } from "../../../src/domain/operations/machinePlans.ts"
import { removalPlan } from "../../../src/domain/removal/removalSteps.ts"
import { fixture } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

describe("operations/machinePlans", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("steps and weights are those of the figures", () =>
      Effect.gen(function* () {
        const plans = [...(yield* machinePlans), yield* removalPlan]
        const weights = Object.fromEntries(
          plans.map(({ action, steps }) => [
            action,
            steps.map(({ name, weight }) => `${name} ${weight}`).join(", ")
          ])
        )
        const up = "image 10, storage 1, guest 2, boot 2, ready 2, initialise 1"
        assert.deepStrictEqual(weights, {
          provision: up,
          start: up,
          stop: "quiesce 1, stop 2",
          restart: `quiesce 1, stop 2, ${up}`,
          rebuild: `remove 2, ${up}`,
          recover: `end 2, ${up}`,
          snapshot: "quiesce 1, capture 8, record 1",
          restore: "quiesce 1, stop 2, import 8, guest 2, boot 2, switch 1, cleanup 1",
          delete: "stop 2, guests 2, storage 2, records 1"
        })
      })
    )
  })
})
