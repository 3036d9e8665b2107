/** What voids a figure of P12's peers, P13 and P14: records that are gone or another, and reads of what is not durable. */
import {
  appendFileSync,
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Load } from "../../../bench/lib/definition.ts"
import { measuredDisk } from "../../../bench/lib/measuredDisk.ts"
import { bareLoop, lmdbRange, sqliteScan } from "../../../bench/lib/openPeers.ts"
import { fill, placeOf, productOpen, wrongRecords } from "../../../bench/lib/openWork.ts"
import { readersBesideWrites, Watch } from "../../../bench/lib/readerWork.ts"
import { effectFiles, lmdbFlushed } from "../../../bench/lib/recordPeers.ts"
import { openProduct } from "../../../bench/lib/registryStage.ts"

const load = { workers: 3, warmUpSeconds: 0, seconds: 0.05 } satisfies Load

const directory = Effect.acquireRelease(
  Effect.sync(() => {
    const path = mkdtempSync(join(tmpdir(), "hf-bench-test-"))
    chmodSync(path, 0o700)
    return path
  }),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

describe("bench/lib/recordPeers", () => {
  for (const peer of [effectFiles, lmdbFlushed]) {
    it.live(`${peer("").name}: every record holds the last write to it`, () =>
      Effect.gen(function* () {
        const contender = peer(join(yield* directory, "peer"))
        const figures = yield* Effect.scoped(contender.run(load, 0))
        assert.isAbove(figures["operationsAll"]!, 0)
        assert.deepStrictEqual(yield* contender.check, [])
      })
    )
  }
})

describe("bench/lib/openWork", () => {
  it.live("the product and its yardsticks read the same records, and another record voids the run", () =>
    Effect.gen(function* () {
      const root = yield* directory
      const place = placeOf(root, load.workers)
      yield* Effect.promise(() => fill(place, load.workers))
      assert.strictEqual(bareLoop(place), load.workers)
      assert.strictEqual(sqliteScan(join(place, "peers")), load.workers)
      assert.strictEqual(lmdbRange(join(place, "peers")), load.workers)
      const open = productOpen(root, load.workers)
      const figures = yield* Effect.scoped(open.run(load, 0))
      assert.isAbove(figures["firstMillis"]!, 0)
      assert.deepStrictEqual(yield* open.check, [])
      const records = join(place, "records")
      const path = join(
        records,
        readdirSync(records).find((name) => name.startsWith("sb-"))!
      )
      writeFileSync(path, readFileSync(path, "utf8").replace('"image":"host"', '"image":"most"'))
      const { records: read } = yield* openProduct(place)
      assert.lengthOf(wrongRecords(read, load.workers), 1)
      appendFileSync(path, "}")
      assert.isTrue((yield* Effect.exit(Effect.scoped(open.run(load, 0))))._tag === "Failure")
    })
  )
})

describe("bench/lib/readerWork", () => {
  it.live("RG-COM-03 readers beside writers on a slow disk see nothing but what is committed", () =>
    Effect.gen(function* () {
      const contender = readersBesideWrites(join(yield* directory, "state"))
      const figures = yield* Effect.scoped(contender.run({ ...load, workers: 2 }, 0))
      assert.isAbove(figures["writes"]!, 0)
      assert.isAbove(figures["reads"]!, 0)
      assert.deepStrictEqual(yield* contender.check, [])
    })
  )

  it("a read of less than was acknowledged, of an older state, or of one that is not durable is a fault", () => {
    const faultsOf = (look: (watch: Watch, number: number) => void): ReadonlyArray<string> => {
      const watch = new Watch(1, measuredDisk())
      look(watch, watch.asked())
      return [...watch.faults]
    }
    assert.deepStrictEqual(
      faultsOf((watch) => watch.read(0, 0)),
      []
    )
    assert.include(
      faultsOf((watch, number) => {
        watch.answered(number)
        watch.read(0, 0)
      }).join(),
      "acknowledged"
    )
    const tooEarly = faultsOf((watch, number) => {
      watch.read(0, number)
      watch.read(0, 0)
    }).join()
    assert.include(tooEarly, "not durable")
    assert.include(tooEarly, "older")
  })
})
