import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { destroy, isReceipt, listed, madeOf } from "../../../src/domain/providers/conformanceKit.ts"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { kitAnswering } from "./conformanceKits.ts"

const absent = (providerLeaseId: string) =>
  new ProviderRpcError({
    code: -32000,
    message: "gone",
    data: { schema: "holdfast/provider-fault/v1", status: 404, providerLeaseId }
  })

describe("providers/conformanceKit", () => {
  it("a receipt is one of that very resource and state", () => {
    assert.isTrue(isReceipt({ providerLeaseId: "a", state: "stopped" }, "a", "stopped"))
    for (const other of [
      { providerLeaseId: "b", state: "stopped" },
      { providerLeaseId: "a" },
      null,
      "stopped"
    ])
      assert.isFalse(isReceipt(other, "a", "stopped"))
  })

  it.effect.each([
    ["nothing", undefined, true],
    ["an empty object", {}, true],
    ["its receipt", { providerLeaseId: "a", state: "destroyed" }, true],
    ["another's receipt", { providerLeaseId: "b", state: "destroyed" }, false],
    ["another state", { providerLeaseId: "a", state: "stopped" }, false],
    ["a word", "ok", false]
  ] as const)("a destruction that is answered with %s", ([, answer, passes]) =>
    Effect.gen(function* () {
      const { kit } = kitAnswering(() => Effect.succeed(answer), [])
      assert.strictEqual((yield* Effect.exit(destroy(kit, "a")))._tag, passes ? "Success" : "Failure")
    })
  )

  it.effect("FC-07 a destruction that meets nothing is one where the 404 names this resource", () =>
    Effect.gen(function* () {
      assert.isUndefined(yield* destroy(kitAnswering(() => Effect.fail(absent("a")), []).kit, "a"))
      assert.include(
        yield* Effect.flip(destroy(kitAnswering(() => Effect.fail(absent("b")), []).kit, "a")),
        "-32000"
      )
    })
  )

  it.effect("a creation has an id, and a listing is one", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* madeOf({ providerLeaseId: "a" }, "n"), { id: "a", intent: "n" })
      for (const answer of [null, "a", {}, { providerLeaseId: "" }, { providerLeaseId: 3 }])
        assert.include(yield* Effect.flip(madeOf(answer, "n")), "environmentAcquireLease")
      const { calls, kit } = kitAnswering(
        () => Effect.succeed({ leases: [{ providerLeaseId: "a" }, "b"] }),
        []
      )
      assert.deepStrictEqual(yield* listed(kit, "here"), ["a", undefined])
      assert.deepInclude(calls[0]![1], { installation: "here", config: { image: "x" } })
      assert.include(
        yield* Effect.flip(listed(kitAnswering(() => Effect.succeed([]), []).kit, "here")),
        "leases"
      )
    })
  )
})
