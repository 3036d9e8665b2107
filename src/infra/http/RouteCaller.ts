/**
 * Port: who asks at a plugin's route, from what carries the request and never from its body. None: the credentials are
 * good and belong to no account. Source: SP-HTTP-03, SP-HTTP-04.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type * as Option from "effect/Option"
import type { Caller } from "../../domain/host/Accounts.ts"
import type { ApiError } from "./ApiErrors.ts"

export class RouteCaller extends Context.Service<
  RouteCaller,
  Effect.Effect<Option.Option<Caller>, ApiError, HttpServerRequest>
>()("holdfast/infra/http/RouteCaller") {}
