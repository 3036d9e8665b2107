/**
 * The node of a daemon: its state directory held, its registry opened, its guests carried, and the node's own API. A
 * whole daemon is built upon it; alone it is a daemon without a database, for machines that carry sandboxes and know
 * no Projects. Guests outlive both.
 */
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import * as Ref from "effect/Ref"
import { httpStopGraceMillis } from "../domain/Bounds.ts"
import { readSupervisorKind } from "../domain/guests/SupervisorChoice.ts"
import { SweepReports } from "../domain/SweepReports.ts"
import { ensureStateDirectory } from "../infra/filesystem/RegistryFiles.ts"
import { holdStateDirectory } from "../infra/filesystem/OwnerLock.ts"
import { layerNodeRoutes } from "../infra/http/node/nodeRoutes.ts"
import { NodeTerms } from "../infra/http/node/NodeTerms.ts"
import * as SocketServer from "../infra/http/socketServer.ts"
import { productVersion } from "./cli/version.ts"
import type { DaemonSettings } from "./config.ts"
import * as Live from "./live.ts"
import * as Reconcilers from "./reconcilers.ts"

/** What a node needs of a daemon's settings. */
export type NodeSettings = Pick<
  DaemonSettings,
  "home" | "stateDirectory" | "socketPath" | "supervisor" | "capacity" | "lifeSecondsMax"
>

const homeMode = 0o711

/** Makes the home directory; its parts have their own modes and checks. */
const ensureHome = (home: string) =>
  Effect.try({
    try: () => {
      Files.mkdirSync(home, { recursive: true, mode: homeMode })
      const found = Files.lstatSync(home)
      if (found.uid !== process.getuid?.()) throw new Error("foreign")
    },
    catch: () => ({
      _tag: "HomeRefused",
      code: "home_refused",
      message: `the home directory ${home} cannot be made, or belongs to another user: choose another --home`
    })
  })

const holderLine = (): string => `holdfast ${productVersion}, process ${process.pid} on ${Os.hostname()}`

/** Holds the state directory for the scope, opens the registry, and probes who can carry guests here. */
export const claimNode = Effect.fnUntraced(function* (settings: NodeSettings) {
  const { stateDirectory } = settings
  const supervisor = yield* Effect.fromResult(readSupervisorKind(settings.supervisor))
  yield* ensureHome(settings.home)
  yield* ensureStateDirectory(stateDirectory)
  yield* holdStateDirectory(stateDirectory, holderLine())
  return yield* Layer.build(
    Live.machine({ stateDirectory, supervisor }).pipe(
      Layer.provideMerge(Live.registry({ stateDirectory, capacity: settings.capacity }))
    )
  )
})

/** Everybody at the socket is its owner: the kernel has verified it by the socket's mode. */
const socketActor = (): string => `uid:${process.getuid?.() ?? "unknown"}`

/** The routes of the node's API; they need what `claimNode` answers. */
export const nodeRoutes = (settings: NodeSettings, isSettled: Effect.Effect<boolean>) =>
  layerNodeRoutes.pipe(
    Layer.provide(
      Layer.succeed(NodeTerms, {
        version: productVersion,
        actor: socketActor(),
        lifeSecondsMax: settings.lifeSecondsMax,
        isSettled
      })
    )
  )

/** The socket first: what is looked at after it may take long, and readiness tells. */
const boot = Effect.fnUntraced(function* (settings: NodeSettings) {
  const node = yield* claimNode(settings)
  const settled = yield* Ref.make(false)
  const { socketPath: path } = settings
  const routes = Layer.merge(nodeRoutes(settings, Ref.get(settled)), PrometheusMetrics.layerHttp())
  const parts = Layer.merge(
    SocketServer.layer(routes, { path, stopGraceMillis: httpStopGraceMillis }),
    Reconcilers.layerNode(Ref.set(settled, true))
  ).pipe(Layer.provide(SweepReports.layer))
  yield* Layer.build(Layer.provide(parts, Layer.succeedContext(node)))
})

/**
 * Runs a node's daemon until it is interrupted. Fails with the refusal or failure that kept it from starting, each
 * with a stable `code`. Ends gracefully: the socket first, then the work in hand, the lock last.
 */
export const runNode = Effect.fn("node.run")(function* (settings: NodeSettings) {
  yield* boot(settings)
  yield* Effect.logInfo(`holdfast ${productVersion} serves the node at ${settings.socketPath}`)
  return yield* Effect.never
}, Effect.scoped)
