/** P10: closed minutes on their way into the history, beside rows that nothing keeps in order. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema } from "../lib/admission.ts"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { closedInsert, closedMerge, plainCopy, rawTable, rowsEach } from "../lib/ingestWork.ts"
import { runPlainly } from "../lib/plainPg.ts"

export const ingest: Suite = {
  id: "P10",
  title: "ingest",
  what: `Closed minute rows, ${rowsEach} a transaction, with the natural key, the identity and the index of expiry; the ceiling has no index and no key.`,
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "clientCpuMicros"],
  baseline: "pg, COPY without an index",
  workers: [1, 4],
  targets: [{ contender: "closed minutes", ratioAtLeast: 0.4 }],
  open: () =>
    Effect.gen(function* () {
      const { settings, setting } = yield* openDatabase
      const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
      yield* migrateBoth(settings)
      yield* runPlainly(inSchema, [rawTable])
      return {
        contenders: [plainCopy(inSchema), closedInsert(inSchema), closedMerge(inSchema)],
        leftOut: [],
        setting
      }
    })
}
