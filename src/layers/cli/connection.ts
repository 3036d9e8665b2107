/**
 * One connection of a verb to the daemon: makes the client for the socket that the flags name and translates every
 * error of it. Nothing is sent before the verb's first call.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { ApiClient, layer } from "../../infra/http/apiClient.ts"
import type { CliFailure, ClientError } from "./Failure.ts"
import { ofClientError } from "./Failure.ts"

export type Client = ApiClient["Service"]

/** Where a verb connects to, as the shared flags name it. */
export interface Target {
  readonly socketPath: string
}

export interface Connection {
  readonly client: Client
  readonly call: <A, R>(call: Effect.Effect<A, ClientError, R>) => Effect.Effect<A, CliFailure, R>
  readonly stream: <A, R>(stream: Stream.Stream<A, ClientError, R>) => Stream.Stream<A, CliFailure, R>
}

/** Runs the verb with a connection that is closed after it. */
export const connected = <A, E, R>(
  target: Target,
  verb: (connection: Connection) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, Exclude<R, ApiClient>> => {
  const translate = ofClientError(target.socketPath)
  return Effect.scoped(
    Effect.gen(function* () {
      const context = yield* Layer.build(layer(target.socketPath))
      const client = yield* Effect.provideContext(ApiClient, context)
      return yield* verb({
        client,
        call: (call) => Effect.mapError(call, translate),
        stream: (stream) => Stream.mapError(stream, translate)
      })
    })
  ) as Effect.Effect<A, E, Exclude<R, ApiClient>>
}
