import { assert, describe, it } from "@effect/vitest"
import { configDepthMax, configSecretsMax } from "../../../src/domain/Bounds.ts"
import { SecretId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { pathText, secretPlacesOf, withTexts } from "../../../src/domain/secrets/secretPlaces.ts"

const id = SecretId.make("00000000-0000-4000-8000-00000000000a")
const ref = (version: number | "latest" = "latest") => ({ type: "secret_ref", secretId: id, version })
const secret = { type: "string", format: "secret-ref" }
const schemaOf = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ properties, ...more })

/** Paths of the places and of what is wrong, as bindings name them. */
const found = (config: JsonObject, schema?: JsonObject) => {
  const { invalid, places } = secretPlacesOf(config, schema)
  return {
    places: places.map(({ path, ref: { version } }) => `${pathText(path)}@${version}`),
    invalid: invalid.map(pathText)
  }
}

type Row = readonly [
  what: string,
  config: JsonObject,
  schema: JsonObject | undefined,
  places: ReadonlyArray<string>
]

const marked = schemaOf({ apiKey: secret })

const named: ReadonlyArray<Row> = [
  ["a secret id at a marked property", { apiKey: id, image: id }, marked, ["apiKey@latest"]],
  ["a secret id without a schema is a text like another", { apiKey: id }, undefined, []],
  [
    "a reference object, marked or not",
    { apiKey: ref(), other: ref(3) },
    marked,
    ["apiKey@latest", "other@3"]
  ],
  [
    "the reference of an SSH key",
    { privateKey: null, privateKeySecretRef: ref() },
    undefined,
    ["privateKeySecretRef@latest"]
  ],
  [
    "nested objects and items of lists",
    { registry: { login: { token: id } }, mirrors: [{ token: id }, { token: ref(2) }] },
    schemaOf({
      registry: schemaOf({ login: schemaOf({ token: secret }) }),
      mirrors: { items: schemaOf({ token: secret }) }
    }),
    ["registry.login.token@latest", "mirrors.0.token@latest", "mirrors.1.token@2"]
  ],
  [
    "items by their place",
    { pair: ["x", id] },
    schemaOf({ pair: { prefixItems: [{}, secret] } }),
    ["pair.1@latest"]
  ],
  [
    "properties that the schema does not name",
    { tokens: { any: id } },
    schemaOf({ tokens: { additionalProperties: secret } }),
    ["tokens.any@latest"]
  ],
  [
    "a schema that is referred to, and refers to itself",
    { token: id, inner: { token: id, inner: { token: id } } },
    {
      $ref: "#/$defs/node",
      $defs: {
        node: { properties: { token: { $ref: "#/$defs/a~1b" }, inner: { $ref: "#/$defs/node" } } },
        "a/b": secret
      }
    },
    ["token@latest", "inner.token@latest", "inner.inner.token@latest"]
  ],
  [
    "a schema that refers to itself before anything else",
    { token: id },
    { $ref: "#", allOf: [{ $ref: "#/allOf/0" }], properties: { token: secret } },
    ["token@latest"]
  ],
  [
    "each branch of a schema with branches",
    { one: id, two: id, three: id },
    schemaOf(
      { one: { anyOf: [{ type: "null" }, secret] } },
      {
        allOf: [schemaOf({ two: { oneOf: [secret] } })],
        if: {},
        else: schemaOf({ three: secret })
      }
    ),
    ["one@latest", "two@latest", "three@latest"]
  ],
  [
    "a marked property that is empty or absent",
    { a: null, b: "", c: undefined },
    schemaOf({ a: secret, b: secret, c: secret, d: secret }),
    []
  ]
]

const wrong: ReadonlyArray<readonly [what: string, config: JsonObject, invalid: ReadonlyArray<string>]> = [
  ["a value in the clear at a marked property", { apiKey: "canary-clear" }, ["apiKey"]],
  ["a number there", { apiKey: 7 }, ["apiKey"]],
  ["an id that is none", { apiKey: id.toUpperCase() }, ["apiKey"]],
  ["a reference without an id", { other: { type: "secret_ref", version: "latest" } }, ["other"]],
  ["a reference with a version that is none", { other: ref(0), another: ref(1.5) }, ["other", "another"]]
]

const nested = (levels: number): JsonObject => (levels === 0 ? { token: ref() } : { in: nested(levels - 1) })

describe("secrets/secretPlaces", () => {
  it.each(named)("RL-SECRET-01 %s", (_, config, schema, places) => {
    assert.deepStrictEqual(found(config, schema), { places: [...places], invalid: [] })
  })

  it.each(wrong)("RL-SECRET-03 %s is invalid and no place", (_, config, invalid) => {
    assert.deepStrictEqual(found(config, marked), { places: [], invalid: [...invalid] })
  })

  it("what is beyond the depth or the number of secrets is invalid", () => {
    assert.deepStrictEqual(found(nested(configDepthMax - 1)).places.length, 1)
    assert.deepStrictEqual(found(nested(configDepthMax)).invalid.length, 1)
    const many = Object.fromEntries(
      Array.from({ length: configSecretsMax + 1 }, (_, at) => [`s${at}`, ref()])
    )
    assert.deepStrictEqual(found(many).invalid, [`s${configSecretsMax}`])
  })

  it("RL-SECRET-03 values stand in the references' places, in lists too, and the given config keeps its references", () => {
    const config = { provider: "p", apiKey: ref(), list: [{ token: ref() }, 1] }
    const { places } = secretPlacesOf(config)
    const filled = withTexts(
      config,
      places.map(({ path }) => ({ path, text: `value of ${pathText(path)}` }))
    )
    assert.deepStrictEqual(filled, {
      provider: "p",
      apiKey: "value of apiKey",
      list: [{ token: "value of list.0.token" }, 1]
    })
    assert.deepStrictEqual(config, { provider: "p", apiKey: ref(), list: [{ token: ref() }, 1] })
  })

  it("a property called __proto__ is one like another", () => {
    const config = JSON.parse(`{ "__proto__": { "token": ${JSON.stringify(ref())} } }`) as JsonObject
    const { places } = secretPlacesOf(config)
    assert.deepStrictEqual(
      places.map(({ path }) => pathText(path)),
      ["__proto__.token"]
    )
    const filled = withTexts(config, [{ path: ["__proto__", "token"], text: "value" }])
    assert.strictEqual(JSON.stringify(filled), '{"__proto__":{"token":"value"}}')
    assert.strictEqual(Object.getPrototypeOf(filled), Object.prototype)
  })
})
