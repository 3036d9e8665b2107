/** P1: one durable admission through the product's layers, beside the leanest call of the same rules. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema, productAdmission } from "../lib/admission.ts"
import { admissionRows, pgbenchCall, plainCall, projectsFor } from "../lib/admissionWork.ts"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { diskDirectory } from "../lib/disk.ts"
import { graphileWorker, prepareGraphileWorker } from "../lib/graphileWorker.ts"
import { pgBoss, preparePgBoss } from "../lib/pgBoss.ts"
import { hasPgbench } from "../lib/pgbench.ts"
import { runPlainly } from "../lib/plainPg.ts"

export const enqueue: Suite = {
  id: "P1",
  title: "enqueue",
  what: "Active Project, access, runtime lock, insert, commit: one round trip. The ceiling calls the same SQL function and does not look at the answer.",
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "clientCpuMicros"],
  baseline: "pg, one call",
  workers: [1, 4, 16],
  targets: [
    { contender: "admitOperation", ratioAtLeast: 0.95 },
    { contender: "admitOperation", ratioAtLeast: 6, to: "graphile-worker, addJob" },
    { contender: "admitOperation", ratioAtLeast: 5, to: "pg-boss, send" }
  ],
  open: ({ seconds }) =>
    Effect.gen(function* () {
      const { settings, setting } = yield* openDatabase
      const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
      yield* migrateBoth(settings)
      yield* runPlainly(inSchema, admissionRows(projectsFor(seconds)))
      yield* prepareGraphileWorker(settings)
      yield* preparePgBoss(settings)
      const directory = yield* diskDirectory
      return {
        contenders: [
          plainCall(inSchema),
          productAdmission(inSchema),
          graphileWorker(settings),
          pgBoss(settings),
          ...(hasPgbench() ? [pgbenchCall(inSchema, directory)] : [])
        ],
        leftOut: hasPgbench() ? [] : [{ name: "pgbench, one call, cold", why: "pgbench is not installed" }],
        setting
      }
    })
}
