/** Every bound of a request to the node, exactly at it and one over it, over a real socket with a plain HTTP client. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Bounds from "../../../../src/domain/Bounds.ts"
import { ask, creation, lifeSecondsMax, serveFresh } from "./nodeServer.ts"

/** Of exactly so many bytes, in letters of one, two and three bytes. */
const text = (bytes: number): string =>
  `${"€".repeat(Math.floor((bytes - 3) / 3))}${"a".repeat(3 + (bytes % 3))}`

const pairs = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`K${index}`, ""]))

interface Case {
  readonly field: string
  readonly at: object
  readonly over: object
}

const resources = (fields: object) => ({ resources: { cpu: "0.1", memory: "128Mi", ...fields } })

const ofPairs = (field: "environment" | "metadata"): ReadonlyArray<Case> => [
  {
    field,
    at: { [field]: pairs(Bounds.environmentPairsMax) },
    over: { [field]: pairs(Bounds.environmentPairsMax + 1) }
  },
  {
    field,
    at: { [field]: { [text(Bounds.environmentKeyBytesMax)]: "" } },
    over: { [field]: { [text(Bounds.environmentKeyBytesMax + 1)]: "" } }
  },
  {
    field,
    at: { [field]: { A: text(Bounds.environmentValueBytesMax) } },
    over: { [field]: { A: text(Bounds.environmentValueBytesMax + 1) } }
  }
]

const cases: ReadonlyArray<Case> = [
  { field: "requestId", at: { requestId: "k".repeat(160) }, over: { requestId: "k".repeat(161) } },
  {
    field: "image",
    at: { image: `/${text(Bounds.imageBytesMax - 1)}` },
    over: { image: `/${text(Bounds.imageBytesMax)}` }
  },
  {
    field: "argv",
    at: { argv: Array.from({ length: Bounds.argvItemsMax }, () => "a") },
    over: { argv: Array.from({ length: Bounds.argvItemsMax + 1 }, () => "a") }
  },
  {
    field: "argv",
    at: { argv: ["a", text(Bounds.argvItemBytesMax)] },
    over: { argv: ["a", text(Bounds.argvItemBytesMax + 1)] }
  },
  ...ofPairs("environment"),
  ...ofPairs("metadata"),
  { field: "resources.cpu", at: resources({ cpu: "1m" }), over: resources({ cpu: "0" }) },
  { field: "resources.cpu", at: resources({ cpu: "1024" }), over: resources({ cpu: "1024001m" }) },
  { field: "resources.memory", at: resources({ memory: "1" }), over: resources({ memory: "0Gi" }) },
  {
    field: "resources.memory",
    at: resources({ memory: "16Ti" }),
    over: resources({ memory: String(Bounds.sandboxMemoryBytesMax + 1) })
  },
  {
    field: "resources.memory",
    at: resources({ memory: "1".padStart(Bounds.quantityCharactersMax, "0") }),
    over: resources({ memory: "1".padStart(Bounds.quantityCharactersMax + 1, "0") })
  },
  { field: "processesMax", at: { processesMax: 1 }, over: { processesMax: 0 } },
  {
    field: "processesMax",
    at: { processesMax: Bounds.runtimeProcessesMax },
    over: { processesMax: Bounds.runtimeProcessesMax + 1 }
  },
  {
    field: "lifeSeconds",
    at: { lifeSeconds: Bounds.sandboxLifeSecondsMin },
    over: { lifeSeconds: Bounds.sandboxLifeSecondsMin - 1 }
  },
  { field: "lifeSeconds", at: { lifeSeconds: lifeSecondsMax }, over: { lifeSeconds: lifeSecondsMax + 1 } }
]

const capacity = { sandboxes: 100, cpuMillis: 10_000_000, memoryBytes: 1024 ** 5 }

