/**
 * What the node's API answers to a refusal or failure: the codes of the registry's specification and no others, each
 * with its HTTP status. ONE table, by the code of the domain; one that is not in it is our mistake and tells nothing.
 * Pure. Source: RG figures (refusal codes).
 */
import * as Effect from "effect/Effect"
import type * as HttpApiError from "effect/http-api/HttpApiError"
import * as Schema from "effect/Schema"
import {
  type ApiError,
  apiErrorOf,
  type ErrorStatus,
  Internal,
  InvalidRequest,
  isApiError
} from "../ApiErrors.ts"
import { refusedFields } from "../middleware.ts"
import { detailsOf, internalError, type Refusal } from "../refusals.ts"

export const NodeCode = Schema.Literals([
  "INVALID_REQUEST",
  "UNAUTHORIZED",
  "SANDBOX_NOT_FOUND",
  "INVALID_SANDBOX_STATE",
  "SANDBOX_EXPIRED",
  "CAPACITY_EXCEEDED",
  "SANDBOX_CREATE_FAILED",
  "NOT_SUPPORTED",
  "STORAGE_UNAVAILABLE",
  "RUNTIME_UNAVAILABLE",
  "ENDPOINT_UNAVAILABLE",
  "IDEMPOTENCY_CONFLICT"
])
export type NodeCode = typeof NodeCode.Type

const statuses: { readonly [C in NodeCode]: ErrorStatus } = {
  INVALID_REQUEST: 400,
  UNAUTHORIZED: 403,
  SANDBOX_NOT_FOUND: 404,
  INVALID_SANDBOX_STATE: 409,
  SANDBOX_EXPIRED: 409,
  CAPACITY_EXCEEDED: 409,
  SANDBOX_CREATE_FAILED: 503,
  NOT_SUPPORTED: 422,
  STORAGE_UNAVAILABLE: 503,
  RUNTIME_UNAVAILABLE: 503,
  ENDPOINT_UNAVAILABLE: 503,
  IDEMPOTENCY_CONFLICT: 409
}

/** The code of each refusal and failure that a program of the node can answer with. */
export const nodeCodes: ReadonlyMap<string, NodeCode> = new Map([
  ["invalid_request", "INVALID_REQUEST"],
  ["guest_spec_refused", "INVALID_REQUEST"],
  ["access_refused", "UNAUTHORIZED"],
  ["sandbox_not_found", "SANDBOX_NOT_FOUND"],
  ["invalid_sandbox_state", "INVALID_SANDBOX_STATE"],
  ["invalid_guest_state", "INVALID_SANDBOX_STATE"],
  ["sandbox_id_taken", "INVALID_SANDBOX_STATE"],
  ["absence_not_proved", "INVALID_SANDBOX_STATE"],
  ["sandbox_expired", "SANDBOX_EXPIRED"],
  ["capacity_exceeded", "CAPACITY_EXCEEDED"],
  ["registry_full", "CAPACITY_EXCEEDED"],
  ["sandbox_create_failed", "SANDBOX_CREATE_FAILED"],
  ["not_supported", "NOT_SUPPORTED"],
  ["storage_unavailable", "STORAGE_UNAVAILABLE"],
  ["registry_write_failed", "STORAGE_UNAVAILABLE"],
  ["run_state_failure", "STORAGE_UNAVAILABLE"],
  ["guest_failure", "RUNTIME_UNAVAILABLE"],
  ["endpoint_unavailable", "ENDPOINT_UNAVAILABLE"],
  ["idempotency_conflict", "IDEMPOTENCY_CONFLICT"]
])

/** Our own mistake, in the words of this API. */
const ownMistake = (): Internal =>
  new Internal({ code: "RUNTIME_UNAVAILABLE", message: internalError().message, details: {} })

/** The error body of a refusal: its own sentence, and the fields that the table of all refusals lets through. */
export const nodeAnswerOf = (refusal: Refusal | ApiError): ApiError => {
  if (isApiError(refusal)) return refusal
  const code = nodeCodes.get(refusal.code)
  if (code === undefined) return ownMistake()
  return apiErrorOf(statuses[code], { code, message: refusal.message, details: detailsOf(refusal) })
}

/** Turns every refusal and failure of a program of the node into the error body of this API. */
export const nodeAnswering = <A, E extends Refusal | ApiError, R>(
  program: Effect.Effect<A, E, R>
): Effect.Effect<A, ApiError, R> => Effect.mapError(program, nodeAnswerOf)

/** A request that the schemas refuse is the caller's fault, and told by its fields; an answer that they refuse is ours. */
export const nodeSchemaAnswer = (error: HttpApiError.HttpApiSchemaError): ApiError => {
  if (error.kind === "Body" || error.kind === "ResponseHeaders") return ownMistake()
  const fields = refusedFields(error)
  const told = fields.map(([field, why]) => (field === "" ? `the body: ${why}` : `${field}: ${why}`))
  return new InvalidRequest({
    code: "INVALID_REQUEST",
    message: `the request is refused: ${told.join("; ")}`,
    details: { fields: fields.map(([field]) => field) }
  })
}
