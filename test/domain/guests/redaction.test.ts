import { assert, describe, it } from "vitest"
import { makeRedactor } from "../../../src/domain/guests/redaction.ts"
import { makeSeededRandom } from "../../support/seededRandom.ts"

const encode = (text: string) => new TextEncoder().encode(text)
const decode = (bytes: Uint8Array) => new TextDecoder("utf-8", { fatal: false }).decode(bytes)

const passed = (secrets: ReadonlyArray<string>, pieces: ReadonlyArray<Uint8Array>): string => {
  const redactor = makeRedactor(secrets)
  const parts = [...pieces.map((piece) => redactor.push(piece)), redactor.end()]
  return decode(Buffer.concat(parts))
}

const token = "s3cret-tökən-1"

describe("guests/redaction", () => {
  it("SP-TX-11 a secret is taken out wherever the stream is cut", () => {
    const whole = encode(`before ${token} after`)
    for (let first = 0; first <= whole.length; first += 1) {
      for (let second = first; second <= whole.length; second += 1) {
        const pieces = [whole.subarray(0, first), whole.subarray(first, second), whole.subarray(second)]
        assert.strictEqual(passed([token], pieces), "before [redacted] after", `${first} ${second}`)
      }
    }
    const bytewise = Array.from(whole, (byte) => new Uint8Array([byte]))
    assert.strictEqual(passed([token], bytewise), "before [redacted] after")
  })

  it("what only begins like a secret passes whole, also at the end", () => {
    assert.strictEqual(passed(["aaaaaaab"], [encode("aaaaaa"), encode("aaaaaac")]), "aaaaaaaaaaaac")
    assert.strictEqual(passed(["aaaaaaab"], [encode("x aaaaaaa")]), "x aaaaaaa")
    assert.strictEqual(passed(["aaaaaaab"], [encode("aaaaaaaaab")]), "aa[redacted]")
  })

  it("of secrets that begin alike the longer one is taken, and the shorter where it stands alone", () => {
    const secrets = ["token-one", "token-one-two"]
    assert.strictEqual(passed(secrets, [encode("token-one-two token-one.")]), "[redacted] [redacted].")
    assert.strictEqual(passed(secrets, [encode("token-o"), encode("ne-tw")]), "[redacted]-tw")
    assert.strictEqual(passed(secrets, [encode("token-one")]), "[redacted]")
  })

  it("bytes that are no text pass as they are, and without secrets everything does", () => {
    const bytes = new Uint8Array(256).map((_, index) => index)
    assert.deepStrictEqual(makeRedactor([]).push(bytes), bytes)
    const redactor = makeRedactor([token, ""])
    assert.deepStrictEqual(Buffer.concat([redactor.push(bytes), redactor.end()]), Buffer.from(bytes))
  })

  it("SP-TX-11 random streams in random pieces are as the whole with every secret replaced", () => {
    const seed = Number(process.env["HOLDFAST_REDACTION_SEED"] ?? 20_261_130)
    const random = makeSeededRandom(seed)
    const draw = (length: number) => Array.from({ length }, () => random.pick(["a", "b"])).join("")
    for (let round = 0; round < 3_000; round += 1) {
      const secret = draw(1 + random.below(6))
      const text = draw(random.below(40))
      const whole = encode(text)
      const pieces: Array<Uint8Array> = []
      for (let at = 0; at < whole.length;) {
        const length = 1 + random.below(5)
        pieces.push(whole.subarray(at, at + length))
        at += length
      }
      assert.strictEqual(
        passed([secret], pieces),
        text.replaceAll(secret, "[redacted]"),
        `seed ${seed}, round ${round}: ${secret} in ${text}`
      )
    }
  })
})
