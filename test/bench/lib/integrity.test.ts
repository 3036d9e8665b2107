/** What voids a figure of P12: a write that is not on the disk, a torn record, a disk that differs from memory. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { lastWritesMissing, nodeFloor, recordsWritten } from "../../../bench/lib/recordFloors.ts"
import { registryWrites } from "../../../bench/lib/registryWork.ts"
import { numberMark, recordTemplate, writtenNumber } from "../../../bench/lib/sampleRecord.ts"

const load = { workers: 2, warmUpSeconds: 0, seconds: 0.05 }

const recordOf = (number: number): string => recordTemplate().replace(numberMark, writtenNumber(number))

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "hf-bench-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

/** Where the only run below the directory has written. */
const runBelow = (parent: string): string => join(parent, readdirSync(parent)[0]!)

/** Changes one digit of the number in a record of the directory. */
const tamper = (folder: string): void => {
  const name = readdirSync(folder).find((entry) => /^(sb-|record-).*\.json$/.test(entry))!
  const text = readFileSync(join(folder, name), "utf8")
  writeFileSync(join(folder, name), text.replace(/("write":"\d{11})\d/, "$1x"))
}

describe("bench/lib/recordFloors", () => {
  const all = recordsWritten * 2 + 3
  const texts = Array.from({ length: recordsWritten }, (_, at) => recordOf(all - recordsWritten + at))

  it("the last write to every record is looked for", () => {
    assert.deepStrictEqual(lastWritesMissing({ texts: () => texts, all }), [])
    const lost = texts.with(0, recordOf(0))
    assert.lengthOf(lastWritesMissing({ texts: () => lost, all }), 1)
  })

  it("a torn record is no write", () => {
    const torn = texts.with(5, texts[5]!.slice(0, -1))
    assert.lengthOf(lastWritesMissing({ texts: () => torn, all }), 1)
  })

  it.live("the Node loop passes its check, and fails it when a record was changed behind it", () =>
    Effect.gen(function* () {
      const parent = yield* directory
      const floor = nodeFloor(join(parent, "node"))
      yield* floor.run(load, 0)
      assert.deepStrictEqual(yield* floor.check, [])
      tamper(runBelow(parent))
      assert.lengthOf(yield* floor.check, 1)
    })
  )
})

describe("bench/lib/registryWork", () => {
  it.live("a registry that is opened again equals its memory, and a record changed behind it is seen", () =>
    Effect.gen(function* () {
      const parent = yield* directory
      const registry = registryWrites(join(parent, "state"))
      const figures = yield* Effect.scoped(registry.run(load, 0))
      assert.isAbove(figures["operationsAll"]!, 0)
      assert.deepStrictEqual(yield* registry.check, [])
      tamper(join(runBelow(parent), "records"))
      assert.lengthOf(yield* registry.check, 1)
    })
  )
})
