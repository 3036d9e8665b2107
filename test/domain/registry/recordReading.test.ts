import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Equal from "effect/Equal"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { NodeId, RequestKey } from "../../../src/domain/Identity.ts"
import { RecordFile, SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { readRecordFile, recognise } from "../../../src/domain/registry/recordReading.ts"
import { recordOf, sandboxOf } from "./fixture.ts"

const owner = NodeId.make("00000000-0000-4000-8000-000000000000")
const name = `${sandboxOf(1)}.json`
const contentOf = (record: object) => JSON.parse(JSON.stringify({ version: 2, owner, record }))

const odd: ReadonlyArray<unknown> = [
  null,
  undefined,
  "",
  "sb-1",
  0,
  -1,
  1.5,
  2 ** 53,
  Number.NaN,
  true,
  [],
  ["a"],
  [1],
  {},
  { a: "b" },
  { a: 1 },
  "Running",
  "0".repeat(64),
  "g".repeat(64),
  { reason: "user", actor: "a", requestedAtMillis: 1 },
  { reason: "why", actor: "a", requestedAtMillis: 1 },
  { reason: "user", actor: "a", requestedAtMillis: 1, b: 1 },
  { key: "k", hash: "0".repeat(64), actor: "a", startedAtMillis: null },
  { key: "k", hash: "0".repeat(64), actor: "a", startedAtMillis: 5 },
  { key: "k k", hash: "0".repeat(64), actor: "a", startedAtMillis: null },
  { key: "k", hash: "0".repeat(63), actor: "a", startedAtMillis: null },
  { key: "k", hash: "0".repeat(64), actor: "a", startedAtMillis: "5" },
  { key: "k", hash: "0".repeat(64), actor: "a" },
  { key: "k", hash: "0".repeat(64), actor: "a", startedAtMillis: null, more: 1 },
  [{ status: "Running", atMillis: 1, wanted: "start" }],
  [{ status: "Walking", atMillis: 1, wanted: "start" }],
  [{ status: "Running", atMillis: 1.5, wanted: "start" }],
  [{ status: "Running", atMillis: 1 }],
  [{ status: "Running", atMillis: 1, wanted: "start", more: 1 }]
]
const optionalKeys = ["origin", "history"]
const keys = [...Object.keys(recordOf(1)), ...optionalKeys, "unknown", "version", "owner", "record", "extra"]

const decode = Schema.decodeUnknownResult(RecordFile)
const bySchema = (content: unknown) => decode(content, { onExcessProperty: "error" })

describe("registry/recordReading", () => {
  it.prop(
    "RG-LAY-05 what is recognised by hand is what the schema reads, whatever field is replaced or taken away",
    {
      changes: Arbitrary.array(
        Arbitrary.all([
          Arbitrary.schema(Schema.Literals(keys.map((_, index) => index))),
          Arbitrary.schema(Schema.Literals(odd.map((_, index) => index))),
          Arbitrary.schema(Schema.Boolean)
        ]),
        { maxLength: 2 }
      )
    },
    ({ changes }) => {
      const content = contentOf(recordOf(1))
      for (const [key, value, inRecord] of changes) {
        const target = inRecord ? content.record : content
        if (typeof target !== "object" || target === null) continue
        if (odd[value] === undefined) delete target[keys[key]!]
        else target[keys[key]!] = structuredClone(odd[value])
      }
      const recognised = recognise(structuredClone(content))
      const read = bySchema(content)
      if (recognised === null) return
      assert.isTrue(Result.isSuccess(read))
      if (Result.isFailure(read)) return
      assert.isTrue(Equal.equals(recognised.record, read.success.record))
      assert.strictEqual(JSON.stringify(recognised.record).length, JSON.stringify(read.success.record).length)
      assert.isTrue(Schema.is(SandboxRecord)(recognised.record))
    },
    { arbitrary: { runs: 3_000 } }
  )

  it.each(keys.slice(0, -5))(
    "RG-LAY-05 every wrong value of %s that the schema refuses is refused",
    (key) => {
      for (const value of odd) {
        const content = contentOf({ ...recordOf(1), [key]: value })
        if (Result.isSuccess(bySchema(content))) continue
        assert.isNull(recognise(content), `${key}: ${JSON.stringify(value)}`)
        assert.isTrue(Result.isFailure(readRecordFile(JSON.stringify(content), { owner, name })))
      }
    }
  )

  it("every valid record is recognised without the schema", () => {
    const deletion = { reason: "lost", actor: "node", requestedAtMillis: 1 } as const
    for (const fields of [
      {},
      { deletion },
      { disk: "/d", statusReason: "r" },
      { argv: [], environment: {} },
      { origin: { key: RequestKey.make("k"), hash: "a".repeat(64), actor: "uid:0", startedAtMillis: 1 } },
      { history: [] },
      { history: [{ status: "Running" as const, atMillis: 1, wanted: "start" }] }
    ]) {
      assert.isNotNull(recognise(contentOf(recordOf(1, fields))))
    }
  })

  it("a refusal repeats nothing of the record's content", () => {
    for (const text of [
      JSON.stringify(contentOf({ ...recordOf(1), status: "s3cret" })),
      JSON.stringify(contentOf(recordOf(1))).slice(0, 200)
    ]) {
      const read = readRecordFile(text, { owner, name })
      assert.notInclude(Result.isFailure(read) ? read.failure : "s3cret", "s3cret")
    }
  })
})
