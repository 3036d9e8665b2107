/** Each check by itself, against a provider that answers every call alike: it must find something to say. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { checks } from "../../../src/domain/providers/conformanceChecks.ts"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { kitAnswering } from "./conformanceKits.ts"

const everyMethod = [
  "environmentAcquireLease",
  "environmentDestroyLease",
  "environmentStopLease",
  "environmentResumeLease",
  "environmentExecute",
  "environmentListLeases"
]

describe("providers/conformanceChecks", () => {
  it("each check has a name of its own", () => {
    assert.strictEqual(new Set(checks.map(({ name }) => name)).size, checks.length)
  })

  for (const { name, run } of checks.filter(({ name }) => !/methods that no provider|FC-21/.test(name))) {
    it.effect(`BX-06 a worker that answers nothing does not pass: ${name}`, () =>
      Effect.gen(function* () {
        const { kit } = kitAnswering(() => Effect.succeed(undefined), everyMethod)
        assert.match(yield* Effect.flip(run(kit)), /answer/)
      })
    )
  }

  it.effect("BX-06 a worker without its two methods does not pass", () =>
    Effect.gen(function* () {
      const { kit } = kitAnswering(() => Effect.succeed(undefined), ["environmentAcquireLease"])
      assert.include(yield* Effect.flip(checks[0]!.run(kit)), "environmentDestroyLease")
    })
  )

  it.effect("FC-21 what a worker says of its faults is in no report", () =>
    Effect.gen(function* () {
      const error = new ProviderRpcError({ code: -32000, message: "canary", data: "canary" })
      for (const { run } of checks.slice(1, 5)) {
        const { kit } = kitAnswering(() => Effect.fail(error), everyMethod)
        const why = yield* Effect.flip(run(kit))
        assert.notInclude(why, "canary")
        assert.include(why, "-32000")
      }
    })
  )

  it("a check of something that is not claimed is left out, and says why", () => {
    const { kit } = kitAnswering(() => Effect.succeed(undefined), [])
    const whys = checks.map(({ leftOut }) => leftOut?.(kit)).filter((why) => why !== undefined)
    assert.isAtLeast(whys.length, 5)
    assert.isTrue(whys.every((why) => why.length > 0))
  })
})
