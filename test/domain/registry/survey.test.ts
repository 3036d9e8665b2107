import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { surveyRegistry } from "../../../src/domain/registry/survey.ts"
import { contentsOf, lookAt, makeDisk, portsOn, recordOf, sandboxOf, temporaryDirectory } from "./fixture.ts"
import { layOutSnapshot, layOutUnactivated, owner, type SnapshotPlace } from "./snapshotFixture.ts"

const recordPath = (number: number) => `records/${sandboxOf(number)}.json`
const recordText = (number: number, wrapper: object = {}) =>
  JSON.stringify({ version: 2, owner, record: recordOf(number), ...wrapper })

/** A committed registry of three records. */
const committed = Effect.gen(function* () {
  const place = yield* layOutSnapshot()
  yield* lookAt(place.directory)
  return place
})

const surveyOf = (directory: string, disk = makeDisk()) =>
  Effect.provide(surveyRegistry, portsOn(directory, disk))

/** Whether an open succeeds; what it says when not. */
const openOutcome = (directory: string) =>
  Effect.map(Effect.result(lookAt(directory)), (opened) =>
    Result.isSuccess(opened) ? null : opened.failure.message
  )

const spoils: ReadonlyArray<readonly [what: string, spoil: (place: SnapshotPlace) => void]> = [
  ["nothing wrong", () => undefined],
  ["a torn record", ({ write }) => write(recordPath(2), recordText(2).slice(0, 40))],
  ["another owner's record", ({ write }) => write(recordPath(2), recordText(2, { owner: "x" }))],
  ["a record of another id", ({ write }) => write(recordPath(2), recordText(3))],
  ["an unknown name", ({ write }) => write("records/notes.txt", "")],
  ["a directory for a record", ({ makeDirectory }) => makeDirectory(recordPath(4))],
  ["a record open to others", ({ write }) => write(recordPath(5), recordText(5), 0o644)],
  ["a leftover", ({ write }) => write("records/.record-1", "")],
  ["remnants", ({ makeDirectory }) => makeDirectory(".records-1")],
  ["no marker", ({ write }) => write("runtime/owner.json", "{}")],
  ["no header", ({ write }) => write("sandboxes.json", "")],
  ["no metadata", ({ write }) => write("records/meta.json", "")]
]

describe("registry/survey", () => {
  it.live.each(spoils)(
    "a look at a registry with %s says what its open does, and changes nothing",
    ([, spoil]) =>
      Effect.gen(function* () {
        const place = yield* committed
        spoil(place)
        const before = contentsOf(place.directory)
        const disk = makeDisk()
        const found = yield* Effect.result(surveyOf(place.directory, disk))
        assert.deepStrictEqual(contentsOf(place.directory), before)
        assert.isTrue(disk.calls.every((call) => /^(list|check|read) /.test(call)))
        const expected = yield* openOutcome(place.directory)
        const [first] = Result.isSuccess(found) ? found.success.faults : [found.failure]
        assert.strictEqual(first?.message ?? null, expected)
      })
  )

  it.live("RG-LAY-06 every wrong record is told, and those that are right beside it", () =>
    Effect.gen(function* () {
      const place = yield* committed
      place.write(recordPath(1), "")
      place.write(recordPath(2), recordText(3))
      place.write("records/.record-x", "")
      place.write("records/more.json", "")
      const found = yield* surveyOf(place.directory)
      assert.sameMembers(
        found.faults.map(({ path }) => path),
        [recordPath(1), recordPath(2), "records/more.json"]
      )
      if (found.layout !== "version 2") return assert.fail(found.layout)
      assert.deepStrictEqual(
        found.records.map(({ id }) => id),
        [sandboxOf(3)]
      )
      assert.deepStrictEqual(found.artifacts, [{ kind: "record", path: "records/.record-x" }])
    })
  )

  it.live("RG-MIG-01 a version-1 registry is told with its records, its bytes and every remnant", () =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      layOutUnactivated(place)
      place.write("runtime/.owner.json-x", "")
      const found = yield* surveyOf(place.directory)
      assert.deepInclude(found, { layout: "version 1", owner, faults: [] })
      if (found.layout !== "version 1") return
      assert.strictEqual(found.records.length, 3)
      assert.strictEqual(found.snapshotBytes, Buffer.byteLength(place.read("sandboxes.json")))
      assert.sameMembers(
        found.artifacts.map(({ kind }) => kind),
        ["staging", "retired", "header", "unactivated", "marker"]
      )
    })
  )

  it.live("an empty directory is a beginning, and one that is not there is refused", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      assert.strictEqual((yield* surveyOf(directory)).layout, "fresh")
      assert.strictEqual((yield* Effect.flip(surveyOf(`${directory}/nowhere`))).path, ".")
    })
  )
})
