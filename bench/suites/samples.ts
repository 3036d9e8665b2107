/** P9: samples of many sandboxes through the product's batches, beside statements that upsert every sample. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema } from "../lib/admission.ts"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { runPlainly } from "../lib/plainPg.ts"
import { fullBatches, pacedBatches } from "../lib/sampleBatches.ts"
import { measuredMetrics, plainUpserts, sampleRows, sandboxes } from "../lib/sampleWork.ts"

const contender = "SampleBatches"
const single = "pg, one statement a sample"
const batched = "pg, upserts, batch 100"

export const samples: Suite = {
  id: "P9",
  title: "sample",
  what: `Compare and set, minute and hour of one sample with ${measuredMetrics.length} metrics, ${sandboxes} sandboxes; the sums of the history have to be exact, and samples offered again stale. A batch of the product is 256.`,
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "clientCpuMicros", "serverMicros", "walBytes"],
  baseline: single,
  workers: [1, 4],
  targets: [
    { contender, workers: [1], ratioAtLeast: 9 },
    { contender, workers: [4], ratioAtLeast: 12 },
    { contender, ratioAtLeast: 4, to: batched },
    { contender, figure: "serverMicros", atMost: 50 },
    { contender, figure: "walBytes", atMost: 1_024 },
    { contender: "SampleBatches, 1,000 a second", figure: "p99Millis", atMost: 150 }
  ],
  open: () =>
    Effect.gen(function* () {
      const { settings, setting } = yield* openDatabase
      const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
      yield* migrateBoth(settings)
      yield* runPlainly(inSchema, sampleRows)
      return {
        contenders: [
          plainUpserts(single, inSchema, 1),
          plainUpserts(batched, inSchema, 100),
          fullBatches(inSchema),
          pacedBatches(inSchema)
        ],
        leftOut: [],
        setting
      }
    })
}
