/** P5: how soon an operation is at work after it was asked for. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema } from "../lib/admission.ts"
import { admissionRows } from "../lib/admissionWork.ts"
import { cycleProjects, freshReceipts, plainDispatch } from "../lib/cycleWork.ts"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { productDispatch, racingDispatch } from "../lib/dispatch.ts"
import { graphileDispatch, prepareGraphileWorker } from "../lib/graphileWorker.ts"
import { runPlainly } from "../lib/plainPg.ts"

const contender = "admitOperation, dispatch"

export const dispatch: Suite = {
  id: "P5",
  title: "dispatch",
  what: "From the call that asks for an operation until it is taken by the dispatcher of the same process, a hundred a second; beside the sum of two plain calls. Sixteen at once race 20,000 operations past one dispatcher, and none may wait for a poll.",
  figure: { name: "p50Millis", better: "lower" },
  beside: ["p99Millis", "p99Ratio", "operationsAll"],
  baseline: "pg, enqueue and claim",
  loadName: "a second",
  workers: [100],
  targets: [
    { contender, ratioAtLeast: 1 / 1.25 },
    { contender, ratioAtLeast: 1 / 0.45, to: "graphile-worker, add to begin" },
    { contender, figure: "p99Ratio", atMost: 1 }
  ],
  open: () =>
    Effect.gen(function* () {
      const { setting, settings } = yield* openDatabase
      const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
      yield* migrateBoth(settings)
      yield* runPlainly(inSchema, admissionRows(cycleProjects))
      yield* runPlainly(inSchema, freshReceipts)
      yield* prepareGraphileWorker(settings)
      const peer = graphileDispatch(settings)
      return {
        contenders: [
          plainDispatch(inSchema),
          productDispatch(inSchema, peer.p99Millis),
          peer.contender,
          racingDispatch(inSchema)
        ],
        leftOut: [],
        setting
      }
    })
}
