/** The typed client of the node's API over a daemon's UNIX socket, whatever else that daemon serves. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import * as Layer from "effect/Layer"
import { NodeApi } from "./NodeApi.ts"

export class NodeClient extends Context.Service<NodeClient, HttpApiClient.ForApi<typeof NodeApi>>()(
  "holdfast/infra/http/node/nodeClient/NodeClient"
) {}

/** A client of the daemon that listens at the path. Connects at the first call; interrupting a call hangs up. */
export const layer = (socketPath: string): Layer.Layer<NodeClient> =>
  Layer.effect(
    NodeClient,
    Effect.map(HttpApiClient.make(NodeApi, { baseUrl: "http://localhost" }), (client) =>
      NodeClient.of(client)
    )
  ).pipe(Layer.provide(NodeHttpClient.layerNodeHttpOptions({ socketPath })))
