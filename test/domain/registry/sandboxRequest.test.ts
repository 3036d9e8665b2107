import { assert, describe, it } from "@effect/vitest"
import * as Bounds from "../../../src/domain/Bounds.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import {
  findInvalidField,
  findLifeFault,
  requestText,
  type SandboxRequest
} from "../../../src/domain/registry/sandboxRequest.ts"
import { requestOf } from "./guestFixture.ts"

const pairs = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`K${index}`, ""]))
const euro = (bytes: number) => "€".repeat(Math.ceil(bytes / 3))

const wrong: ReadonlyArray<readonly [field: keyof SandboxRequest, value: unknown]> = [
  ...(["cpuMillis", "memoryBytes", "processesMax", "lifeSeconds"] as const).flatMap((field) =>
    [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, Number.MAX_SAFE_INTEGER, 2 ** 60, "7", null].map(
      (value) => [field, value] as const
    )
  ),
  ["cpuMillis", Bounds.sandboxCpuMillisMax + 1],
  ["memoryBytes", Bounds.sandboxMemoryBytesMax + 1],
  ["processesMax", Bounds.runtimeProcessesMax + 1],
  ["lifeSeconds", Bounds.sandboxLifeSecondsMin - 1],
  ["lifeSeconds", Bounds.sandboxLifeSecondsMax + 1],
  ...[
    "",
    "Host",
    "relative/path",
    "/",
    "//images",
    "/images/",
    "/images/../etc",
    "/images/./a",
    "/a\0b",
    "/\ud800"
  ].map((image) => ["image", image] as const),
  ["image", `/${euro(Bounds.imageBytesMax)}`],
  ["disk", "disks/1"],
  ["disk", "/disks/../1"],
  ["disk", `/${euro(Bounds.diskPathBytesMax)}`],
  ["argv", Array.from({ length: Bounds.argvItemsMax + 1 }, () => "a")],
  ["argv", ["a", euro(Bounds.argvItemBytesMax + 1)]],
  ["argv", ["a\0b"]],
  ["argv", [""]],
  ...(["environment", "metadata"] as const).flatMap((field) => [
    [field, pairs(Bounds.environmentPairsMax + 1)] as const,
    [field, { "": "a" }] as const,
    [field, { "a=b": "a" }] as const,
    [field, { "a\0": "a" }] as const,
    [field, { a: "\0" }] as const,
    [field, { a: "\udc00" }] as const,
    [field, { [euro(Bounds.environmentKeyBytesMax + 1)]: "" }] as const,
    [field, { a: euro(Bounds.environmentValueBytesMax + 1) }] as const,
    [field, JSON.parse('{"__proto__":"a"}')] as const
  ])
]

const right: ReadonlyArray<Partial<SandboxRequest>> = [
  {},
  { image: "/images/agents" },
  { image: `/${"i".repeat(Bounds.imageBytesMax - 1)}` },
  { argv: Array.from({ length: Bounds.argvItemsMax }, () => "").with(0, "/bin/true") },
  { argv: ["/bin/echo", "a".repeat(Bounds.argvItemBytesMax)] },
  { environment: pairs(Bounds.environmentPairsMax) },
  {
    environment: { ["k".repeat(Bounds.environmentKeyBytesMax)]: "v".repeat(Bounds.environmentValueBytesMax) }
  },
  { cpuMillis: 1, memoryBytes: 1, processesMax: 1, lifeSeconds: Bounds.sandboxLifeSecondsMin },
  { cpuMillis: Bounds.sandboxCpuMillisMax, memoryBytes: Bounds.sandboxMemoryBytesMax },
  { lifeSeconds: Bounds.sandboxLifeSecondsMax, processesMax: Bounds.runtimeProcessesMax },
  { disk: "/var/lib/holdfast/state/disks/1" }
]

describe("registry/sandboxRequest", () => {
  it.each(wrong.map(([field, value], index) => ({ index, field, value })))(
    "case $index: an absurd $field is refused by its name",
    ({ field, value }) => {
      const refusal = findInvalidField(requestOf(1, { [field]: value } as Partial<SandboxRequest>))
      assert.strictEqual(refusal?.field, field)
      assert.strictEqual(refusal?.code, "invalid_request")
    }
  )

  it.each(right.map((fields, index) => ({ index, fields })))(
    "case $index: what lies on the bounds is taken",
    ({ fields }) => {
      assert.isNull(findInvalidField(requestOf(1, fields)))
    }
  )

  it("a life one second below the least or above what the node allows is refused, and at it taken", () => {
    for (const life of [Bounds.sandboxLifeSecondsMin, 1_000]) assert.isNull(findLifeFault(life, 1_000))
    for (const life of [Bounds.sandboxLifeSecondsMin - 1, 1_001, 60.5])
      assert.deepInclude(findLifeFault(life, 1_000), { code: "invalid_request", field: "lifeSeconds" })
  })

  it("the text of a request tells every field apart, but no value of the environment and no order of names", () => {
    const text = (fields: Partial<SandboxRequest> = {}) => requestText(requestOf(1, fields))
    const others: ReadonlyArray<Partial<SandboxRequest>> = [
      { generation: Generation.make(2) },
      { image: "/i" },
      { argv: ["a"] },
      { environment: { A: "1" } },
      { metadata: { a: "b" } },
      { metadata: { a: "c" } },
      { cpuMillis: 101 },
      { memoryBytes: 1_025 },
      { processesMax: 65 },
      { disk: "/d" },
      { lifeSeconds: 601 }
    ]
    const texts = [text(), ...others.map(text)]
    assert.strictEqual(new Set(texts).size, texts.length)
    assert.strictEqual(text(), text({ environment: { A: "other", TOKEN: "another" } }))
    assert.strictEqual(text({ metadata: { a: "1", b: "2" } }), text({ metadata: { b: "2", a: "1" } }))
    assert.notInclude(text(), "s3cret")
  })

  it("a refusal does not repeat a value", () => {
    const refusal = findInvalidField(requestOf(1, { environment: { TOKEN: "s3cret\0" } }))
    assert.notInclude(`${refusal?.message} ${JSON.stringify(refusal)}`, "s3cret")
  })
})
