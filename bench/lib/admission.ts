/** P1's own contender: the product's admission, from the request of a verified caller to the announced operation. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { randomBytes, randomUUID } from "node:crypto"
import { Caller } from "../../src/domain/host/Accounts.ts"
import { Identifiers } from "../../src/domain/Identifiers.ts"
import { AccountId, ProjectId, RequestKey, TenantId } from "../../src/domain/Identity.ts"
import { admitOperation, OperationAlerts } from "../../src/domain/operations/admission.ts"
import { OperationEvents } from "../../src/domain/operations/OperationEvents.ts"
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

/** `admitOperation`, answer decoded, progress published, dispatcher signalled. */
export const productAdmission = (settings: PlainSettings): Contender =>
  admissionContender("admitOperation", settings, (load) =>
    Effect.gen(function* () {
      const db = yield* handleOn(settings, pluginSchema, load.workers)
      const layers = Layer.merge(OperationStore.layer.pipe(Layer.provide(Layer.succeed(PluginDb, db))), quiet)
      let project = 0
      const admit = () => {
        project += 1
        return admitStart(ProjectId.make(project), `key-${project}`)
      }
      yield* openConnections(load, (text) => db.query({ operation: "bench.open", text }))
      return yield* loopEffects(load, admit).pipe(Effect.provide(layers))
    }).pipe(sampledOut, Effect.scoped)
  )
