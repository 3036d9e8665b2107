import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { SandboxId } from "../../../src/domain/Identity.ts"
import { sandboxOfDigest } from "../../../src/domain/registry/sandboxOfDigest.ts"

describe("registry/sandboxOfDigest", () => {
  it("a digest is always the same sandbox, with an id that is one", () => {
    const digest = "0123456789abcdef".repeat(4)
    const sandbox = sandboxOfDigest(digest)
    assert.strictEqual(sandbox, "sb-01234567-89ab-8def-8123-456789abcdef")
    assert.isTrue(Schema.is(SandboxId)(sandbox))
    assert.notStrictEqual(sandboxOfDigest(`f${digest.slice(1)}`), sandbox)
  })

  it("the variant is that of RFC 9562, whatever the digest has there", () => {
    for (const digit of "0123456789abcdef") {
      const sandbox = sandboxOfDigest(`${"0".repeat(16)}${digit}${"0".repeat(47)}`)
      assert.match(sandbox, /^sb-0{8}-0{4}-8000-[89ab]000-0{12}$/)
    }
  })
})
