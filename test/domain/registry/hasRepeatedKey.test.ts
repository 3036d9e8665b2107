import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import { hasRepeatedKey } from "../../../src/domain/registry/hasRepeatedKey.ts"

describe("registry/hasRepeatedKey", () => {
  it.each([
    ['{"a":1,"a":2}', true],
    ['{"a":{"b":1},"c":[{"d":1,"d":1}]}', true],
    ['{"a" :1, "\\u0061"\n\t\r :2}', true],
    ['{"\\\\":1,"\\\\":2}', true],
    ['{"a\\"":1,"a\\"":2}', true],
    ['{"__proto__":1,"__proto__":2}', true],
    ['{"a":{"a":{"a":1}}}', false],
    ['[{"a":1},{"a":1}]', false],
    ['["a","a"]', false],
    ['{"a":"a","b":"a"}', false],
    ['{"a":"{\\"a\\":1","b":"\\\\\\""}', false],
    ['{"a":"b:","c":["d",":"]}', false],
    ['""', false],
    ["{}", false],
    ["1", false]
  ] as const)("%s: %s", (text, expected) => {
    assert.doesNotThrow(() => JSON.parse(text))
    assert.strictEqual(hasRepeatedKey(text), expected)
  })

  const value = Arbitrary.schema(Schema.Json)

  it.prop(
    "what a program has written has no key twice; with a key put in again it has, wherever and however indented",
    { one: value, other: value, key: Arbitrary.schema(Schema.String) },
    ({ key, one, other }) => {
      for (const indent of [0, 2]) {
        const written = JSON.stringify({ [key]: one, z: { nested: other } }, null, indent)
        assert.isFalse(hasRepeatedKey(written))
        const again = `{${JSON.stringify(key)}: ${JSON.stringify(other)}, ${written.slice(1)}`
        assert.isTrue(hasRepeatedKey(`[${again}]`))
      }
    },
    { arbitrary: { runs: 500 } }
  )
})
