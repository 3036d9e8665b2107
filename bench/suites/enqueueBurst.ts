/** P2 and P17: admissions of many callers in one process, on the machine's disk and on one whose flushes are slow. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { migrateBoth, pluginSchema, productBurst } from "../lib/admission.ts"
import { admissionRows, plainCall, projectsFor } from "../lib/admissionWork.ts"
import { type BenchDatabase, openDatabase } from "../lib/database.ts"
import type { RunOptions, Suite } from "../lib/definition.ts"
import { runPlainly } from "../lib/plainPg.ts"
import { openSlowDatabase } from "../lib/slowDatabase.ts"

const contender = "admitOperation"

const onProjects =
  (database: Effect.Effect<BenchDatabase, unknown, Scope.Scope>) =>
  ({ seconds }: RunOptions) =>
    Effect.gen(function* () {
      const { setting, settings } = yield* database
      const inSchema = { ...settings, options: `-c search_path=${pluginSchema}` }
      yield* migrateBoth(settings)
      yield* runPlainly(inSchema, admissionRows(2 * projectsFor(seconds)))
      return { contenders: productBurst(inSchema, plainCall(inSchema)), leftOut: [], setting }
    })

const common = {
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "p99Ratio", "clientCpuMicros", "serverMicros", "walBytes"],
  baseline: "pg, one call",
  workers: [16, 64]
} as const

export const enqueueBurst: Suite = {
  ...common,
  id: "P2",
  title: "enqueue burst",
  what: "As P1, by many callers of one process on a daemon's ten connections; the ceiling has a connection for each. One contender has every sixteenth request refused.",
  targets: [
    { contender, workers: [16], ratioAtLeast: 1.3 },
    { contender, workers: [64], ratioAtLeast: 3.5 },
    { contender, figure: "p99Ratio", atMost: 2 }
  ],
  open: onProjects(openDatabase)
}

const moreMicros = 1_000

export const slowFlush: Suite = {
  ...common,
  id: "P17",
  title: "slow flush",
  what: "As P2, with every flush of the server a millisecond longer.",
  targets: [
    { contender, workers: [16], ratioAtLeast: 0.95 },
    { contender, workers: [64], ratioAtLeast: 2 }
  ],
  open: onProjects(openSlowDatabase(moreMicros))
}
