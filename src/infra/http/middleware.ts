/**
 * What stands around every handler: who asks, what the schemas refuse, and the last net under both. Whatever leaves
 * here has the API's error body; the text of a defect never does, it goes to the log.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as HttpApiError from "effect/http-api/HttpApiError"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpServerError from "effect/http/HttpServerError"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as SchemaIssue from "effect/SchemaIssue"
import { refusedFieldCharactersMax, refusedFieldsNamedMax, requestBodyBytesMax } from "../../domain/Bounds.ts"
import type { Caller } from "../../domain/host/Accounts.ts"
import { CurrentCaller, Decoded, Identified } from "./Api.ts"
import { RouteCaller } from "./RouteCaller.ts"
import { type ApiError, InvalidRequest, NotFound } from "./ApiErrors.ts"
import { internalError } from "./refusals.ts"

/**
 * Everybody who can reach the socket is the local administrator: the socket has mode 0600 and belongs to the
 * daemon's user, so the kernel has verified the caller already.
 */
export const layerLocalCaller = (caller: Caller): Layer.Layer<Identified | RouteCaller> =>
  Layer.merge(
    Layer.succeed(Identified, (handler) => Effect.provideService(handler, CurrentCaller, caller)),
    Layer.succeed(RouteCaller, Effect.succeedSome(caller))
  )

const leafText = (issue: SchemaIssue.Leaf): string => {
  switch (issue._tag) {
    case "UnexpectedKey":
      return "is not a field of this request"
    case "MissingKey":
      return "is missing"
    default:
      return SchemaIssue.defaultLeafHook(issue)
  }
}

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1({ leafHook: leafText })

/** The refused fields with what was expected of each; never what was sent. */
const fieldsOf = (issue: SchemaIssue.Issue): ReadonlyArray<readonly [string, string]> =>
  formatIssues(issue)
    .issues.slice(0, refusedFieldsNamedMax)
    .map(
      ({ path, message }) =>
        [(path ?? []).map(String).join(".").slice(0, refusedFieldCharactersMax), message] as const
    )

/** What the schema of an endpoint refused, by field. */
export const refusedFields = (
  error: HttpApiError.HttpApiSchemaError
): ReadonlyArray<readonly [string, string]> => fieldsOf(error.cause.issue)

/** The 400 that names each refused field. */
export const refusalOfIssue = (issue: SchemaIssue.Issue): ApiError => {
  const fields = fieldsOf(issue)
  const told = fields
    .map(([field, why]) => (field === "" ? `the body: ${why}` : `${field}: ${why}`))
    .join("; ")
  return new InvalidRequest({
    code: "invalid_request",
    message: `the request is refused: ${told}`,
    details: { fields: fields.map(([field]) => field) }
  })
}

const refusedRequest = (error: HttpApiError.HttpApiSchemaError): ApiError =>
  error.kind === "Params"
    ? new NotFound({ code: "not_found", message: "nothing has that name or id", details: {} })
    : refusalOfIssue(error.cause.issue)

/** A request that the schemas refuse is the caller's fault; an answer that they refuse is ours. */
export const layerDecoded: Layer.Layer<Decoded> = HttpApiMiddleware.layerSchemaErrorTransform(
  Decoded,
  (error, { endpoint, group }) =>
    error.kind === "Body" || error.kind === "ResponseHeaders"
      ? Effect.logError(
          `the answer of ${group.identifier}.${endpoint.identifier} does not fit its own schema`
        ).pipe(Effect.andThen(Effect.fail(internalError())))
      : Effect.fail(refusedRequest(error))
)

const bodyOf = (status: number, code: string, message: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.jsonUnsafe({ code, message, details: {} }, { status })

/** Codes of what fails before a handler or beneath it, in the words of the API that was asked. */
interface TransportCodes {
  readonly notFound: string
  readonly bodyTooLarge: string
  readonly invalid: string
  readonly internal: string
}

const hostCodes: TransportCodes = {
  notFound: "not_found",
  bodyTooLarge: "body_too_large",
  invalid: "invalid_request",
  internal: "internal"
}

/** The node's API has a closed list of codes. Source: RG figures (refusal codes). */
const nodeTransportCodes: TransportCodes = {
  notFound: "INVALID_REQUEST",
  bodyTooLarge: "INVALID_REQUEST",
  invalid: "INVALID_REQUEST",
  internal: "RUNTIME_UNAVAILABLE"
}

const transportCodes = Effect.map(Effect.serviceOption(HttpServerRequest.HttpServerRequest), (request) =>
  request._tag === "Some" && request.value.url.startsWith("/node/") ? nodeTransportCodes : hostCodes
)

const transportBody = (
  error: HttpServerError.HttpServerError,
  codes: TransportCodes
): HttpServerResponse.HttpServerResponse => {
  const reason = error.reason
  if (reason._tag === "RouteNotFound") {
    return bodyOf(404, codes.notFound, "the API has no such path: GET /openapi.json lists them")
  }
  if (reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge") {
    return bodyOf(413, codes.bodyTooLarge, `a request body has at most ${requestBodyBytesMax} bytes`)
  }
  if (reason._tag === "RequestParseError") {
    return bodyOf(400, codes.invalid, "the request's body could not be read")
  }
  return bodyOf(500, codes.internal, internalError().message)
}

const framesLogged = 6

/** Where a defect comes from: its name and its innermost frames. Its text may be anybody's and stays out. */
const placeOf = (defect: unknown): string => {
  if (!(defect instanceof Error)) return typeof defect
  const frames = (defect.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line))
  return [defect.name, ...frames.slice(0, framesLogged).map((line) => line.trim())].join(" ")
}

/**
 * The last net: a transport error, a defect or an undeclared failure becomes an error body. An interruption goes
 * through: the client has hung up or the daemon stops.
 */
export const withErrorBodies = <E, R>(
  app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R> =>
  Effect.catchCause(app, (cause) => {
    if (Cause.hasInterrupts(cause)) return Effect.failCause(cause)
    const squashed = Cause.squash(cause)
    return Effect.flatMap(transportCodes, (codes) =>
      HttpServerError.isHttpServerError(squashed)
        ? Effect.succeed(transportBody(squashed, codes))
        : Effect.logError(`a request failed in the daemon: ${placeOf(squashed)}`).pipe(
            Effect.as(bodyOf(500, codes.internal, internalError().message))
          )
    )
  })
