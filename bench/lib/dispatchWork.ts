/**
 * The pace of P5: a request every so many milliseconds, timed until its operation is at work; the next one waits for
 * neither its end nor its settlement.
 */
import * as Effect from "effect/Effect"
import type { Figures, Load } from "./definition.ts"
import { percentile } from "./statistics.ts"

const millisBetween = 10

/** Latencies of what was done at that pace, from the end of the warm-up on. */
export const paced = <E, R>(
  load: Load,
  operation: Effect.Effect<number, E, R>
): Effect.Effect<{ readonly millis: ReadonlyArray<number>; readonly all: number }, E, R> =>
  Effect.gen(function* () {
    const begun = performance.now()
    const warm = begun + load.warmUpSeconds * 1_000
    const end = warm + load.seconds * 1_000
    const millis: Array<number> = []
    let all = 0
    for (let due = begun; due < end; due += millisBetween) {
      yield* Effect.sleep(Math.max(0, due - performance.now()))
      const taken = yield* operation
      all += 1
      if (due >= warm) millis.push(taken)
    }
    return { millis, all }
  })

export const latencyFigures = (millis: ReadonlyArray<number>, all: number): Figures => ({
  operationsAll: all,
  p50Millis: percentile(millis, 0.5),
  p99Millis: percentile(millis, 0.99)
})
