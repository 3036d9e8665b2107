import { assert, describe, it } from "@effect/vitest"
import { isSandboxId } from "../../../src/domain/Identity.ts"
import { sandboxOfDigest } from "../../../src/domain/registry/sandboxOfDigest.ts"

describe("registry/sandboxOfDigest", () => {
  it("a digest always names the same sandbox, by a uuid of version 8 and the variant of RFC 9562", () => {
    const digest = "0123456789abcdef".repeat(4)
    assert.strictEqual(sandboxOfDigest(digest), "sb-01234567-89ab-8def-8123-456789abcdef")
    assert.isTrue(isSandboxId(sandboxOfDigest("f".repeat(64))))
    assert.strictEqual(sandboxOfDigest("f".repeat(64)), "sb-ffffffff-ffff-8fff-bfff-ffffffffffff")
  })

  it("every digit of the first 32 but the two of the form tells digests apart", () => {
    const names = new Set(
      Array.from({ length: 32 }, (_, at) => sandboxOfDigest("0".repeat(at) + "1" + "0".repeat(63 - at)))
    )
    // The digit of the version is the same in all; that of the variant keeps its two lower bits.
    assert.strictEqual(names.size, 32)
  })
})
