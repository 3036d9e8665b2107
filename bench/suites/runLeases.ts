/** P15: the life of a run's lease at a provider that answers at once, and the sweep of many cleanups. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema } from "../lib/admission.ts"
import { openDatabase } from "../lib/database.ts"
import type { Contender, Suite } from "../lib/definition.ts"
import { type PlainSettings, runPlainly } from "../lib/plainPg.ts"
import { productLife, productSweep } from "../lib/runLeases.ts"
import { cleanupsMax, plainLife, plainSweep, runLeaseStage } from "../lib/runLeaseWork.ts"

const batch = 100

const onStage = (contenders: (settings: PlainSettings) => ReadonlyArray<Contender>) =>
  Effect.gen(function* () {
    const { setting, settings } = yield* openDatabase
    const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
    yield* migrateBoth(settings)
    yield* runPlainly(inSchema, runLeaseStage)
    return { contenders: contenders(inSchema), leftOut: [], setting }
  })

const common = {
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "clientCpuMicros"]
} as const

export const runLeases: Suite = {
  ...common,
  beside: ["p50Millis", "p99Millis", "clientCpuMicros", "serverMicros", "walBytes"],
  id: "P15",
  title: "run leases",
  what: "A run acquires a sandbox of the provider fake and releases it, through the runtime: intent, row and end are durable writes, and the release reads the run's leases and their environment. The ceiling is four durable writes of a thin row around two calls, without the rules of binding, room, secrets, reuse and evidence.",
  baseline: "pg, four writes",
  workers: [1, 4, 16],
  targets: [{ contender: "EnvironmentRuntime", ratioAtLeast: 0.95 }],
  open: () => onStage((settings) => [plainLife(settings), productLife(settings)])
}

export const cleanups: Suite = {
  ...common,
  id: "P15b",
  title: `a sweep of ${cleanupsMax} cleanups`,
  what: "Every due cleanup is claimed, its sandbox destroyed at the provider fake, and its end written with the receipt; a cleanup is one operation. The product's rows are whole leases, each with a claim of its own, a look for other owners, a judged receipt and its evidence; those of the ceilings have an id, a claimant and a receipt.",
  baseline: "pg, one by one",
  workers: [1, 4],
  targets: [
    { contender: "sweepPendingCleanupLeases", ratioAtLeast: 15 },
    { contender: "sweepPendingCleanupLeases", ratioAtLeast: 0.95, to: `pg, batches of ${batch}` }
  ],
  open: () =>
    onStage((settings) => [plainSweep(settings, 1), plainSweep(settings, batch), productSweep(settings)])
}
