/** P11: the upkeep of the history, whose cost may not grow with what is stored. */
import * as Effect from "effect/Effect"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { fillHistory, upkeep, wholeBacklog } from "../lib/pruneWork.ts"

const contender = "prunePass"
const sizes = [10_000, 1_000_000]
const largest = sizes.at(-1)!

export const prune: Suite = {
  id: "P11",
  title: "prune",
  what: "A pass of 1,000 rows with the look before it, through the product; the look alone where nothing is to be done; passes of deleted Projects in a history that has not expired; a pass beside a transaction that holds the 500 first rows.",
  figure: { name: "passMillis", better: "lower" },
  beside: ["growth", "idleMillis", "deletedMillis", "lockedRatio", "maxMillis", "passes", "lastTenth"],
  baseline: contender,
  loadName: "rows",
  workers: sizes,
  targets: [
    { contender, figure: "passMillis", atMost: 3 },
    { contender, workers: [largest], figure: "growth", atMost: 1.5 },
    { contender, figure: "idleMillis", atMost: 0.5 },
    { contender, figure: "deletedMillis", atMost: 5 },
    { contender, figure: "lockedRatio", atMost: 1.3 }
  ],
  open: () =>
    Effect.gen(function* () {
      const { settings, setting } = yield* openDatabase
      for (const rows of sizes) yield* fillHistory(settings, rows)
      return { contenders: [upkeep(settings, sizes[0]!), wholeBacklog(settings)], leftOut: [], setting }
    })
}
