/**
 * What a benchmark is: a suite of contenders that do the same work, the loads under which they do it, a baseline,
 * targets, and a check of what each run left behind. How they are run is told by runSuite.ts.
 */
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** How hard a contender is driven in one run. */
export interface Load {
  readonly workers: number
  readonly warmUpSeconds: number
  readonly seconds: number
}

/** Figures of one run by name, such as `perSecond` or `p50Millis`; NaN for what was not measured. */
export type Figures = Readonly<Record<string, number>>

export interface Contender {
  readonly name: string
  /** Does the work. A failure voids the run. */
  readonly run: (load: Load, round: number) => Effect.Effect<Figures, unknown, Scope.Scope>
  /** Looks at what the run left behind and says what is wrong with it, a sentence each. */
  readonly check: Effect.Effect<ReadonlyArray<string>, unknown, Scope.Scope>
}

/** A contender that this machine cannot run, and why. */
export interface LeftOut {
  readonly name: string
  readonly why: string
}

/** A target is met on the median of its rounds: a ratio to the baseline, or a figure as it is. */
export type Target = {
  readonly contender: string
  /** Loads that it is about; without them, all. */
  readonly workers?: ReadonlyArray<number>
} & (
  | { readonly ratioAtLeast: number; readonly to?: string }
  | { readonly figure: string; readonly atMost: number }
)

/** What the command line asks for. */
export interface RunOptions {
  readonly rounds: number
  readonly seconds: number
}

export interface Suite {
  readonly id: string
  readonly title: string
  /** What one operation is, and what makes the comparison fair. */
  readonly what: string
  /** The figure that ratios are taken of. */
  readonly figure: { readonly name: string; readonly better: "higher" | "lower" }
  /** Figures that are printed beside it. */
  readonly beside: ReadonlyArray<string>
  readonly baseline: string
  /** What the loads count where it is not workers, such as records or milliseconds. */
  readonly loadName?: string
  readonly workers: ReadonlyArray<number>
  readonly targets: ReadonlyArray<Target>
  /** Sets the stage; everything is taken down with the scope. */
  readonly open: (options: RunOptions) => Effect.Effect<
    {
      readonly contenders: ReadonlyArray<Contender>
      readonly leftOut: ReadonlyArray<LeftOut>
      /** What the figures depend on: versions, settings, the disk. */
      readonly setting: Readonly<Record<string, string>>
    },
    unknown,
    Scope.Scope
  >
}
