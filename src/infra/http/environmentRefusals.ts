/**
 * Errors of the environment runtime as the API answers them: those that the table of refusals knows are told as they are,
 * and every other one is a provider's, of which nothing is repeated.
 */
import * as Effect from "effect/Effect"
import { providerFailure } from "../../domain/runLeases/providerFailure.ts"
import type { ApiError } from "./ApiErrors.ts"
import { answerOf, type Refusal, refusalTable } from "./refusals.ts"

const isKnown = (error: unknown): error is Refusal =>
  error instanceof Error &&
  "code" in error &&
  typeof error.code === "string" &&
  Object.hasOwn(refusalTable, error.code)

export const refusalOfRuntime = (error: unknown): Refusal => (isKnown(error) ? error : providerFailure(error))

/** Turns every failure of a program about environments into the API's error body. */
export const answeringRuntime = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, ApiError, R> =>
  Effect.mapError(program, (error) => answerOf(refusalOfRuntime(error)))
