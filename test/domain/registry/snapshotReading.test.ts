import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Files from "node:fs"
import * as Path from "node:path"
import { registrySnapshotBytesMax } from "../../../src/domain/Bounds.ts"
import { snapshotText } from "../../../src/domain/registry/charges.ts"
import type { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { readHeader } from "../../../src/domain/registry/snapshotReading.ts"
import { contentsOf, lookAt, openOn, recordOf, sandboxOf } from "./fixture.ts"
import { layOutSnapshot, owner } from "./snapshotFixture.ts"

const contentOf = (sandboxes: unknown) => JSON.stringify({ version: 1, owner, sandboxes })

/** Why it is refused: as a whole, or the faults of its records. */
const faultsOf = (text: string): ReadonlyArray<string> => {
  const read = readHeader(text)
  if (Result.isFailure(read)) return [read.failure]
  return read.success.version === 1 ? read.success.faults : []
}

/** Records whose snapshot has exactly this many bytes. */
const recordsOfBytes = (bytes: number): ReadonlyArray<SandboxRecord> => {
  const records = [recordOf(1), recordOf(2, { metadata: { filler: "ü" } })]
  const missing = bytes - Buffer.byteLength(snapshotText(owner, [...records, recordOf(3, { image: "" })]))
  return [...records, recordOf(3, { image: "x".repeat(missing) })]
}

describe("registry/snapshotReading", () => {
  it("RG-MIG-01 a snapshot is read whole, with its owner and its bytes", () => {
    const records = [recordOf(1), recordOf(2)]
    const text = snapshotText(owner, records)
    const read = Result.getOrThrow(readHeader(text))
    assert.deepInclude(read, { version: 1, owner, isOccupied: true, faults: [] })
    if (read.version !== 1) return
    assert.strictEqual(read.snapshotBytes, Buffer.byteLength(text))
    assert.strictEqual(snapshotText(owner, read.records), text)
  })

  it.each([
    ["a field missing", { [sandboxOf(1)]: { ...recordOf(1), image: undefined } }],
    ["an unknown field", { [sandboxOf(1)]: { ...recordOf(1), colour: "red" } }],
    ["no CPU", { [sandboxOf(1)]: { ...recordOf(1), cpuMillis: 0 } }],
    ["the id of another one", { [sandboxOf(1)]: recordOf(2) }],
    ["nothing in it", { [sandboxOf(1)]: null }],
    ["a name that is no id", { "sb-1": recordOf(1) }]
  ])("RG-LAY-05 RG-MIG-01 one record with %s refuses the whole snapshot, and is named", (_, sandboxes) => {
    const faults = faultsOf(contentOf({ ...sandboxes, [sandboxOf(5)]: recordOf(5) }))
    assert.strictEqual(faults.length, 1)
    assert.match(faults[0]!, /^(sb-00000000-0000-4000-8000-000000000001|a record): /)
  })

  it("RG-MIG-01 a record that is a property of every object is not lost", () => {
    const text = contentOf({}).replace("{}", `{"__proto__":${JSON.stringify(recordOf(1))}}`)
    assert.deepStrictEqual(faultsOf(text), ["a record: its name is no sandbox id"])
  })

  it("RG-MIG-01 a sandbox that stands twice in it refuses the snapshot: neither is dropped", () => {
    const one = `"${sandboxOf(1)}":${JSON.stringify(recordOf(1))}`
    const other = `"${sandboxOf(1)}":${JSON.stringify(recordOf(1, { status: "Running" }))}`
    const text = contentOf({}).replace("{}", `{${one},${other}}`)
    assert.include(faultsOf(text)[0], "twice")
  })

  it("every fault of a snapshot is told, and none repeats what is in it", () => {
    const sandboxes = { [sandboxOf(1)]: { ...recordOf(1), status: "s3cret" }, "sb-s3cret": recordOf(2) }
    const faults = faultsOf(contentOf(sandboxes))
    assert.strictEqual(faults.length, 2)
    assert.notInclude(faults.join(), "s3cret")
  })

  it.each([
    ["nothing", ""],
    ["no JSON", "{"],
    ["NUL bytes", "\0".repeat(99)],
    ["an array", "[]"],
    ["no map", JSON.stringify({ version: 1, owner })],
    ["a list of sandboxes", contentOf([])],
    ["no owner", JSON.stringify({ version: 1, sandboxes: {} })],
    ["an owner that is none", JSON.stringify({ version: 1, owner: "me", sandboxes: {} })],
    ["a later version", JSON.stringify({ version: 3, owner, sandboxes: {} })],
    ["an unknown field", JSON.stringify({ version: 1, owner, sandboxes: {}, more: 1 })],
    ["sandboxes in version 2", JSON.stringify({ version: 2, owner, sandboxes: { [sandboxOf(1)]: {} } })]
  ])("RG-LAY-06 a header of %s is refused with what to do", (_, text) => {
    assert.isTrue(Result.isFailure(readHeader(text)))
    assert.include(faultsOf(text)[0], "keep it")
  })

  it.live("RG-BUD-03 RG-MIG-02 a snapshot of exactly 16 MiB migrates, and nothing more fits", () =>
    Effect.gen(function* () {
      const records = recordsOfBytes(registrySnapshotBytesMax)
      const { directory } = yield* layOutSnapshot(records)
      assert.strictEqual(
        Files.statSync(Path.join(directory, "sandboxes.json")).size,
        registrySnapshotBytesMax
      )
      const registry = yield* openOn(directory)
      const inventory = yield* registry.inventory
      assert.deepStrictEqual(
        records.map(({ id }) => JSON.stringify(inventory.get(id))),
        records.map((record) => JSON.stringify(record))
      )
      assert.strictEqual((yield* registry.charges).snapshotBytes, registrySnapshotBytesMax)
      assert.strictEqual((yield* Effect.flip(registry.admit(recordOf(4))))._tag, "RegistryFull")
    })
  )

  it.live("RG-MIG-01 one wrong record of a snapshot refuses the open, which changes nothing", () =>
    Effect.gen(function* () {
      const { directory, read, write } = yield* layOutSnapshot()
      write("sandboxes.json", read("sandboxes.json").replace('"status":"Running"', '"status":"Walking"'))
      const before = contentsOf(directory)
      const refusal = yield* Effect.flip(lookAt(directory))
      assert.deepInclude(refusal, { _tag: "RegistryOpenRefused", path: "sandboxes.json" })
      assert.include(refusal.message, sandboxOf(3))
      assert.deepStrictEqual(contentsOf(directory), before)
    })
  )

  it.live("RG-BUD-03 RG-LAY-08 a snapshot of one byte more is refused, and stays as it is", () =>
    Effect.gen(function* () {
      const { directory } = yield* layOutSnapshot(recordsOfBytes(registrySnapshotBytesMax + 1))
      const before = contentsOf(directory)
      const refusal = yield* Effect.flip(lookAt(directory))
      assert.deepInclude(refusal, { _tag: "RegistryOpenRefused", path: "sandboxes.json" })
      assert.strictEqual("code" in refusal && refusal.code, "state_directory_refused")
      assert.include(refusal.message, `larger than ${registrySnapshotBytesMax} bytes`)
      assert.deepStrictEqual(contentsOf(directory), before)
    })
  )

  it("RG-BUD-03 what counts is the snapshot that it means: a number may be written shorter than it is", () => {
    const records = recordsOfBytes(registrySnapshotBytesMax)
    const exact = snapshotText(owner, records)
    const shorter = exact.replace('"memoryBytes":1024', '"memoryBytes":1e9')
    assert.strictEqual(Buffer.byteLength(shorter), registrySnapshotBytesMax - 1)
    assert.include(faultsOf(shorter)[0], `${registrySnapshotBytesMax + 6} bytes`)
    assert.deepStrictEqual(faultsOf(exact), [])
  })
})
