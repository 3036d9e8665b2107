/**
 * One step of a durable program with the observer's hook before and after it, so that a test can stop, fail or kill
 * the process at each of them.
 */
import * as Effect from "effect/Effect"
import { nobody, StepObserver } from "../StepObserver.ts"

export const observeStep = <A, E, R>(
  program: string,
  step: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(StepObserver, (observer) =>
    observer === nobody
      ? effect
      : Effect.gen(function* () {
          yield* observer.before(program, step)
          const answer = yield* effect
          yield* observer.after(program, step)
          return answer
        })
  )
