/**
 * What the newest pass of each sweep came to, in memory: how much it attempted, how much of it was done, and how much
 * failed. A sweep never reports a success that it did not see: a pass that fails, or that dies of a mistake of ours, is
 * a failed one, and the loop goes on. Health and the gauge `holdfast_sweep_failed` are told from here. Source: FC-05.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"

/** Rows of one pass. Those that were left to somebody else are not attempted. */
export interface SweepCount {
  readonly attempted: number
  readonly done: number
  readonly failed: number
}

export interface SweepReport extends SweepCount {
  readonly sweep: string
  /** Why the pass itself failed; null when it came to its end. */
  readonly why: string | null
  readonly atMillis: number
}

/** Sweeps of a node's own registry, which it has without a database too. */
export const nodeSweeps = { sandboxes: "sandboxes", expired: "expired sandboxes" } as const

/** Nothing of the pass succeeded, and something of it failed. */
export const isWhollyFailed = ({ done, failed }: SweepCount): boolean => failed > 0 && done === 0

/** All of a pass that does not tell its rows apart. */
export const allDone = (rows: number): SweepCount => ({ attempted: rows, done: rows, failed: 0 })

/** A report in the words of people. */
export const reportText = ({ attempted, done, failed, why }: Omit<SweepReport, "atMillis">): string =>
  why === null ? `attempted ${attempted}, done ${done}, failed ${failed}` : `the pass failed: ${why}`

export class SweepReports extends Context.Service<
  SweepReports,
  {
    readonly note: (report: Omit<SweepReport, "atMillis">) => Effect.Effect<void>
    /** The newest report of each sweep, in the order in which they first ran. */
    readonly all: Effect.Effect<ReadonlyArray<SweepReport>>
  }
>()("holdfast/domain/SweepReports") {
  static readonly layer: Layer.Layer<SweepReports> = Layer.sync(SweepReports, () => {
    const newest = new Map<string, SweepReport>()
    return {
      note: Effect.fnUntraced(function* (report) {
        newest.set(report.sweep, { ...report, atMillis: yield* Clock.currentTimeMillis })
        const gauge = Metric.gauge("holdfast_sweep_failed", {
          description: "Rows that the newest pass of a sweep failed at",
          attributes: { sweep: report.sweep }
        })
        yield* Metric.update(gauge, report.failed)
      }),
      all: Effect.sync(() => [...newest.values()])
    }
  })
}

/** What fails as it did the last time is not logged again: a sweep of every second would say nothing else. */
const ended = Effect.fnUntraced(function* (report: Omit<SweepReport, "atMillis">) {
  const { all, note } = yield* SweepReports
  const before = (yield* all).find(({ sweep }) => sweep === report.sweep)
  yield* note(report)
  const { sweep, why } = report
  const isNews = before === undefined || reportText(before) !== reportText(report)
  if (isNews && why !== null) {
    yield* Effect.logWarning(`the sweep of ${sweep} failed and will be tried again: ${why}`)
  } else if (isNews && isWhollyFailed(report)) {
    yield* Effect.logWarning(`the sweep of ${sweep}: ${reportText(report)}`)
  }
  return why === null
})

/**
 * Runs one pass and notes what it came to; answers whether it came to its end. Never fails: the next pass makes up for
 * this one. An interruption goes through.
 */
export const reportSweep = <E extends { readonly message: string }, R>(
  sweep: string,
  pass: Effect.Effect<SweepCount, E, R>
): Effect.Effect<boolean, never, R | SweepReports> => {
  const failedBecause = (why: string) => ended({ sweep, attempted: 1, done: 0, failed: 1, why })
  return pass.pipe(
    Effect.flatMap((count) => ended({ sweep, ...count, why: null })),
    Effect.catch(({ message }) => failedBecause(message)),
    Effect.catchCause((cause) =>
      Cause.hasInterrupts(cause)
        ? Effect.failCause(cause)
        : // The text of a defect may be anybody's, so only that it was one is told.
          failedBecause("the daemon met a mistake of its own")
    )
  )
}
