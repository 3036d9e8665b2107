/**
 * The typed client of the API over the daemon's UNIX socket. It knows nothing of exit codes or of people: the CLI
 * and library consumers give its errors a meaning.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import * as Layer from "effect/Layer"
import { Api } from "./Api.ts"

export class ApiClient extends Context.Service<ApiClient, HttpApiClient.ForApi<typeof Api>>()(
  "holdfast/infra/http/apiClient/ApiClient"
) {}

/** A client of the daemon that listens at the path. Connects at the first call; interrupting a call hangs up. */
export const layer = (socketPath: string): Layer.Layer<ApiClient> =>
  Layer.effect(
    ApiClient,
    Effect.map(HttpApiClient.make(Api, { baseUrl: "http://localhost" }), (client) => ApiClient.of(client))
  ).pipe(Layer.provide(NodeHttpClient.layerNodeHttpOptions({ socketPath })))
