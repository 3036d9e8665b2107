import { assert, describe, it } from "@effect/vitest"
import * as Option from "effect/Option"
import { faultOf, saysAbsent } from "../../../src/domain/providers/ProviderFault.ts"
import { ProviderCallFailed, ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"

const schema = "holdfast/provider-fault/v1"
const errorWith = (data: unknown) => new ProviderRpcError({ code: -32000, message: "404", data })

describe("providers/ProviderFault", () => {
  it("FC-07 only a 404 that names exactly this resource speaks of its absence", () => {
    assert.isTrue(saysAbsent(errorWith({ schema, status: 404, providerLeaseId: "a" }), "a"))
    for (const data of [
      { schema, status: 404, providerLeaseId: "b" },
      { schema, status: 404 },
      { schema, status: 403, providerLeaseId: "a" },
      { schema: "another", status: 404, providerLeaseId: "a" },
      { status: 404, providerLeaseId: "a" },
      "404 a",
      undefined
    ])
      assert.isFalse(saysAbsent(errorWith(data), "a"), JSON.stringify(data))
  })

  it("FC-24 a fault is one of HTTP's errors, and of an error of the worker's own", () => {
    assert.deepStrictEqual(
      faultOf(errorWith({ schema, status: 503 })),
      Option.some({ schema, status: 503 } as const)
    )
    for (const status of [200, 399, 600, 404.5, "404"])
      assert.isTrue(Option.isNone(faultOf(errorWith({ schema, status }))), String(status))
    const plain = Object.assign(new Error("404"), { data: { schema, status: 404 } })
    assert.isTrue(Option.isNone(faultOf(plain)))
    assert.isTrue(Option.isNone(faultOf(new ProviderCallFailed({ method: "m", why: "timeout" }))))
  })
})
