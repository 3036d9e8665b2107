import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { orphanSpoolQuarantineMax } from "../../../src/domain/Bounds.ts"
import type { OrphanSpool } from "../../../src/domain/runLeases/OrphanSpool.ts"
import { makeOrphanSpool } from "../../../src/infra/filesystem/OrphanSpool.ts"
import {
  makeDirectoryNode,
  makeFile,
  makeSimulatedDisk,
  type SimulatedDisk,
  simulatedRoot
} from "../../support/simulatedDisk.ts"
import { type Life, type LifeOptions, startLife, type SystemCall } from "../../support/simulatedDiskCalls.ts"
import {
  crashImagesOf,
  describeImage,
  type DiskImage,
  diskOf,
  visibleImageOf
} from "../../support/simulatedDiskCrash.ts"
import { orphanOf } from "./orphanRecords.ts"

type Spool = OrphanSpool["Service"]

const spoolOf = (life: Life): Spool => makeOrphanSpool(simulatedRoot, life.calls)

const loadedFrom = (image: DiskImage) => {
  const spool = spoolOf(startLife(diskOf(image)))
  return Effect.all({ records: spool.load, quarantined: spool.quarantined })
}

/** Whether the process is killed, or the machine loses power, behind a call. */
type Fall = "kill" | "power"

const statesAfter = (disk: SimulatedDisk, fall: Fall): ReadonlyArray<DiskImage> =>
  fall === "kill" ? [visibleImageOf(disk.root)] : crashImagesOf(disk)

/** Runs once for each changing call, and ends the life there: before it is made, or once it is. */
const everyEnd = (
  arrange: (spool: Spool) => Effect.Effect<unknown, unknown>,
  act: (spool: Spool) => Effect.Effect<boolean, unknown>,
  check: (disk: SimulatedDisk, isConfirmed: boolean, where: string) => Effect.Effect<void, unknown>
) =>
  Effect.gen(function* () {
    let ends = 0
    for (const when of ["before", "after"] as const) {
      for (let at = 1; ; at += 1) {
        const disk = makeSimulatedDisk()
        yield* arrange(spoolOf(startLife(disk)))
        let seen = 0
        let where = "the end"
        const isHere = (call: SystemCall): boolean => {
          if (call.changes) seen += 1
          if (!call.changes || seen !== at) return false
          where = `${when} ${call.name} ${call.path}`
          life.end()
          return true
        }
        const options: LifeOptions =
          when === "before"
            ? { fault: (call) => (isHere(call) ? "EIO" : null) }
            : { done: (call) => void isHere(call) }
        const life: Life = startLife(disk, options)
        // A process that is gone has answered nobody.
        const answer = yield* Effect.orElseSucceed(act(spoolOf(life)), () => false)
        yield* check(disk, answer && !life.isOver(), where)
        if (!life.isOver()) break
        ends += 1
      }
    }
    return ends
  })

const falls: ReadonlyArray<Fall> = ["kill", "power"]

