/** The lease's model: labels that carry nothing secret, markers that only move on, evidence about the right guest. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { executionLabelCharactersMax, executionLeaseSeconds } from "../../../src/domain/Bounds.ts"
import {
  CancelMarker,
  furtherMarker,
  isExpired,
  labelOfCommand,
  ObservedLease
} from "../../../src/domain/leases/Lease.ts"

const observed = (heartbeatAgeMillis: number) =>
  Schema.decodeUnknownSync(ObservedLease)({
    id: "00000000-0000-4000-8000-000000000000",
    project: 1,
    generation: 1,
    sandbox: "sb-00000000-0000-4000-8000-000000000000",
    process: "p",
    label: "sh",
    cancel: "none",
    admittedAtMillis: 0,
    heartbeatAgeMillis
  })

describe("Lease", () => {
  it("the label is the first word only, and a word that could carry a secret is not shown", () => {
    assert.strictEqual(labelOfCommand(["sh", "-c", "curl -H token"]), "sh")
    assert.strictEqual(labelOfCommand(["/usr/bin/node", "main.js"]), "/usr/bin/node")
    assert.strictEqual(labelOfCommand(["TOKEN=canary"]), "command")
    assert.strictEqual(labelOfCommand(["run canary"]), "command")
    assert.strictEqual(labelOfCommand(["line\nbreak"]), "command")
    assert.strictEqual(labelOfCommand([""]), "command")
    assert.lengthOf(labelOfCommand(["x".repeat(5_000)]), executionLabelCharactersMax)
  })

  it.prop(
    "of two markers the further one is kept, in either order",
    { one: CancelMarker, other: CancelMarker },
    ({ one, other }) => {
      const further = furtherMarker(one, other)
      assert.strictEqual(further, furtherMarker(other, one))
      assert.strictEqual(furtherMarker(further, one), further)
      if (one === "verified") assert.strictEqual(further, "verified")
      if (one === "requested") assert.notStrictEqual(further, "none")
    }
  )

  it("a lease is expired only after its whole term of silence", () => {
    assert.isFalse(isExpired(observed(executionLeaseSeconds * 1_000), executionLeaseSeconds))
    assert.isTrue(isExpired(observed(executionLeaseSeconds * 1_000 + 1), executionLeaseSeconds))
  })
})
