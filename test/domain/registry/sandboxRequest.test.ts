import { assert, describe, it } from "@effect/vitest"
import * as Bounds from "../../../src/domain/Bounds.ts"
import { findInvalidField, type SandboxRequest } from "../../../src/domain/registry/sandboxRequest.ts"
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

  it("a refusal does not repeat a value", () => {
    const refusal = findInvalidField(requestOf(1, { environment: { TOKEN: "s3cret\0" } }))
    assert.notInclude(`${refusal?.message} ${JSON.stringify(refusal)}`, "s3cret")
  })
})