describe("filesystem/OrphanSpool, killed at every call", () => {
  it.effect.each(falls)(
    "FC-19 BX-04 an orphan that was confirmed is found after a %s, and a half one never",
    (fall) =>
      Effect.gen(function* () {
        let states = 0
        let found = 0
        const ends = yield* everyEnd(
          (spool) => spool.append(orphanOf(1)),
          (spool) => spool.append(orphanOf(2)),
          (disk, isConfirmed, where) =>
            Effect.forEach(statesAfter(disk, fall), (image) =>
              Effect.gen(function* () {
                const { quarantined, records } = yield* loadedFrom(image)
                const told = `${where}\n${describeImage(image).join("\n")}`
                const second = records.filter(({ id }) => id === orphanOf(2).id)
                assert.deepInclude(records, orphanOf(1), told)
                assert.strictEqual(quarantined, 0, told)
                assert.isAtMost(records.length, 2, told)
                if (isConfirmed || second.length > 0) assert.deepStrictEqual(second, [orphanOf(2)], told)
                states += 1
                found += second.length
              })
            )
        )
        assert.isAtLeast(ends, 10)
        assert.isAbove(states, found)
        assert.isAbove(found, 0)
      })
  )

  it.effect.each(falls)(
    "FC-19 BX-04 an orphan that was removed stays removed after a %s; until then it is there",
    (fall) =>
      Effect.gen(function* () {
        yield* everyEnd(
          (spool) => Effect.andThen(spool.append(orphanOf(1)), spool.append(orphanOf(2))),
          (spool) => Effect.as(spool.remove(orphanOf(2)), true),
          (disk, isConfirmed, where) =>
            Effect.forEach(statesAfter(disk, fall), (image) =>
              Effect.gen(function* () {
                const { records } = yield* loadedFrom(image)
                assert.deepInclude(records, orphanOf(1), where)
                if (isConfirmed) assert.deepStrictEqual(records, [orphanOf(1)], where)
                else assert.isAtMost(records.length, 2, where)
              })
            )
        )
      })
  )

  it.effect.each(falls)(
    "FC-19 BX-04 an import that is cut off by a %s loses no orphan, finished or not",
    (fall) =>
      Effect.gen(function* () {
        // Left behind by a process that was killed between the flush and the rename.
        const unfinished = (spool: Spool) => spool.append(orphanOf(2))
        yield* everyEnd(
          (spool) => spool.append(orphanOf(1)),
          (spool) => Effect.andThen(unfinished(spool), Effect.as(spool.load, true)),
          (disk, isConfirmed, where) =>
            Effect.forEach(statesAfter(disk, fall), (image) =>
              Effect.gen(function* () {
                const once = yield* loadedFrom(image)
                assert.deepInclude(once.records, orphanOf(1), where)
                if (isConfirmed) assert.deepInclude(once.records, orphanOf(2), where)
              })
            )
        )
      })
  )

  it.effect(
    "FC-19 what cannot be put aside, or finds no room there, is counted, stays, and holds nothing up",
    () =>
      Effect.gen(function* () {
        const disk = makeSimulatedDisk()
        yield* spoolOf(startLife(disk)).append(orphanOf(1))
        disk.root.entries.set("stranger", makeFile(Buffer.alloc(0)))
        const renamesOf = (life: Life) => life.order.filter(({ name }) => name === "rename").length
        // The simulated disk moves nothing from one directory into another.
        const refusing = startLife(disk)
        assert.deepStrictEqual(yield* spoolOf(refusing).load, [orphanOf(1)])
        assert.strictEqual(renamesOf(refusing), 1)
        assert.strictEqual(yield* spoolOf(startLife(disk)).quarantined, 1)
        const aside = Array.from(
          { length: orphanSpoolQuarantineMax },
          (_, at) => [`s${at}`, makeFile(Buffer.alloc(0))] as const
        )
        disk.root.entries.set("quarantine", makeDirectoryNode(new Map(aside)))
        const full = startLife(disk)
        assert.deepStrictEqual(yield* spoolOf(full).load, [orphanOf(1)])
        assert.strictEqual(renamesOf(full), 0)
        assert.strictEqual(yield* spoolOf(startLife(disk)).quarantined, orphanSpoolQuarantineMax + 1)
        assert.isTrue(disk.root.entries.has("stranger"))
      })
  )

  it.effect(
    "FC-19 a record left unnamed is taken under its name, half of one is dropped, and neither is counted malformed",
    () =>
      Effect.gen(function* () {
        const disk = makeSimulatedDisk()
        const cutAt = (name: string): Life =>
          startLife(disk, { fault: (call) => (call.name === name ? "EIO" : null) })
        assert.isFalse(yield* spoolOf(cutAt("rename")).append(orphanOf(1)))
        assert.isFalse(yield* spoolOf(cutAt("write")).append(orphanOf(2)))
        assert.lengthOf(
          [...disk.root.entries.keys()].filter((name) => name.endsWith(".tmp")),
          2
        )
        const { quarantined, records } = yield* loadedFrom(visibleImageOf(disk.root))
        assert.deepStrictEqual(records, [orphanOf(1)])
        assert.strictEqual(quarantined, 0)
        yield* spoolOf(startLife(disk)).load
        assert.deepStrictEqual(
          [...disk.root.entries.keys()].filter((name) => name.endsWith(".tmp")),
          []
        )
      })
  )

  it.effect("BX-04 a fault of the disk on a read is an error, and no record is put aside for it", () =>
    Effect.gen(function* () {
      const disk = makeSimulatedDisk()
      yield* spoolOf(startLife(disk)).append(orphanOf(1))
      for (const name of ["open", "read", "stat", "list"]) {
        const failing = startLife(disk, { fault: (call) => (call.name === name ? "EIO" : null) })
        assert.strictEqual((yield* Effect.flip(spoolOf(failing).load)).why, "folder", name)
      }
      assert.deepStrictEqual(yield* spoolOf(startLife(disk)).load, [orphanOf(1)])
    })
  )
})
