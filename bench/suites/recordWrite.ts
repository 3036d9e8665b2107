/** P12: what a durable mutation of the node registry costs beside the flushes that nobody can save. */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { compile } from "../lib/compile.ts"
import type { Suite } from "../lib/definition.ts"
import { diskDirectory, flushMillis } from "../lib/disk.ts"
import { nativeFloor, nodeFloor, sqliteFloor } from "../lib/recordFloors.ts"
import { effectFiles, lmdbFlushed } from "../lib/recordPeers.ts"
import { registryWrites } from "../lib/registryWork.ts"
import { recordTemplate } from "../lib/sampleRecord.ts"

const contender = "Registry.update"

export const recordWrite: Suite = {
  id: "P12",
  title: "record write",
  what: "One changed record made durable: temporary file, flush, rename, flush of the directory. The loops and SQLite are one writer whatever the load, and check nothing.",
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "flushesEach", "blockedP999Millis"],
  baseline: "C loop",
  workers: [1, 4, 16],
  targets: [
    { contender, workers: [1], ratioAtLeast: 0.8 },
    { contender, workers: [4], ratioAtLeast: 1 },
    { contender, workers: [16], ratioAtLeast: 1.8 },
    { contender, workers: [1], ratioAtLeast: 1.4, to: "Effect FileSystem, a lock" },
    { contender, workers: [4], ratioAtLeast: 1.8, to: "Effect FileSystem, a lock" },
    { contender, workers: [16], ratioAtLeast: 3, to: "Effect FileSystem, a lock" },
    { contender, workers: [16], ratioAtLeast: 0.5, to: "node:sqlite, synchronous full" },
    { contender, workers: [1], figure: "flushesEach", atMost: 2 },
    { contender, workers: [16], figure: "flushesEach", atMost: 1.2 },
    { contender, figure: "blockedP999Millis", atMost: 1 }
  ],
  open: () =>
    Effect.gen(function* () {
      const directory = yield* diskDirectory
      const template = Path.join(directory, "template.json")
      Files.writeFileSync(template, recordTemplate())
      const compiled = compile(Path.join(import.meta.dirname, "../native/recordFloor.c"), directory)
      const place = (name: string) => Path.join(directory, name)
      return {
        contenders: [
          ...("program" in compiled ? [nativeFloor(compiled.program, template, place("native"))] : []),
          registryWrites(place("registry")),
          nodeFloor(place("node")),
          effectFiles(place("effect")),
          sqliteFloor(place("sqlite")),
          lmdbFlushed(place("lmdb"))
        ],
        leftOut: "why" in compiled ? [{ name: "C loop", why: compiled.why }] : [],
        setting: {
          record: `${recordTemplate().length} bytes`,
          disk: `one flush takes ${flushMillis(directory).toFixed(3)} ms`
        }
      }
    })
}
