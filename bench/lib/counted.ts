/** What a run says of itself, kept for the check of what it left behind. */
import * as Effect from "effect/Effect"
import type { Contender } from "./definition.ts"

/** A contender whose check is told how many operations the run has made, those of the warm-up among them. */
export const counted = (
  name: string,
  run: Contender["run"],
  check: (all: number) => Contender["check"]
): Contender => {
  // A run that does not say is never found whole.
  let all = Number.NaN
  return {
    name,
    run: (load, round) =>
      Effect.tap(run(load, round), (figures) =>
        Effect.sync(() => void (all = figures["operationsAll"] ?? Number.NaN))
      ),
    check: Effect.suspend(() => check(all))
  }
}
