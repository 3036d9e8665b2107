/** P13: how long a daemon's start waits for its registry. */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import type { Suite } from "../lib/definition.ts"
import { diskDirectory } from "../lib/disk.ts"
import { bareLoop, lmdbRange, sqliteScan } from "../lib/openPeers.ts"
import { fill, placeOf, productOpen, readerOpen } from "../lib/openWork.ts"
import { recordTemplate } from "../lib/sampleRecord.ts"

// Ratios above one are better: 0.87 is at most 1.15 times as long as the bare loop, 0.625 at most 1.6 times.
const contender = "openRegistry"
const sizes = [100, 1_000, 10_000]
const smallest = sizes[0]!

export const coldOpen: Suite = {
  id: "P13",
  title: "cold open",
  what: "Every record of a node read and checked: owner, id, limits, token. The product also flushes what it believes, twice a start; page cache warm.",
  figure: { name: "millis", better: "lower" },
  beside: ["microsEach", "growth", "firstMillis", "grownMebibytes"],
  baseline: "bare loop",
  loadName: "records",
  workers: sizes,
  targets: [
    { contender, ratioAtLeast: 0.87 },
    { contender, ratioAtLeast: 0.625, to: "node:sqlite scan" },
    { contender, workers: [10_000], figure: "millis", atMost: 160 },
    { contender, workers: sizes.slice(1), figure: "growth", atMost: 1.3 },
    { contender, figure: "grownMebibytes", atMost: 64 }
  ],
  open: () =>
    Effect.gen(function* () {
      const directory = yield* diskDirectory
      for (const records of sizes) {
        const place = placeOf(directory, records)
        Files.mkdirSync(place, { mode: 0o700 })
        yield* Effect.promise(() => fill(place, records))
      }
      return {
        contenders: [
          readerOpen("bare loop", directory, bareLoop, smallest, ""),
          productOpen(directory, smallest),
          readerOpen("node:sqlite scan", directory, sqliteScan, smallest),
          readerOpen("lmdb range", directory, lmdbRange, smallest)
        ],
        leftOut: [],
        setting: { record: `${recordTemplate().length} bytes` }
      }
    })
}
