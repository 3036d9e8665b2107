/** P16: what the two database handles cost, beside plain `pg` and beside the client's own transactions. */
import * as Effect from "effect/Effect"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { composedTransactions, pipelinedTransactions } from "../lib/handles.ts"
import { runPlainly } from "../lib/plainPg.ts"
import {
  bareConnections,
  clientTransactions,
  plainFiveWaits,
  transactionSchema
} from "../lib/transactionWork.ts"

export const pluginDb: Suite = {
  id: "P16",
  title: "PluginDb transaction",
  what: "BEGIN, lock a Project's row, lock its runtime, insert an operation, COMMIT; each worker has rows of its own.",
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "clientCpuMicros"],
  baseline: "pg, five waits",
  workers: [1, 4, 16],
  targets: [
    { contender: "PluginDb.transaction", ratioAtLeast: 1.05 },
    { contender: "PluginDb.transaction", ratioAtLeast: 1.3, to: "sql.withTransaction" },
    { contender: "PluginDb.pipelined", ratioAtLeast: 1.4 }
  ],
  open: () =>
    Effect.gen(function* () {
      const { settings, setting } = yield* openDatabase
      yield* runPlainly(settings, transactionSchema)
      return {
        contenders: [
          plainFiveWaits(settings),
          composedTransactions(settings),
          pipelinedTransactions(settings),
          clientTransactions(settings),
          bareConnections(settings)
        ],
        leftOut: [],
        setting
      }
    })
}
