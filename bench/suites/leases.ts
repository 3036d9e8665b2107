/** P7: the life of an execution lease in the table, and the heartbeats of many. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema } from "../lib/admission.ts"
import { admissionRows } from "../lib/admissionWork.ts"
import { openDatabase } from "../lib/database.ts"
import type { Contender, Suite } from "../lib/definition.ts"
import { besideHistory, productHeartbeats, productLease } from "../lib/leases.ts"
import { plainHeartbeats, plainLease, workersMax } from "../lib/leaseWork.ts"
import { type PlainSettings, runPlainly } from "../lib/plainPg.ts"

/** A migrated database with a runtime for each worker, and the contenders on it. */
export const onRuntimes = (contenders: (settings: PlainSettings) => ReadonlyArray<Contender>) =>
  Effect.gen(function* () {
    const { setting, settings } = yield* openDatabase
    const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
    yield* migrateBoth(settings)
    yield* runPlainly(inSchema, admissionRows(workersMax))
    return { contenders: contenders(inSchema), leftOut: [], setting }
  })

const common = {
  figure: { name: "perSecond", better: "higher" },
  workers: [1, 4, workersMax]
} as const

export const leases: Suite = {
  ...common,
  id: "P7",
  title: "leases",
  what: "One lease is inserted, renewed once and released, a statement each. The product's insert counts the Project's leases and its heartbeat repairs and serves many; the ceiling's know one lease and repair nothing.",
  beside: ["p50Millis", "p99Millis", "p99Ratio", "clientCpuMicros"],
  baseline: "pg, three statements",
  targets: [
    { contender: "LeaseStore", ratioAtLeast: 0.95 },
    { contender: "LeaseStore, beside history", figure: "p99Ratio", atMost: 1.1 }
  ],
  open: () =>
    onRuntimes((settings) => [plainLease(settings), productLease(settings), besideHistory(settings)])
}

export const heartbeats: Suite = {
  ...common,
  id: "P7b",
  title: "heartbeats of 1,024 leases",
  what: "Each worker is a process that renews its 1,024 leases; a lease counts as one operation. Times are those of one statement.",
  beside: ["p50Millis", "p99Millis", "clientCpuMicros"],
  baseline: "pg, one by one",
  targets: [{ contender: "LeaseStore.renew, all at once", ratioAtLeast: 12 }],
  open: () => onRuntimes((settings) => [plainHeartbeats(settings), productHeartbeats(settings)])
}
