/** The checks' own parts; what they find is shown in conformance.test.ts, on real plugins. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { checks } from "../../../src/domain/providers/conformanceChecks.ts"
import { isReceipt, madeOf } from "../../../src/domain/providers/conformanceKit.ts"

describe("providers/conformanceChecks", () => {
  it("each check has a name of its own, by which its report is read", () => {
    assert.strictEqual(new Set(checks.map(({ name }) => name)).size, checks.length)
  })

  it("a receipt proves an end only if it names exactly the resource and the state", () => {
    assert.isTrue(isReceipt({ providerLeaseId: "a", state: "stopped" }, "a", "stopped"))
    for (const value of [
      { providerLeaseId: "b", state: "stopped" },
      { providerLeaseId: "a", state: "destroyed" },
      { state: "stopped" },
      null,
      "stopped"
    ]) {
      assert.isFalse(isReceipt(value, "a", "stopped"))
    }
  })

  it("an answer to a creation names its resource by a text that is not empty", () => {
    assert.deepStrictEqual(Effect.runSync(madeOf({ providerLeaseId: "a" }, "n")), { id: "a", intent: "n" })
    for (const answer of [{ providerLeaseId: "" }, { providerLeaseId: 7 }, {}, null]) {
      assert.isString(Effect.runSync(Effect.flip(madeOf(answer, "n"))))
    }
  })
})
