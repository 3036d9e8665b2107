/** The node's API with its handlers, as routes below /node for the socket server. Its ports and terms remain open. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as Layer from "effect/Layer"
import { openToLayers } from "../handlers.ts"
import { NodeApi, NodeDecoded } from "./NodeApi.ts"
import { layerNode, layerSandboxes } from "./nodeHandlers.ts"
import { nodeSchemaAnswer } from "./nodeRefusals.ts"

const layerDecoded: Layer.Layer<NodeDecoded> = HttpApiMiddleware.layerSchemaErrorTransform(
  NodeDecoded,
  (error, { endpoint, group }) =>
    Effect.andThen(
      error.kind === "Body" || error.kind === "ResponseHeaders"
        ? Effect.logError(
            `the answer of ${group.identifier}.${endpoint.identifier} does not fit its own schema`
          )
        : Effect.void,
      Effect.fail(nodeSchemaAnswer(error))
    )
)

/** Routes of both groups and of the OpenAPI document. Needs `NodeTerms` and the ports of the registry's programs. */
export const layerNodeRoutes = openToLayers(
  HttpApiBuilder.layer(NodeApi, { openapiPath: "/node/openapi.json" }).pipe(
    Layer.provide(Layer.mergeAll(layerNode, layerSandboxes)),
    Layer.provide(layerDecoded)
  )
)
