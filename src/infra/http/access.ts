/**
 * What every handler does first: finds the Project that the path names among those that the caller may see. One that
 * the caller may not see is answered like one that does not exist. Whether the caller may also write is decided by
 * the programs, in their own transactions. Source: SP-HTTP-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type Project, ProjectNotFound, ProjectStore } from "../../domain/host/ProjectStore.ts"
import { CurrentCaller } from "./Api.ts"
import type { ApiError } from "./ApiErrors.ts"
import { answerOf, type Refusal } from "./refusals.ts"

/** Turns every refusal and failure of a domain program into the API's error body. */
export const answering = <A, E extends Refusal | ApiError, R>(
  program: Effect.Effect<A, E, R>
): Effect.Effect<A, ApiError, R> => Effect.mapError(program, answerOf)

/** The Project of that name or id, or a 404. */
export const resolveProject = Effect.fnUntraced(function* (reference: string) {
  const caller = yield* CurrentCaller
  const store = yield* ProjectStore
  const found = yield* answering(store.find(caller, reference))
  if (Option.isNone(found)) return yield* answerOf(new ProjectNotFound({ project: reference }))
  const project: Project = found.value
  return project
})
