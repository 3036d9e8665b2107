/**
 * The error bodies of the API: one class for each HTTP status, all with the same three fields. `code` is stable
 * and for programs, `message` is one sentence for people, `details` holds ids and figures. Which refusal becomes
 * which of them is told by refusals.ts. Source: SP-HTTP-05.
 */
import * as Schema from "effect/Schema"

/** A detail: an id, a figure, or a list of names. Never a row, an environment value or a token. */
export const Detail = Schema.Union([
  Schema.String,
  Schema.Finite,
  Schema.Boolean,
  Schema.Null,
  Schema.Array(Schema.String)
])
export type Detail = typeof Detail.Type

const fields = {
  code: Schema.String,
  message: Schema.String,
  details: Schema.Record(Schema.String, Detail)
}

/** The request is not what the API takes; `message` names the field. */
export class InvalidRequest extends Schema.Error<InvalidRequest>("holdfast/InvalidRequest")(fields, {
  httpApiStatus: 400
}) {}

/** The caller may not. */
export class Forbidden extends Schema.Error<Forbidden>("holdfast/Forbidden")(fields, {
  httpApiStatus: 403
}) {}

/** The thing that the path names does not exist. */
export class NotFound extends Schema.Error<NotFound>("holdfast/NotFound")(fields, { httpApiStatus: 404 }) {}

/** The state of the thing does not allow the request now. */
export class Conflict extends Schema.Error<Conflict>("holdfast/Conflict")(fields, { httpApiStatus: 409 }) {}

/** The request is well formed and asks for something that this node cannot or will not do. */
export class Unprocessable extends Schema.Error<Unprocessable>("holdfast/Unprocessable")(fields, {
  httpApiStatus: 422
}) {}

/** The daemon failed. The text is fixed: what happened is in its log only. */
export class Internal extends Schema.Error<Internal>("holdfast/Internal")(fields, { httpApiStatus: 500 }) {}

/** Something that the daemon needs is away; the same request may succeed later. */
export class Unavailable extends Schema.Error<Unavailable>("holdfast/Unavailable")(fields, {
  httpApiStatus: 503
}) {}

/** The one class of each status. */
const errorClasses = {
  400: InvalidRequest,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  422: Unprocessable,
  500: Internal,
  503: Unavailable
} as const
export type ErrorStatus = keyof typeof errorClasses

/** Every error that an endpoint answers with. */
export const apiErrors = [
  InvalidRequest,
  Forbidden,
  NotFound,
  Conflict,
  Unprocessable,
  Internal,
  Unavailable
] as const

export type ApiError = InstanceType<(typeof apiErrors)[number]>

/** Whether the value is one of the API's error bodies. */
export const isApiError = (value: unknown): value is ApiError =>
  apiErrors.some((errorClass) => value instanceof errorClass)

export interface ApiErrorBody {
  readonly code: string
  readonly message: string
  readonly details: Readonly<Record<string, Detail>>
}

export const apiErrorOf = (status: ErrorStatus, body: ApiErrorBody): ApiError =>
  new errorClasses[status](body)

/** The status that an error body is answered with. */
export const statusOfError = (error: ApiError): ErrorStatus => {
  const found = Object.entries(errorClasses).find(([, errorClass]) => error instanceof errorClass)
  if (found === undefined) throw new Error("an error of the API is of no class of the API")
  return Number(found[0]) as ErrorStatus
}
