import { assert, describe, it } from "@effect/vitest"
import { ProcessIdentity } from "../../../src/domain/Identity.ts"
import { decideClaim } from "../../../src/domain/operations/claimDecision.ts"
import { node, uuid } from "./builders.ts"

const here = new ProcessIdentity({ daemon: uuid(1), node, bootId: uuid(2), pid: 10, startTicks: "1" })
const foreign = new ProcessIdentity({ ...here, daemon: uuid(3), pid: 11 })

describe("decideClaim", () => {
  it("SP-OPS-02 only a dead claimant's claim is taken", () => {
    assert.strictEqual(decideClaim(here, foreign, "dead"), "steal")
    assert.strictEqual(decideClaim(here, foreign, "alive"), "leave")
    assert.strictEqual(decideClaim(here, foreign, "elsewhere"), "leave")
  })

  it("a claim of this very process is its own, not a foreign one", () => {
    assert.strictEqual(decideClaim(here, new ProcessIdentity({ ...here }), "alive"), "own")
  })
})
