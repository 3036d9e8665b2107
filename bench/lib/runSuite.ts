/**
 * Runs the contenders of a suite side by side in one process tree: a discarded round first, then as many as asked,
 * with the order turned by one each round, so that no contender always follows the same other. What a run leaves
 * behind is checked after it; a failed check voids the figure, and a void figure counts for nothing.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { loadavg } from "node:os"
import type { Contender, Figures, LeftOut, RunOptions, Suite, Target } from "./definition.ts"
import { ratioOf, type Spread, spreadOf } from "./statistics.ts"

/** One run of one contender. `void` says why its figures do not count. */
export interface Run {
  readonly round: number
  readonly workers: number
  readonly contender: string
  readonly figures: Figures
  readonly void: ReadonlyArray<string>
}

/** One row of the table: a contender under one load, over all rounds. */
export interface Row {
  readonly workers: number
  readonly contender: string
  /** Median over the rounds, figure by figure. */
  readonly figures: Figures
  /** Ratio to the baseline of the same round, above 1 is better. Not finite where either is void. */
  readonly ratio: Spread
  readonly rounds: number
  readonly void: ReadonlyArray<string>
}

export interface Verdict {
  readonly target: string
  readonly workers: number
  readonly value: Spread
  /** Null: a contender that the target is about was left out. */
  readonly met: boolean | null
}

export interface SuiteResult {
  readonly suite: string
  readonly title: string
  readonly setting: Readonly<Record<string, string>>
  readonly leftOut: ReadonlyArray<LeftOut>
  readonly rows: ReadonlyArray<Row>
  readonly verdicts: ReadonlyArray<Verdict>
  readonly runs: ReadonlyArray<Run>
  readonly load: readonly [before: number, after: number]
}

/** Items in an order that begins one later each round. */
export const rotated = <A>(items: ReadonlyArray<A>, round: number): ReadonlyArray<A> =>
  items.map((_, at) => items[(at + round) % items.length]!)

const sentenceOf = (cause: Cause.Cause<unknown>): string => {
  const failure = Cause.squash(cause)
  return failure instanceof Error ? failure.message : String(failure)
}

/** Runs a contender once and checks what it left. Never fails: what goes wrong voids the run. */
const runOnce = (
  contender: Contender,
  workers: number,
  round: number,
  options: RunOptions
): Effect.Effect<Run> =>
  Effect.gen(function* () {
    const load = { workers, seconds: options.seconds, warmUpSeconds: options.seconds / 4 }
    const ran = yield* Effect.exit(Effect.scoped(contender.run(load, round)))
    const left = yield* Effect.exit(Effect.scoped(contender.check))
    const wrong = [
      ...(Exit.isFailure(ran) ? [`the run failed: ${sentenceOf(ran.cause)}`] : []),
      ...(Exit.isFailure(left) ? [`the check failed: ${sentenceOf(left.cause)}`] : left.value)
    ]
    const figures = Exit.isSuccess(ran) ? ran.value : {}
    return { round, workers, contender: contender.name, figures, void: wrong }
  })

const figureOf = (
  runs: ReadonlyArray<Run>,
  suite: Suite,
  contender: string,
  workers: number,
  round: number
): number => {
  const run = runs.find(
    (one) => one.contender === contender && one.workers === workers && one.round === round
  )
  return run === undefined || run.void.length > 0
    ? Number.NaN
    : (run.figures[suite.figure.name] ?? Number.NaN)
}

const ratiosOf = (
  runs: ReadonlyArray<Run>,
  suite: Suite,
  pair: { readonly contender: string; readonly to: string; readonly workers: number }
): ReadonlyArray<number> =>
  [...new Set(runs.map((run) => run.round))].map((round) =>
    ratioOf(
      figureOf(runs, suite, pair.contender, pair.workers, round),
      figureOf(runs, suite, pair.to, pair.workers, round),
      suite.figure.better
    )
  )

const mediansOf = (runs: ReadonlyArray<Run>): Figures => {
  const names = new Set(runs.flatMap((run) => Object.keys(run.figures)))
  return Object.fromEntries(
    [...names].map((name) => [name, spreadOf(runs.map((run) => run.figures[name] ?? Number.NaN)).median])
  )
}

/** The table of all counted runs. Runs that are void keep their place and lose their figures. */
export const rowsOf = (
  suite: Suite,
  contenders: ReadonlyArray<string>,
  runs: ReadonlyArray<Run>
): ReadonlyArray<Row> =>
  suite.workers.flatMap((workers) =>
    contenders.map((contender) => {
      const own = runs.filter((run) => run.contender === contender && run.workers === workers)
      const valid = own.filter((run) => run.void.length === 0)
      return {
        workers,
        contender,
        figures: mediansOf(valid),
        ratio: spreadOf(ratiosOf(runs, suite, { contender, to: suite.baseline, workers })),
        rounds: valid.length,
        void: [...new Set(own.flatMap((run) => run.void))]
      }
    })
  )

const describeTarget = (suite: Suite, target: Target): string =>
  "ratioAtLeast" in target
    ? `${target.contender} >= ${target.ratioAtLeast} x ${target.to ?? suite.baseline}`
    : `${target.contender} ${target.figure} <= ${target.atMost}`

/** Whether each target was met, load by load. A target whose figure is void is missed. */
export const verdictsOf = (
  suite: Suite,
  contenders: ReadonlyArray<string>,
  runs: ReadonlyArray<Run>
): ReadonlyArray<Verdict> =>
  suite.targets.flatMap((target) =>
    (target.workers ?? suite.workers).map((workers) => {
      const own = runs.filter((run) => run.contender === target.contender && run.workers === workers)
      const value =
        "ratioAtLeast" in target
          ? spreadOf(
              ratiosOf(runs, suite, { contender: target.contender, to: target.to ?? suite.baseline, workers })
            )
          : spreadOf(
              own
                .filter((run) => run.void.length === 0)
                .map((run) => run.figures[target.figure] ?? Number.NaN)
            )
      const met =
        "ratioAtLeast" in target ? value.median >= target.ratioAtLeast : value.median <= target.atMost
      const needed =
        "ratioAtLeast" in target ? [target.contender, target.to ?? suite.baseline] : [target.contender]
      const judged = needed.every((name) => contenders.includes(name))
      return { target: describeTarget(suite, target), workers, value, met: judged ? met : null }
    })
  )

/** Sets the stage, runs everything and takes the stage down. Fails only where the stage cannot be set. */
export const runSuite = (
  suite: Suite,
  options: RunOptions,
  tell: (line: string) => void
): Effect.Effect<SuiteResult, unknown> =>
  Effect.gen(function* () {
    const before = loadavg()[0]!
    const stage = yield* suite.open(options)
    const runs: Array<Run> = []
    for (let round = -1; round < options.rounds; round++) {
      tell(round < 0 ? `${suite.id}: warm-up` : `${suite.id}: round ${round + 1} of ${options.rounds}`)
      for (const workers of suite.workers) {
        for (const contender of rotated(stage.contenders, Math.max(round, 0))) {
          const run = yield* runOnce(contender, workers, round, options)
          // A void warm-up is kept, since what it left behind is as wrong as after any other round.
          if (round >= 0 || run.void.length > 0) runs.push(run)
        }
      }
    }
    const names = stage.contenders.map(({ name }) => name)
    return {
      suite: suite.id,
      title: suite.title,
      setting: stage.setting,
      leftOut: stage.leftOut,
      rows: rowsOf(suite, names, runs),
      verdicts: verdictsOf(suite, names, runs),
      runs,
      load: [before, loadavg()[0]!] as const
    }
  }).pipe(Effect.scoped)
