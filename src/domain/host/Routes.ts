/**
 * The host's registry of plugin routes: a pattern is matched as a whole, each segment of a path is decoded exactly
 * once, and matching does no I/O. Which request becomes which match, and what a refusal looks like on the wire, is
 * left to the HTTP adapter. Source: SP-HTTP-01, SP-HTTP-02.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Caller } from "./Accounts.ts"

export const RouteMethod = Schema.Literals(["GET", "POST", "PUT", "DELETE"])
export type RouteMethod = typeof RouteMethod.Type

/**
 * Segments joined by `/`: plain lower-case words, or `:name` for a parameter. Never empty, never escaped. `:id` is met
 * by canonical ids only, any other parameter by any text that is not empty. Source: SP-HTTP-02.
 */
export const RoutePattern = Schema.String.check(
  Schema.isPattern(/^(:[a-z][A-Za-z0-9]*|[a-z0-9][a-z0-9-]*)(\/(:[a-z][A-Za-z0-9]*|[a-z0-9][a-z0-9-]*))*$/)
)
export type RoutePattern = typeof RoutePattern.Type

/** Served at `/plugins/<plugin>/api/<pattern>`. */
export interface Route<Handler> {
  readonly plugin: string
  readonly method: RouteMethod
  readonly pattern: RoutePattern
  readonly handler: Handler
}

export interface Match<Handler> {
  readonly route: Route<Handler>
  /** The parameters' values, decoded once; of `id` it is known that it is canonical. */
  readonly parameters: Readonly<Record<string, string>>
}

/** The segment as it was meant, or none for a malformed escape. */
const decodeOnce = (segment: string): Option.Option<string> => {
  try {
    return Option.some(decodeURIComponent(segment))
  } catch {
    return Option.none()
  }
}

/** A canonical positive safe integer: no sign, no leading zero, no fraction, no exponent. Source: SP-HTTP-02. */
export const canonicalId = (text: string): Option.Option<number> =>
  /^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(Number(text))
    ? Option.some(Number(text))
    : Option.none()

const meets = (parameter: string, value: string): boolean =>
  parameter === ":id" ? Option.isSome(canonicalId(value)) : value !== ""

/** The parameters of a path under a pattern, or none where it is another path. */
export const matchPattern = (
  pattern: string,
  path: string
): Option.Option<Readonly<Record<string, string>>> => {
  const wanted = pattern.split("/")
  const given = path.split("/")
  if (wanted.length !== given.length) return Option.none()
  const parameters: Record<string, string> = {}
  for (const [index, want] of wanted.entries()) {
    const decoded = decodeOnce(given[index] ?? "")
    if (Option.isNone(decoded)) return Option.none()
    if (want.startsWith(":")) {
      if (!meets(want, decoded.value)) return Option.none()
      parameters[want.slice(1)] = decoded.value
    } else if (decoded.value !== want) {
      return Option.none()
    }
  }
  return Option.some(parameters)
}

const pathOf = (route: Route<unknown>): string => `/plugins/${route.plugin}/api/${route.pattern}`

/** The pattern with its parameters unnamed: two routes that would match the same paths have the same one. */
const shapeOf = (route: Route<unknown>): string =>
  `${route.method} ${pathOf(route).replaceAll(/:[^/]+/g, ":")}`

/** A registry of routes whose handlers are of any kind. */
export const makeRoutes = <Handler>() => {
  const routes: Array<Route<Handler>> = []
  return {
    /** False when a route of this method and shape is there already; then nothing is registered. */
    register: (route: Route<Handler>): boolean => {
      const taken = routes.some((each) => shapeOf(each) === shapeOf(route))
      if (!taken) routes.push(route)
      return !taken
    },
    /** The first route, in the order of registration, that the whole path belongs to. The path carries no query. */
    match: (method: string, path: string): Option.Option<Match<Handler>> => {
      for (const route of routes) {
        if (route.method !== method) continue
        const parameters = matchPattern(pathOf(route), path)
        if (Option.isSome(parameters)) return Option.some({ route, parameters: parameters.value })
      }
      return Option.none()
    }
  }
}

/**
 * What a handler is given: who asks, by verified credentials, the decoded parameters, and the body as it was sent.
 * Credentials without an account never reach one. Source: SP-HTTP-04.
 */
export interface RouteRequest {
  readonly caller: Caller
  readonly parameters: Readonly<Record<string, string>>
  /** Parsed JSON, undefined where there was no body. The handler decodes it strictly. */
  readonly body: unknown
}

/** Answers what is sent as JSON, or refuses by a stable code. */
export type RouteHandler = (
  request: RouteRequest
) => Effect.Effect<unknown, { readonly code: string; readonly message: string }>

/** The routes of the loaded plugins. One that was never registered is matched by nothing. Source: SP-HTTP-04. */
export class Routes extends Context.Service<
  Routes,
  {
    /** A method and pattern that are registered already are a mistake of the plugin's author. */
    readonly register: (route: Route<RouteHandler>) => Effect.Effect<void>
    readonly match: (method: string, path: string) => Option.Option<Match<RouteHandler>>
  }
>()("holdfast/domain/host/Routes") {
  static readonly layer: Layer.Layer<Routes> = Layer.sync(Routes, () => {
    const routes = makeRoutes<RouteHandler>()
    return {
      register: (route) =>
        Effect.suspend(() =>
          routes.register(route)
            ? Effect.void
            : Effect.die(new Error(`route ${route.method} ${pathOf(route)} is registered twice`))
        ),
      match: routes.match
    }
  })
}
