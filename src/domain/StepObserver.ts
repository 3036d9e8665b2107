/**
 * Hook at the boundaries of every durable program's steps. It does nothing unless somebody looks: a test stops, fails
 * or kills the process there, at every step of every program.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

export interface StepObserverShape {
  readonly before: (program: string, step: string) => Effect.Effect<void>
  readonly after: (program: string, step: string) => Effect.Effect<void>
}

/** Nobody looks: a step goes without any of it. */
export const nobody: StepObserverShape = { before: () => Effect.void, after: () => Effect.void }

export const StepObserver = Context.Reference<StepObserverShape>("holdfast/domain/StepObserver", {
  defaultValue: () => nobody
})
