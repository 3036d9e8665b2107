/** P1's own contender: the product's admission, from the request of a verified caller to the announced operation. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { randomBytes, randomUUID } from "node:crypto"
import { databasePoolConnectionsDefault } from "../../src/domain/Bounds.ts"
import { Caller } from "../../src/domain/host/Accounts.ts"
import { Identifiers } from "../../src/domain/Identifiers.ts"
import { AccountId, ProjectId, RequestKey, TenantId } from "../../src/domain/Identity.ts"
import { admitOperation, OperationAlerts } from "../../src/domain/operations/admission.ts"
import { OperationEvents } from "../../src/domain/operations/OperationEvents.ts"
import type { OperationStore as OperationStorePort } from "../../src/domain/operations/OperationStore.ts"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import { runMigrations } from "../../src/infra/postgres/migrate.ts"
import { coreMigrations } from "../../src/infra/postgres/migrations/0001_core.ts"
import { pluginMigrations } from "../../src/infra/postgres/migrations/0021_baseline.ts"
import * as OperationStore from "../../src/infra/postgres/OperationStore.ts"
import { account, admissionContender, tenant } from "./admissionWork.ts"
import { loopEffects, openConnections } from "./closedLoop.ts"
import type { Contender } from "./definition.ts"
import { handleOn, sampledOut } from "./handles.ts"
import type { PlainSettings } from "./plainPg.ts"
import { withServerCost } from "./serverCost.ts"

/** The schema that the benchmark's host hands to the plugin. */
export const pluginSchema = "holdfast"

const migrateSchema = (settings: PlainSettings, schema: string, migrations: typeof coreMigrations) =>
  Effect.gen(function* () {
    const db = yield* handleOn(settings, schema, 1)
    yield* Effect.provideService(runMigrations({ migrations }), PluginDb, db)
  }).pipe(Effect.scoped)

/** Both schemas as the product makes them. */
export const migrateBoth = (settings: PlainSettings) =>
  Effect.andThen(
    migrateSchema(settings, "core", coreMigrations),
    migrateSchema(settings, pluginSchema, pluginMigrations)
  )

const caller = new Caller({
  account: AccountId.make(account),
  tenant: TenantId.make(tenant),
  name: "bench",
  administrator: true,
  initiator: "user"
})

/** Nothing is refused here: an alert would void the run by its missing row. */
export const quiet = Layer.mergeAll(
  Layer.succeed(OperationAlerts, { recoveriesFail: () => Effect.void, startRefused: () => Effect.void }),
  Layer.succeed(Identifiers, {
    uuid: Effect.sync(() => randomUUID()),
    token: Effect.sync(() => randomBytes(32).toString("hex"))
  }),
  OperationEvents.layer
)

/** The caller asks for the start of a Project's machine. */
export const admitStart = (project: ProjectId, key: string) =>
  admitOperation(caller, {
    project,
    action: "start",
    requestKey: RequestKey.make(key),
    expectedGeneration: null,
    parameters: {}
  })

type Needs = Layer.Success<typeof quiet> | OperationStorePort

const onStore = <A, E>(
  settings: PlainSettings,
  connections: number,
  use: (db: PluginDb["Service"]) => Effect.Effect<A, E, Needs | Scope.Scope>
) =>
  Effect.gen(function* () {
    const db = yield* handleOn(settings, pluginSchema, connections)
    const layers = Layer.merge(OperationStore.layer.pipe(Layer.provide(Layer.succeed(PluginDb, db))), quiet)
    return yield* use(db).pipe(Effect.provide(layers))
  }).pipe(sampledOut, Effect.scoped)

/** `admitOperation`, answer decoded, progress published, dispatcher signalled. */
export const productAdmission = (settings: PlainSettings): Contender =>
  admissionContender("admitOperation", settings, (load) =>
    onStore(settings, load.workers, (db) =>
      Effect.gen(function* () {
        let project = 0
        yield* openConnections(load, (text) => db.query({ operation: "bench.open", text }))
        return yield* loopEffects(load, () => {
          project += 1
          return admitStart(ProjectId.make(project), `key-${project}`)
        })
      })
    )
  )

/** Of so many admissions one is refused: the request of a Project that is not there. */
const refusedEvery = 16
const noProject = ProjectId.make(Number.MAX_SAFE_INTEGER)

/**
 * As many callers as there are workers on the connections of a daemon. `p99Ratio` is the slowest of a hundred beside
 * the ceiling's middle one; a refusal that is no refusal, or that is told to somebody else, voids the run.
 */
export const productBurst = (settings: PlainSettings, ceiling: Contender): ReadonlyArray<Contender> => {
  const middles = new Map<number, number>()
  const burst = (name: string, refuses: boolean) =>
    admissionContender(name, settings, (load) =>
      onStore(settings, databasePoolConnectionsDefault, (db) =>
        Effect.gen(function* () {
          let project = 0
          let asked = 0
          let refused = 0
          const admitNext = Effect.suspend(() => {
            project += 1
            return admitStart(ProjectId.make(project), `key-${project}`)
          })
          const refuseNext = Effect.suspend(() => {
            refused += 1
            return Effect.matchEffect(admitStart(noProject, `refused-${refused}`), {
              onSuccess: () => Effect.die(new Error("nothing was refused")),
              onFailure: (refusal) =>
                refusal._tag === "ProjectNotActive" ? Effect.void : Effect.fail(refusal)
            })
          })
          yield* openConnections(
            { ...load, workers: Math.min(load.workers, databasePoolConnectionsDefault) },
            (text) => db.query({ operation: "bench.open", text })
          )
          const figures = yield* withServerCost(
            settings,
            loopEffects(load, (): Effect.Effect<unknown, unknown, Needs> => {
              asked += 1
              return refuses && asked % refusedEvery === 0 ? refuseNext : admitNext
            })
          )
          return {
            ...figures,
            operationsAll: (figures["operationsAll"] ?? Number.NaN) - refused,
            p99Ratio: (figures["p99Millis"] ?? Number.NaN) / (middles.get(load.workers) ?? Number.NaN)
          }
        })
      )
    )
  const kept: Contender = {
    ...ceiling,
    run: (load, round) =>
      Effect.tap(ceiling.run(load, round), (figures) =>
        Effect.sync(() => void middles.set(load.workers, figures["p50Millis"] ?? Number.NaN))
      )
  }
  return [kept, burst("admitOperation", false), burst("admitOperation, one in 16 refused", true)]
}
