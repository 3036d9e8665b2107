/**
 * The trace that a run belongs to. What runs inside a run parent scope hands its context to providers, and the release
 * of what was executed on later runs under the same one. Source: RL-TRACE-01, RL-TRACE-02, RL-EXEC-02.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** A parent span of W3C trace context: 32 and 16 lower-case hex digits, not all zero; flags 0 to 255. */
export interface ParentContext {
  readonly traceId: string
  readonly spanId: string
  readonly traceFlags: number
}

/** The active step of this fiber, or null outside every run. */
export const ActiveStepContext = Context.Reference<{ readonly parentContext: ParentContext } | null>(
  "holdfast/domain/runLeases/RunParent/ActiveStepContext",
  { defaultValue: () => null }
)

/** Runs the effect as part of the run. The object itself is handed on, not a copy. */
export const withRunParent =
  (parentContext: ParentContext) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.provideService(effect, ActiveStepContext, { parentContext })

/** The header `traceparent` of W3C trace context, version 00. */
export const traceparentOf = ({ spanId, traceFlags, traceId }: ParentContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`
