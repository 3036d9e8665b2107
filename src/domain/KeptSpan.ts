/**
 * A span that is only made where somebody may see it: for what is done often, the spans of a trace that was decided against
 * cost as much as the work. Where it is left out, what is inside goes on under the caller's span.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/** Whether the trace was decided against; a span that is only passed over decides nothing. */
export const isSampledOut = (parent: Tracer.AnySpan): boolean =>
  !parent.sampled && !Context.get(parent.annotations, Tracer.DisablePropagation)

/** What is made of the effect where its trace may be kept; elsewhere it stays as it is. */
export const whereKept =
  <A, E, R>(spanned: (effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>) =>
  (effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.contextWith((context: Context.Context<never>) => {
      const parent = Context.getOption(context, Tracer.ParentSpan)
      return Option.isSome(parent) && isSampledOut(parent.value) ? effect : spanned(effect)
    })

export const keptSpan =
  (name: string, attributes: Readonly<Record<string, unknown>> = {}) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    whereKept<A, E, R>(Effect.withSpan(name, { attributes }, { captureStackTrace: false }))(effect)
