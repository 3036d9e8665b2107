/**
 * Serves the routes that plugins have registered with the host, below /plugins/. It stands before the API's own router,
 * which would merge slashes, lower the case and decode twice: a path is matched as it was sent. What a route answers is
 * the plugin's business; a path that nobody registered is a 404 before anything is asked of anybody. Source:
 * SP-HTTP-01, SP-HTTP-02, SP-HTTP-04.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { type Match, type RouteHandler, Routes } from "../../domain/host/Routes.ts"
import { type ApiError, Forbidden, InvalidRequest, isApiError, NotFound, statusOfError } from "./ApiErrors.ts"
import { withErrorBodies } from "./middleware.ts"
import { answerOf } from "./refusals.ts"
import { RouteCaller } from "./RouteCaller.ts"

const base = "/plugins/"

/** The path of a request target as it was sent: no query, no authority, nothing decoded. */
export const rawPathOf = (target: string): string =>
  target.replace(/^https?:\/\/[^/?#]*/i, "").split(/[?#]/, 1)[0] ?? ""

const nothingThere = () =>
  new NotFound({ code: "not_found", message: "no plugin serves this path and method", details: {} })

const accountRequired = () =>
  new Forbidden({
    code: "account_required",
    message: "these credentials belong to no account: ask an administrator for one",
    details: {}
  })

const parsedBody = (text: string): Result.Result<unknown, ApiError> => {
  if (text === "") return Result.succeed(undefined)
  try {
    return Result.succeed(JSON.parse(text))
  } catch {
    return Result.fail(
      new InvalidRequest({ code: "invalid_request", message: "the request's body is no JSON", details: {} })
    )
  }
}

const refused = (error: ApiError): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.jsonUnsafe(
    { code: error.code, message: error.message, details: error.details },
    { status: statusOfError(error) }
  )

const answer = Effect.fnUntraced(function* ({ parameters, route }: Match<RouteHandler>) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const caller = yield* yield* RouteCaller
  if (Option.isNone(caller)) return yield* accountRequired()
  const text = request.method === "GET" ? "" : yield* request.text
  const body = yield* Effect.fromResult(parsedBody(text))
  return yield* Effect.mapError(route.handler({ caller: caller.value, parameters, body }), answerOf)
})

/** The answer to a request below /plugins/. */
const serve = Effect.fnUntraced(
  function* (path: string) {
    const request = yield* HttpServerRequest.HttpServerRequest
    const matched = (yield* Routes).match(request.method, path)
    if (Option.isNone(matched)) return refused(nothingThere())
    return yield* answer(matched.value).pipe(
      Effect.map((found) => HttpServerResponse.jsonUnsafe(found)),
      Effect.catchIf(isApiError, (error) => Effect.succeed(refused(error)))
    )
  },
  withErrorBodies,
  // Every failure has become an answer there; what is left of the type cannot come about.
  Effect.orDie
)

/** Puts the plugins' routes before those of the API. */
export const layerPluginRoutes = HttpRouter.middleware(
  Effect.gen(function* () {
    const context = yield* Effect.context<Routes | RouteCaller>()
    return (app) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
        const path = rawPathOf(NodeHttpServerRequest.toIncomingMessage(request).url ?? "")
        return path.startsWith(base) ? Effect.provideContext(serve(path), context) : app
      })
  }),
  { global: true }
)
