import { assert, describe, it } from "@effect/vitest"
import { logLineCharactersMax } from "../../../src/domain/Bounds.ts"
import { storedLine } from "../../../src/domain/history/RuntimeLog.ts"

describe("storedLine", () => {
  it("a line keeps its text, loses its control characters, and says when it was cut", () => {
    assert.strictEqual(storedLine("a\0b\nc\u001b[31m"), "a b c [31m")
    const whole = "😀".repeat(logLineCharactersMax)
    assert.strictEqual(storedLine(whole), whole)
    const cut = storedLine(`${whole}x`)
    assert.strictEqual(Array.from(cut).length, logLineCharactersMax)
    assert.isTrue(cut.endsWith("…"))
  })
})
