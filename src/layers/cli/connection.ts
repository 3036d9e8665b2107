/**
 * One connection of a verb to the daemon: makes the client for the socket that the flags name and translates every
 * error of it. Nothing is sent before the verb's first call.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { ApiClient, layer } from "../../infra/http/apiClient.ts"
import { layer as layerNode, NodeClient } from "../../infra/http/node/nodeClient.ts"
import type { CliFailure, ClientError } from "./Failure.ts"
import { ofClientError } from "./Failure.ts"

export type Client = ApiClient["Service"]

/** Where a verb connects to, as the shared flags name it. */
export interface Target {
  readonly socketPath: string
}

export interface ConnectionOf<Client> {
  readonly client: Client
  readonly call: <A, R>(call: Effect.Effect<A, ClientError, R>) => Effect.Effect<A, CliFailure, R>
  readonly stream: <A, R>(stream: Stream.Stream<A, ClientError, R>) => Stream.Stream<A, CliFailure, R>
}

export type Connection = ConnectionOf<Client>
export type NodeConnection = ConnectionOf<NodeClient["Service"]>

const connecting =
  <I, Client>(key: Context.Key<I, Client>, clientOf: (socketPath: string) => Layer.Layer<I>) =>
  <A, E, R>(
    target: Target,
    verb: (connection: ConnectionOf<Client>) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, R> => {
    const translate = ofClientError(target.socketPath)
    // The scope is the connection's own, and a verb that asks for one gets it; only the types cannot tell the two apart.
    return Effect.scoped(
      Effect.gen(function* () {
        const context = yield* Layer.build(clientOf(target.socketPath))
        return yield* verb({
          client: yield* Effect.provideContext(key, context),
          call: (call) => Effect.mapError(call, translate),
          stream: (stream) => Stream.mapError(stream, translate)
        })
      })
    ) as Effect.Effect<A, E, R>
  }

/** Runs the verb with a connection that is closed after it. */
export const connected = connecting(ApiClient, layer)

/** The same, to the node's API. */
export const connectedToNode = connecting(NodeClient, layerNode)
