/** P4: a full queue drained in batches, beside queues that are tuned for it. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema } from "../lib/admission.ts"
import { admissionRows } from "../lib/admissionWork.ts"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { productDrain } from "../lib/drain.ts"
import { drained, drainRows } from "../lib/drainWork.ts"
import { graphileDrain, prepareGraphileWorker } from "../lib/graphileWorker.ts"
import { pgBossDrain, preparePgBoss } from "../lib/pgBoss.ts"
import { runPlainly } from "../lib/plainPg.ts"

const contender = "claimUntilEmpty, settleOperation"
const pgBoss = "pg-boss, fetch 256, complete 256"

export const drain: Suite = {
  id: "P4",
  title: "batch drain",
  what: "10,000 queued operations, one a Project, are claimed, ended and trimmed to the receipts that are kept; peers run or complete as many jobs. Every claimant asks for 256 at a time, and has room for as many again, which end meanwhile.",
  figure: { name: "perSecond", better: "higher" },
  beside: ["clientCpuMicros", "serverMicros", "walBytes"],
  baseline: "graphile-worker, tuned",
  loadName: "claimants",
  workers: [1, 4],
  targets: [
    { contender, workers: [1], ratioAtLeast: 1.2 },
    { contender, workers: [4], ratioAtLeast: 1.6 },
    { contender, ratioAtLeast: 1.8, to: pgBoss }
  ],
  open: () =>
    Effect.gen(function* () {
      const { setting, settings } = yield* openDatabase
      const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
      yield* migrateBoth(settings)
      yield* runPlainly(inSchema, admissionRows(drained))
      yield* runPlainly(inSchema, drainRows)
      yield* prepareGraphileWorker(settings)
      yield* preparePgBoss(settings)
      return {
        contenders: [graphileDrain(settings), productDrain(inSchema), pgBossDrain(settings)],
        leftOut: [],
        setting
      }
    })
}
