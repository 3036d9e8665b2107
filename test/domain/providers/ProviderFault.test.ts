import { assert, describe, it } from "@effect/vitest"
import * as Option from "effect/Option"
import { faultOf, providerFaultSchema, saysAbsent } from "../../../src/domain/providers/ProviderFault.ts"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"

const rpc = (data: unknown, message = "not found") => new ProviderRpcError({ code: -32000, message, data })
const fault = (fields: object) => rpc({ schema: providerFaultSchema, ...fields })

describe("providers/ProviderFault", () => {
  it("FC-07 FC-24 only a 404 that names exactly the resource speaks of its absence", () => {
    assert.isTrue(saysAbsent(fault({ status: 404, providerLeaseId: "a" }), "a"))
    for (const error of [
      fault({ status: 404, providerLeaseId: "b" }),
      fault({ status: 404 }),
      fault({ status: 403, providerLeaseId: "a" }),
      fault({ status: 503, providerLeaseId: "a" }),
      fault({ status: 200, providerLeaseId: "a" }),
      rpc({ schema: "another", status: 404, providerLeaseId: "a" }),
      rpc({ status: 404, providerLeaseId: "a" }),
      rpc(undefined, "404: no such resource a"),
      Object.assign(new Error("404"), {
        data: { schema: providerFaultSchema, status: 404, providerLeaseId: "a" }
      }),
      "404"
    ]) {
      assert.isFalse(saysAbsent(error, "a"))
    }
  })

  it("a fault outside the statuses of errors is none", () => {
    assert.isTrue(Option.isSome(faultOf(fault({ status: 599 }))))
    assert.isTrue(Option.isNone(faultOf(fault({ status: 399 }))))
    assert.isTrue(Option.isNone(faultOf(fault({ status: 404.5 }))))
  })
})
