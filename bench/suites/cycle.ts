/** P3: the whole life of an operation's row through the product's programs, beside the leanest calls of the same rules. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema } from "../lib/admission.ts"
import { admissionRows } from "../lib/admissionWork.ts"
import { productCycle } from "../lib/cycle.ts"
import { cycleProjects, freshReceipts, plainCycle } from "../lib/cycleWork.ts"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { graphileCycle, prepareGraphileWorker } from "../lib/graphileWorker.ts"
import { pgBossCycle, preparePgBoss } from "../lib/pgBoss.ts"
import { runPlainly } from "../lib/plainPg.ts"

export const cycle: Suite = {
  id: "P3",
  title: "cycle",
  what: "Enqueue, claim, settle and trim: three calls, three commits. Every Project has as many receipts as are kept, so that each settlement trims one.",
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "clientCpuMicros"],
  baseline: "pg, three calls",
  workers: [1, 4, 16],
  targets: [
    { contender: "admit, claim, settle", ratioAtLeast: 0.95 },
    { contender: "admit, claim, settle", ratioAtLeast: 4, to: "graphile-worker, add and run" },
    { contender: "admit, claim, settle", ratioAtLeast: 5, to: "pg-boss, send, fetch, complete" }
  ],
  open: () =>
    Effect.gen(function* () {
      const { setting, settings } = yield* openDatabase
      const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
      yield* migrateBoth(settings)
      yield* runPlainly(inSchema, admissionRows(cycleProjects))
      yield* runPlainly(inSchema, freshReceipts)
      yield* prepareGraphileWorker(settings)
      yield* preparePgBoss(settings)
      return {
        contenders: [
          plainCycle(inSchema),
          productCycle(inSchema),
          graphileCycle(settings),
          pgBossCycle(settings)
        ],
        leftOut: [],
        setting
      }
    })
}
