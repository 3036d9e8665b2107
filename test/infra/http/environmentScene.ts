/** The plugin's routes on a clone over a real socket, with a handle that writes down what it is asked. */
import * as Path from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Caller } from "../../../src/domain/host/Accounts.ts"
import { ProjectStore } from "../../../src/domain/host/ProjectStore.ts"
import { Routes } from "../../../src/domain/host/Routes.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { environmentRoutes } from "../../../src/infra/http/environmentRoutes.ts"
import { layerPluginRoutes } from "../../../src/infra/http/pluginRoutes.ts"
import { RouteCaller } from "../../../src/infra/http/RouteCaller.ts"
import { layer as layerSocket } from "../../../src/infra/http/socketServer.ts"
import * as ProjectStoreAdapter from "../../../src/infra/postgres/ProjectStore.ts"
import { clone } from "../../support/clone.ts"
import { stores, surroundings } from "../postgres/operationsFixture.ts"
import { temporaryDirectory } from "./scriptedServer.ts"

/** Calls of the handle since it was emptied: which kind, and which operation. */
export class Calls extends Context.Service<Calls, Array<string>>()(
  "holdfast/test/infra/http/environmentScene/Calls"
) {}

/** The handle of the clone, which writes down what it is asked. */
const counted = Layer.effect(
  PluginDb,
  Effect.gen(function* () {
    const db = yield* PluginDb
    const calls = yield* Calls
    const note = (kind: string, operation: string) => void calls.push(`${kind} ${operation}`)
    return PluginDb.of({
      ...db,
      query: (query) => Effect.suspend(() => (note("query", query.operation), db.query(query))),
      transaction: (operation, body) =>
        Effect.suspend(() => (note("transaction", operation), db.transaction(operation, body))),
      snapshot: (operation, body) =>
        Effect.suspend(() => (note("snapshot", operation), db.snapshot(operation, body)))
    })
  })
).pipe(Layer.provideMerge(Layer.sync(Calls, () => [])))

export const fixture = ProjectStoreAdapter.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(stores, surroundings)),
  Layer.provideMerge(counted),
  Layer.provideMerge(clone(8))
)

interface Served {
  readonly caller: Caller
  /** Runs once the caller is identified, before the handler. */
  readonly identified?: Effect.Effect<unknown, unknown, PluginDb>
  /** Runs once the Project was found for the caller. */
  readonly found?: Effect.Effect<unknown, unknown, PluginDb>
}

/** Serves the plugin's routes for one caller and answers the socket's path. */
export const serve = Effect.fnUntraced(function* ({
  caller,
  found = Effect.void,
  identified = Effect.void
}: Served) {
  const path = Path.join(yield* temporaryDirectory, "d.sock")
  const db = yield* PluginDb
  const store = yield* ProjectStore
  const onDb = (effect: Effect.Effect<unknown, unknown, PluginDb>) =>
    Effect.orDie(Effect.provideService(effect, PluginDb, db))
  const offered = yield* environmentRoutes.pipe(
    Effect.provideService(
      ProjectStore,
      ProjectStore.of({
        ...store,
        find: (who, reference) => Effect.tap(store.find(who, reference), () => onDb(found))
      })
    )
  )
  const registered = Layer.effectDiscard(
    Effect.gen(function* () {
      const routes = yield* Routes
      for (const route of offered) yield* routes.register({ plugin: "sandbox", ...route })
    })
  )
  const who = Layer.succeed(RouteCaller, Effect.as(onDb(identified), Option.some(caller)))
  const plugins = layerPluginRoutes.pipe(
    Layer.provide(Layer.mergeAll(who, registered.pipe(Layer.provideMerge(Routes.layer))))
  )
  yield* Layer.build(layerSocket(plugins, { path, stopGraceMillis: 100 }))
  return path
})