describe("node/bounds", () => {
  it.live.each(cases.map((each, index) => ({ ...each, index })))(
    "RG figures, case $index: $field is taken at its bound, and one over it refused by name",
    ({ at, field, over }) =>
      Effect.gen(function* () {
        const { node, socketPath } = yield* serveFresh({ capacity })
        const refused = yield* ask(socketPath, "POST", "/node/sandboxes", { ...creation("over"), ...over })
        assert.deepStrictEqual([refused.status, refused.body.code], [400, "INVALID_REQUEST"], refused.text)
        const { details, message } = refused.body
        assert.include([details?.["field"], ...((details?.["fields"] as ReadonlyArray<string>) ?? [])], field)
        assert.include(message, field)
        assert.isBelow(refused.text.length, 1_000, "the refusal repeats nothing of the request")
        assert.strictEqual((yield* node.registry.charges).sandboxes, 0)
        const taken = yield* ask(socketPath, "POST", "/node/sandboxes", { ...creation("at"), ...at })
        assert.strictEqual(taken.status, 200, taken.text)
      })
  )

  it.live("the name of an unknown field is told, but not at any length", () =>
    Effect.gen(function* () {
      const { socketPath } = yield* serveFresh()
      const body = { ...creation("k"), ["x".repeat(100_000)]: 1 }
      const refused = yield* ask(socketPath, "POST", "/node/sandboxes", body)
      assert.deepStrictEqual([refused.status, refused.body.code], [400, "INVALID_REQUEST"])
      assert.include(refused.body.message, "xxx")
      assert.isBelow(refused.text.length, 1_500)
    })
  )

  it.live("RG figures a body of 1 MiB is read, and one byte more is refused", () =>
    Effect.gen(function* () {
      const { socketPath } = yield* serveFresh()
      const body = JSON.stringify(creation("k"))
      const padded = (bytes: number) => body.padEnd(bytes, " ")
      const over = yield* ask(socketPath, "POST", "/node/sandboxes", padded(Bounds.requestBodyBytesMax + 1))
      assert.deepStrictEqual([over.status, over.body.code], [413, "INVALID_REQUEST"])
      const at = yield* ask(socketPath, "POST", "/node/sandboxes", padded(Bounds.requestBodyBytesMax))
      assert.strictEqual(at.status, 200, at.text)
    })
  )

  it.live(
    "RG figures resources are exactly cpu and memory, and an unknown field anywhere is refused by name",
    () =>
      Effect.gen(function* () {
        const { socketPath } = yield* serveFresh()
        for (const [fields, field] of [
          [{ resources: { cpu: "1" } }, "resources.memory"],
          [{ resources: { memory: "1Gi" } }, "resources.cpu"],
          [resources({ gpu: "1" }), "resources.gpu"],
          [resources({ cpu: 1 }), "resources.cpu"],
          [{ id: "sb-1" }, "id"],
          [{ disk: "/" }, "disk"],
          [{ requestId: "" }, "requestId"],
          [{ requestId: "a b" }, "requestId"],
          [{ environment: { A: 5 } }, "environment.A"],
          [{ environment: { "A=B": "" } }, "environment"],
          [{ argv: ["a\0"] }, "argv"],
          [{ image: "relative" }, "image"]
        ] as const) {
          const refused = yield* ask(socketPath, "POST", "/node/sandboxes", { ...creation("k"), ...fields })
          assert.deepStrictEqual([refused.status, refused.body.code], [400, "INVALID_REQUEST"], field)
          assert.include(refused.body.message, field)
        }
      })
  )

  it.live(
    "an id that is none, a grace and a life out of bounds, and a broken body are refused by their field",
    () =>
      Effect.gen(function* () {
        const { client, socketPath } = yield* serveFresh()
        const { sandbox } = yield* client.sandboxes.create({ payload: creation("k") })
        const at = `/node/sandboxes/${sandbox}`
        const over = Bounds.sandboxStopGraceMillisMax + 1
        for (const [method, path, body, field] of [
          ["GET", `/node/sandboxes/${sandbox.toUpperCase()}`, undefined, "sandbox"],
          ["DELETE", "/node/sandboxes/sb-1", undefined, "sandbox"],
          ["GET", "/node/sandboxes?after=sb-1", undefined, "after"],
          ["POST", `${at}/stop`, { graceMillis: over }, "graceMillis"],
          ["POST", `${at}/stop`, { graceMillis: -1 }, "graceMillis"],
          ["POST", `${at}/renewal`, { lifeSeconds: lifeSecondsMax + 1 }, "lifeSeconds"],
          ["POST", `${at}/executions`, { argv: [], environment: {} }, "argv"],
          ["POST", "/node/sandboxes", "{", "the body"]
        ] as const) {
          const refused = yield* ask(socketPath, method, path, body)
          assert.deepStrictEqual([refused.status, refused.body.code], [400, "INVALID_REQUEST"], path)
          assert.include(refused.body.message, field)
        }
        const most = { graceMillis: Bounds.sandboxStopGraceMillisMax }
        assert.strictEqual((yield* ask(socketPath, "POST", `${at}/stop`, most)).status, 200)
      })
  )
})
