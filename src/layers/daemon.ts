/**
 * The daemon, from a claimed state directory to a served socket, in the only order that is safe: lock, registry,
 * database, the host's schema, the plugin, then reconciliation and requests. Ends gracefully when it is interrupted:
 * the socket first, then the work in hand, the database last. Guests live on.
 */
import * as Os from "node:os"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import type * as Scope from "effect/Scope"
import { httpStopGraceMillis } from "../domain/Bounds.ts"
import { Participants } from "../domain/host/Participants.ts"
import { loadPlugin } from "../domain/host/pluginLoading.ts"
import { Routes } from "../domain/host/Routes.ts"
import { ProjectStore } from "../domain/host/ProjectStore.ts"
import { PluginDb } from "../domain/persistence/PluginDb.ts"
import { reconcileSandboxes } from "../domain/registry/reconciliation.ts"
import { Registry } from "../domain/registry/Registry.ts"
import { RuntimeStore } from "../domain/runtimes/RuntimeStore.ts"
import * as Displays from "../infra/guests/Displays.ts"
import * as LaunchCredentials from "../infra/filesystem/LaunchCredentials.ts"
import { SweepReports } from "../domain/SweepReports.ts"
import { layerRoutes } from "../infra/http/handlers.ts"
import { layerPluginRoutes } from "../infra/http/pluginRoutes.ts"
import { layerLocalCaller } from "../infra/http/middleware.ts"
import * as SocketServer from "../infra/http/socketServer.ts"
import * as SystemChecks from "../infra/http/SystemChecks.ts"
import type { Address } from "../infra/postgres/connection.ts"
import { ensureDatabase } from "../infra/postgres/embeddedDatabase.ts"
import * as EmbeddedCluster from "../infra/postgres/EmbeddedCluster.ts"
import { runMigrations } from "../infra/postgres/migrate.ts"
import { coreMigrations } from "../infra/postgres/migrations/0001_core.ts"
import * as Db from "../infra/postgres/PluginDb.ts"
import { requireServer } from "../infra/postgres/serverCheck.ts"
import type { DaemonSettings } from "./config.ts"
import { productVersion } from "./cli/version.ts"
import * as Domain from "./domain.ts"
import * as Live from "./live.ts"
import { claimNode, nodeRoutes } from "./node.ts"
import * as Reconcilers from "./reconcilers.ts"
import * as RunLeaseReconcilers from "./runLeaseReconcilers.ts"
import * as RunLeases from "./runLeases.ts"
import { makePlugin, pluginSchema } from "./sandboxPlugin.ts"

/** Where the database is: the embedded cluster, started here, or the one that the settings name. */
const database = (settings: DaemonSettings) =>
  Effect.gen(function* () {
    if (settings.databaseUrl !== null) {
      const address: Address = { url: settings.databaseUrl }
      yield* requireServer(address)
      return { address, died: Effect.never }
    }
    const cluster = yield* EmbeddedCluster.start({ kind: "persistent", home: settings.postgresDirectory })
    return { address: yield* ensureDatabase(cluster), died: cluster.died }
  })

const migrateHost = (address: Address) =>
  Effect.scoped(
    Effect.gen(function* () {
      const db = yield* Db.make({ address, schema: "core", connectionsMax: 1 })
      yield* runMigrations({ migrations: coreMigrations }).pipe(Effect.provideService(PluginDb, db))
    })
  )

/** The first look at the node and at what was being deleted, before anybody is served. */
const settleIn = Effect.gen(function* () {
  const registry = yield* Registry
  const runtimes = yield* RuntimeStore
  yield* runtimes.registerNode({ id: registry.node, name: Os.hostname() })
  const reconciled = yield* reconcileSandboxes
  for (const { sandbox, verdict } of reconciled) yield* Effect.logInfo(`${sandbox}: ${verdict}`)
})

/** Serves the API to the owner of the socket, who is the local administrator. */
const serve = (settings: DaemonSettings) =>
  Layer.unwrap(
    Effect.map(
      Effect.flatMap(ProjectStore, (projects) => projects.bootstrap),
      (caller) =>
        SocketServer.layer(
          Layer.mergeAll(
            Layer.merge(layerRoutes, layerPluginRoutes).pipe(Layer.provide(layerLocalCaller(caller))),
            nodeRoutes(settings, Effect.succeed(true)),
            PrometheusMetrics.layerHttp()
          ),
          { path: settings.socketPath, stopGraceMillis: httpStopGraceMillis }
        )
    )
  ).pipe(Layer.provide(SystemChecks.layer({ version: productVersion })))

/** Everything of one daemon in the current scope; answers what ends it from outside. */
const boot = (settings: DaemonSettings) =>
  Effect.gen(function* () {
    const node = yield* claimNode(settings)
    const { address, died } = yield* database(settings)
    yield* migrateHost(address)
    const db = yield* Db.make({ address, schema: pluginSchema, connectionsMax: settings.poolConnections })
    const parts = RunLeases.layer(settings).pipe(
      Layer.provideMerge(Domain.layer),
      Layer.provideMerge(Live.stores),
      Layer.provideMerge(
        Layer.mergeAll(
          Layer.succeed(PluginDb, db),
          Layer.succeedContext(node),
          LaunchCredentials.layer({ path: settings.credentialsPath }),
          Displays.layer,
          Participants.layer,
          Routes.layer,
          SweepReports.layer
        )
      )
    )
    const program = Effect.gen(function* () {
      const context = yield* Effect.context<Layer.Success<typeof parts> | Scope.Scope>()
      const reconciliation = Effect.gen(function* () {
        yield* settleIn.pipe(Effect.catch((failure) => Effect.logWarning(failure.message)))
        const { sampleIntervalMillis } = settings
        yield* Layer.build(
          Layer.merge(
            Reconcilers.layer({ sampleIntervalMillis, nodeName: Os.hostname() }),
            RunLeaseReconcilers.layer
          )
        )
      }).pipe(Effect.provideContext(context))
      yield* loadPlugin(makePlugin(Effect.asVoid(reconciliation)), db)
      yield* Layer.build(serve(settings))
    })
    yield* Effect.provideContext(program, yield* Layer.build(parts))
    return { died }
  })

/**
 * Runs a daemon until it is interrupted. Fails with the refusal or failure that kept it from starting, each with a
 * stable `code`, and with the death of its embedded database.
 */
export const runDaemon = Effect.fn("daemon.run")(function* (settings: DaemonSettings) {
  const { died } = yield* boot(settings)
  yield* Effect.logInfo(`holdfast ${productVersion} serves ${settings.socketPath}`)
  return yield* Effect.flatMap(died, (failure) => Effect.fail(failure))
}, Effect.scoped)
