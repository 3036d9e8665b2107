import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { configDepthMax, secretBytesMin } from "../../../src/domain/Bounds.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { scrubMetadata } from "../../../src/domain/secrets/scrubbing.ts"

const id = "00000000-0000-4000-8000-000000000001"
const value = "canary/value+with ümläut&more"
const schema = { properties: { apiKey: { type: "string", format: "secret-ref" }, image: { type: "string" } } }
const config = {
  image: "base",
  apiKey: id,
  registry: { token: { type: "secret_ref", secretId: id, version: "latest" } }
}

const scrubbed = (metadata: JsonObject, values: ReadonlyArray<string> = [value]) =>
  scrubMetadata(metadata, { config, schema, values: values.map((each) => Redacted.make(each)) })

const bytes = Buffer.from(value)

const spellings: ReadonlyArray<readonly [what: string, text: string]> = [
  ["as it is", value],
  ["within a text", `Authorization: Bearer ${value};`],
  ["twice in a text", `${value} ${value}`],
  ["in a URL", `https://host/?key=${encodeURIComponent(value)}&more`],
  ["in JSON within a text", JSON.stringify({ inner: value })],
  ["in hex", `0x${bytes.toString("hex")}`],
  ["in base64", bytes.toString("base64")],
  ["in base64 behind a name", `Basic ${Buffer.from(`user:${value}`).toString("base64")}`],
  ["in base64 behind two characters", Buffer.from(`ab${value}cd`).toString("base64")],
  ["in base64 of URLs", Buffer.from(`a${value}`).toString("base64url")]
]

describe("secrets/scrubbing", () => {
  it("RL-SECRET-02 the secret's place has its reference again, and the other fields are kept", () => {
    const returned = {
      apiKey: value,
      sandboxId: "sandbox-1",
      ports: [1, 2],
      ready: true,
      none: null,
      registry: { token: value, host: "registry.example" }
    }
    assert.deepStrictEqual(scrubbed(returned), {
      ...returned,
      apiKey: id,
      registry: { token: config.registry.token, host: "registry.example" }
    })
  })

  it("RL-SECRET-02 whatever stands at a secret's place is not kept, were it another value", () => {
    assert.deepStrictEqual(scrubbed({ apiKey: "canary-of-another-version" }), { apiKey: id })
    const without = scrubMetadata({ apiKey: "canary-made-up" }, { config: {}, schema, values: [] })
    assert.deepStrictEqual(without, {})
  })

  it.each(spellings)("FC-21 a value echoed %s is taken out, anywhere", (_, text) => {
    for (const returned of [
      { note: text },
      { deep: { list: [{ note: text }] } },
      { [text]: 1 },
      { deep: { [text]: text } }
    ]) {
      const left = JSON.stringify(scrubbed(returned))
      assert.include(left, "[redacted]")
      assert.notInclude(left, value)
      assert.notInclude(left, "ümläut")
      assert.notInclude(left, JSON.stringify(text).slice(1, -1))
      assert.notInclude(left, bytes.toString("hex"))
      // The middle of the value, as base64 of any alignment would spell it.
      for (const cut of [0, 1, 2]) {
        const middle = bytes.subarray(6 + cut, 18 + cut).toString("base64")
        assert.notInclude(left.replaceAll("-", "+").replaceAll("_", "/"), middle)
      }
    }
  })

  it("FC-21 a longer value is taken out whole, though a shorter one is its beginning", () => {
    const [short, long] = ["canary-12345678", "canary-12345678-tail"]
    assert.deepStrictEqual(scrubbed({ note: `${long}|${short}` }, [short, long]), {
      note: "[redacted]|[redacted]"
    })
  })

  it("FC-21 base64 is known in both of its alphabets", () => {
    const special = "canary>>>???~~~>>>???"
    const encoded = Buffer.from(special)
    for (const alphabet of ["base64", "base64url"] as const) {
      const left = JSON.stringify(scrubbed({ note: encoded.toString(alphabet) }, [special]))
      assert.include(left, "[redacted]", alphabet)
      assert.notInclude(left, encoded.subarray(6, 15).toString(alphabet), alphabet)
    }
  })

  it("FC-21 the lines of a key are taken out without the line break at their end", () => {
    const key = "-----BEGIN KEY-----\ncanary\n-----END KEY-----\n"
    assert.deepStrictEqual(scrubbed({ key: key.trim() }, [key]), { key: "[redacted]" })
  })

  it("without secrets nothing is changed", () => {
    const returned = { apiKeyName: "x", list: [{ a: [] }], text: "" }
    assert.deepStrictEqual(scrubMetadata(returned, { config: {}, values: [] }), returned)
  })

  it("what lies too deep is left out, so that no answer can exhaust the stack", () => {
    let [lists, objects]: [unknown, unknown] = ["deep", "deep"]
    for (let level = 0; level < 50_000; level += 1) [lists, objects] = [[lists], { o: objects }]
    const left = JSON.stringify(scrubbed({ note: "kept", lists, objects }))
    assert.include(left, '"note":"kept"')
    assert.notInclude(left, "deep")
    assert.isBelow(left.length, configDepthMax * 10)
  })

  it.prop(
    "FC-21 no text around a value brings it through",
    {
      secret: Schema.String.check(Schema.isMinLength(secretBytesMin), Schema.isMaxLength(40)),
      before: Schema.String.check(Schema.isMaxLength(12)),
      behind: Schema.String.check(Schema.isMaxLength(12))
    },
    ({ before, behind, secret }) => {
      const left = scrubbed({ [before + secret]: { list: [before + secret + behind] } }, [secret])
      const spelt = JSON.stringify(secret).slice(1, -1)
      const pieces = JSON.stringify(left).split("[redacted]")
      assert.isAbove(pieces.length, 1)
      assert.isFalse(pieces.some((piece) => piece.includes(spelt)))
    }
  )
})
