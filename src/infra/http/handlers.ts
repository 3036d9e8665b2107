/**
 * The API with its handlers, as routes for the socket server. What remains open are the domain's ports and the
 * caller's identity, which layers fill.
 */
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import { Api } from "./Api.ts"
import { layer as layerDesktop } from "./desktopHandlers.ts"
import { layer as layerEnvironments } from "./environmentHandlers.ts"
import { layer as layerEnvironmentLeases } from "./environmentLeaseHandlers.ts"
import { layer as layerExecutions } from "./executionHandlers.ts"
import { layer as layerLeases } from "./leaseHandlers.ts"
import { layerDecoded } from "./middleware.ts"
import { layer as layerOperations } from "./operationHandlers.ts"
import { layer as layerProjects } from "./projectHandlers.ts"
import { layer as layerProviders } from "./providerHandlers.ts"
import { layer as layerRuns } from "./runHandlers.ts"
import { layer as layerSecrets } from "./secretHandlers.ts"
import { layer as layerSnapshots } from "./snapshotHandlers.ts"
import { layer as layerSystem } from "./systemHandlers.ts"
import { layer as layerWorktrees } from "./worktreeHandlers.ts"

const layerEnvironmentGroups = Layer.mergeAll(
  layerEnvironments,
  layerEnvironmentLeases,
  layerRuns,
  layerSecrets,
  layerProviders
)

const layerGroups = Layer.mergeAll(
  layerSystem,
  layerProjects,
  layerOperations,
  layerExecutions,
  layerSnapshots,
  layerWorktrees,
  layerLeases,
  layerDesktop,
  layerEnvironmentGroups
)

type Open<R> =
  | HttpRouter.Request.Without<R>
  | Exclude<HttpRouter.Request.Only<"Requires", R>, HttpRouter.Provided>

/**
 * What a request needs becomes what the layer needs. It is so in fact: a group keeps the context that it was built
 * in and gives it to each of its requests; only the types tell the two apart.
 */
export const openToLayers = <A, E, R>(routes: Layer.Layer<A, E, R>): Layer.Layer<A, E, Open<R>> =>
  routes as Layer.Layer<A, E, never>

/** Routes of every group and of the OpenAPI document. Needs `Identified` (layerLocalCaller) and the domain's ports. */
export const layerRoutes = openToLayers(
  HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide(layerGroups),
    Layer.provide(layerDecoded)
  )
)
