/**
 * Spans over what may fail with an error of a provider's own. The error goes to the caller and its text nowhere else, so
 * the span ends well and says in a word of ours that what it covers did not. Source: FC-21, RL-TRACE-01.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { whereKept } from "../KeptSpan.ts"

/** What a span may say. */
export interface SpanFields {
  readonly tenant: string
  readonly environment: string | null
  readonly lease?: string
  readonly provider?: string | null
  readonly run?: string | null
  readonly driver?: string
}

const noting =
  (name: string, attributes: SpanFields) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.result(effect).pipe(
      Effect.tap((ended) =>
        Effect.annotateCurrentSpan("outcome", Result.isSuccess(ended) ? "done" : "failed")
      ),
      Effect.withSpan(name, { attributes: { ...attributes } }, { captureStackTrace: false }),
      Effect.flatMap((ended) => Effect.fromResult(ended))
    )

export const quietSpan =
  (name: string, attributes: SpanFields) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    whereKept<A, E, R>(noting(name, attributes))(effect)
