/**
 * Entry point of the benchmarks: `npm run bench -- [suite...] [--rounds N] [--seconds S] [--strict]`. Ends with 0
 * when every figure stands, 1 when one is void, a stage could not be set, or a target was missed under `--strict`,
 * 2 on wrong usage, and 130 when it was interrupted, after everything has been taken down.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { join } from "node:path"
import { readArguments, usage } from "./lib/arguments.ts"
import type { Suite } from "./lib/definition.ts"
import { keep, linesOf } from "./lib/report.ts"
import { runSuite } from "./lib/runSuite.ts"
import { cycle } from "./suites/cycle.ts"
import { dispatch } from "./suites/dispatch.ts"
import { drain } from "./suites/drain.ts"
import { coldOpen } from "./suites/coldOpen.ts"
import { enqueue } from "./suites/enqueue.ts"
import { enqueueBurst, slowFlush } from "./suites/enqueueBurst.ts"
import { flatQueue } from "./suites/flatQueue.ts"
import { guests } from "./suites/guests.ts"
import { heartbeats, leases } from "./suites/leases.ts"
import { ingest } from "./suites/ingest.ts"
import { pluginDb } from "./suites/pluginDb.ts"
import { prune } from "./suites/prune.ts"
import { readers } from "./suites/readers.ts"
import { recordWrite } from "./suites/recordWrite.ts"
import { oneRepository, repositories } from "./suites/repositories.ts"
import { cleanups, runLeases } from "./suites/runLeases.ts"
import { samples } from "./suites/samples.ts"
import { workerCalls } from "./suites/workerCalls.ts"

const suites: ReadonlyArray<Suite> = [
  enqueue,
  enqueueBurst,
  slowFlush,
  cycle,
  drain,
  dispatch,
  flatQueue,
  recordWrite,
  coldOpen,
  readers,
  pluginDb,
  guests,
  samples,
  ingest,
  prune,
  leases,
  heartbeats,
  repositories,
  oneRepository,
  runLeases,
  cleanups,
  workerCalls
]

/** Suites that are asked for together. */
const groups: ReadonlyMap<string, ReadonlyArray<string>> = new Map([
  ["registry", ["p12", "p13", "p14"]],
  ["runs", ["p15", "p15b", "p15c"]],
  ["runtime", ["p1", "p2", "p3", "p4", "p5", "p6", "p17", "p7", "p7b", "p8", "p8b", "p9", "p10", "p11"]]
])

const resultsDirectory = join(import.meta.dirname, "results")

/** Runs one suite and answers whether it stands. */
const runAndTell = (suite: Suite, given: { rounds: number; seconds: number; strict: boolean }) =>
  Effect.gen(function* () {
    const result = yield* runSuite(suite, given, (line) => console.error(line))
    for (const line of linesOf(suite, result)) console.log(line)
    console.log(`kept in ${keep(resultsDirectory, result)}`)
    const stands = result.rows.every((row) => row.void.length === 0 && row.rounds === given.rounds)
    return stands && (!given.strict || result.verdicts.every((verdict) => verdict.met !== false))
  }).pipe(
    Effect.catchCause((cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
      console.error(`${suite.id} could not be run: ${Cause.pretty(cause)}`)
      return Effect.succeed(false)
    })
  )

const main = async (): Promise<number> => {
  const given = readArguments(process.argv.slice(2))
  if (typeof given === "string") {
    console.error(`${given}\n${usage}`)
    return 2
  }
  const asked = given.suites.flatMap((id) => groups.get(id) ?? [id])
  const strangers = asked.filter((id) => !suites.some((suite) => suite.id.toLowerCase() === id))
  if (strangers.length > 0) {
    console.error(
      `no such suite: ${strangers.join(", ")}; there are ${suites.map((suite) => suite.id).join(", ")}`
    )
    return 2
  }
  const chosen = suites.filter((suite) => asked.length === 0 || asked.includes(suite.id.toLowerCase()))
  const interruption = new AbortController()
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interruption.abort())
  const results = Effect.forEach(chosen, (suite) => runAndTell(suite, given))
  const exit = await Effect.runPromiseExit(results, { signal: interruption.signal })
  if (Exit.isFailure(exit)) return 130
  return exit.value.every((stands) => stands) ? 0 : 1
}

process.exitCode = await main()
