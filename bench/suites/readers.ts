/** P14: what readers of the inventory notice of the writers, on this disk, on a slower one and on one that hardly works. */
import * as Effect from "effect/Effect"
import * as Path from "node:path"
import type { Suite } from "../lib/definition.ts"
import { diskDirectory, flushMillis } from "../lib/disk.ts"
import { readersAlone, readersBesideWrites } from "../lib/readerWork.ts"

const contender = "reads beside writes"

export const readers: Suite = {
  id: "P14",
  title: "readers",
  what: "One read of the inventory at every turn of the event loop, beside four writers that never rest; every flush takes so many milliseconds more. With 500 a registry that took slowness for failure would refuse, and void its run.",
  figure: { name: "p99Millis", better: "lower" },
  beside: ["p50Millis", "maxMillis", "reads", "writes"],
  baseline: "reads alone",
  loadName: "flush +ms",
  workers: [0, 4, 500],
  targets: [{ contender, figure: "p99Millis", atMost: 0.05 }],
  open: () =>
    Effect.gen(function* () {
      const directory = yield* diskDirectory
      return {
        contenders: [
          readersAlone(Path.join(directory, "alone")),
          readersBesideWrites(Path.join(directory, "beside"))
        ],
        leftOut: [],
        setting: { disk: `one flush takes ${flushMillis(directory).toFixed(3)} ms` }
      }
    })
}
