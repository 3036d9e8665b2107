/** The product's contenders of P15: its environment runtime and its sweep over its own stores, with the provider `fake`. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { randomUUID } from "node:crypto"
import { EnvironmentStore } from "../../src/domain/environments/EnvironmentStore.ts"
import { EnvironmentId, parseProcessIdentity, RunId, TenantId } from "../../src/domain/Identity.ts"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import { Processes } from "../../src/domain/Processes.ts"
import { ProviderWorkers } from "../../src/domain/providers/ProviderWorkers.ts"
import { EnvironmentRuntime } from "../../src/domain/runLeases/EnvironmentRuntime.ts"
import { EnvironmentDrivers } from "../../src/domain/runLeases/EnvironmentDrivers.ts"
import { HarnessBackups } from "../../src/domain/runLeases/HarnessBackups.ts"
import { IdleWork } from "../../src/domain/runLeases/IdleWork.ts"
import { LostCreations } from "../../src/domain/runLeases/LostCreations.ts"
import { OrphanBuffer } from "../../src/domain/runLeases/OrphanBuffer.ts"
import { OrphanSpool } from "../../src/domain/runLeases/OrphanSpool.ts"
import { sandboxDriver } from "../../src/domain/runLeases/sandboxDriver.ts"
import { sweepPendingCleanupLeases } from "../../src/domain/runLeases/sweep.ts"
import { TraceParents } from "../../src/domain/runLeases/TraceParents.ts"
import { SecretCipher } from "../../src/domain/secrets/Secret.ts"
import * as Digests from "../../src/infra/Digests.ts"
import * as Identifiers from "../../src/infra/Identifiers.ts"
import * as EnvironmentLeaseStoreAdapter from "../../src/infra/postgres/EnvironmentLeaseStore.ts"
import * as EnvironmentStoreAdapter from "../../src/infra/postgres/EnvironmentStore.ts"
import * as ProviderPluginsAdapter from "../../src/infra/postgres/ProviderPlugins.ts"
import * as SecretStoreAdapter from "../../src/infra/postgres/SecretStore.ts"
import * as WorkStoreAdapter from "../../src/infra/postgres/WorkStore.ts"
import * as BuiltIns from "../../src/infra/providers/BuiltInProviders.ts"
import { type FakeProvider, makeFakeProvider } from "../../src/infra/providers/fakeProvider.ts"
import { pluginSchema } from "./admission.ts"
import { loopEffects, openConnections } from "./closedLoop.ts"
import type { Contender, Load } from "./definition.ts"
import { handleOn, sampledOut } from "./handles.ts"
import { processOf } from "./leaseWork.ts"
import { type PlainSettings, runPlainly } from "./plainPg.ts"
import { withServerCost } from "./serverCost.ts"
import { cleanupsMax, environment, provider, sweepFigures, tenant } from "./runLeaseWork.ts"

type Db = PluginDb["Service"]

const storesOn = (db: Db) =>
  Layer.mergeAll(
    WorkStoreAdapter.layer,
    ProviderPluginsAdapter.layer,
    EnvironmentStoreAdapter.layer,
    EnvironmentLeaseStoreAdapter.layer,
    SecretStoreAdapter.layer
  ).pipe(Layer.provideMerge(Layer.succeed(PluginDb, db)))

/** What no lease of the provider `fake` comes to: it has no secrets, no workers, no backups and no orphans. */
const unused = Layer.mergeAll(
  Layer.succeed(ProviderWorkers, null),
  Layer.succeed(HarnessBackups, { verifies: () => Effect.succeed(false) }),
  Layer.succeed(OrphanSpool, {
    append: () => Effect.succeed(false),
    load: Effect.succeed([]),
    remove: () => Effect.void,
    quarantined: Effect.succeed(0)
  }),
  Layer.succeed(SecretCipher, {
    currentKey: "none",
    seal: () => Effect.die(new Error("nothing is sealed here")),
    open: () => Effect.die(new Error("nothing is opened here"))
  })
)

const surroundings = (db: Db, fake: FakeProvider) =>
  Layer.mergeAll(
    storesOn(db),
    unused,
    BuiltIns.layer([fake.provider]),
    Layer.succeed(Processes, {
      current: parseProcessIdentity(processOf(0)),
      liveness: () => Effect.succeed("alive" as const)
    }),
    IdleWork.layer,
    Digests.layer,
    Identifiers.layer
  )

/** A run over the product's handle, with a connection for each worker that is open before time counts. */
const onHandle = <A>(settings: PlainSettings, load: Load, use: (db: Db) => Effect.Effect<A, unknown>) =>
  Effect.gen(function* () {
    const db = yield* handleOn(settings, pluginSchema, load.workers)
    yield* openConnections(load, (text) => db.query({ operation: "bench.open", text }))
    return yield* use(db)
  }).pipe(sampledOut, Effect.scoped)

/** A run acquires a sandbox of the provider and releases what it holds, by the runtime. */
const lifeOfLease = (db: Db, load: Load) =>
  Effect.gen(function* () {
    const fake = makeFakeProvider()
    const built = yield* Layer.build(
      EnvironmentRuntime.layerOf([sandboxDriver]).pipe(Layer.provideMerge(surroundings(db, fake)))
    )
    const runtime = Context.get(built, EnvironmentRuntime)
    const place = yield* Context.get(built, EnvironmentStore).getById(EnvironmentId.make(environment))
    if (place._tag === "None") return yield* Effect.die(new Error("the stage has no environment"))
    return yield* loopEffects(load, () =>
      Effect.gen(function* () {
        const run = RunId.make(randomUUID())
        yield* runtime.acquireRunLease({
          tenant: TenantId.make(tenant),
          environment: place.value,
          task: null,
          run,
          executionWorkspace: null
        })
        const released = yield* runtime.releaseRunLeases(run)
        if (released.length !== 1) return yield* Effect.fail(new Error(`${released.length} were released`))
      })
    )
  }).pipe(Effect.scoped)

const emptied = (settings: PlainSettings) =>
  runPlainly(settings, [
    "truncate environment_leases, provider_intents",
    "vacuum environment_leases, provider_intents"
  ])

export const productLife = (settings: PlainSettings): Contender => ({
  name: "EnvironmentRuntime",
  run: (load) =>
    onHandle(settings, load, (db) => Effect.scoped(withServerCost(settings, lifeOfLease(db, load)))),
  check: Effect.gen(function* () {
    const { rows } = yield* runPlainly(settings, [
      `select count(*)::int as all, (select count(*) from provider_intents)::int as intents,
        count(*) filter (where status = 'released' and cleanup_status = 'success')::int as released
        from environment_leases`
    ])
    yield* emptied(settings)
    const { all, intents, released } = rows[0] ?? {}
    return all === released && all !== 0 && intents === 0
      ? []
      : [
          `${String(released)} of ${String(all)} leases were released, and ${String(intents)} intents are left`
        ]
  })
})

/** Leases that owe the end of a sandbox which the provider has. */
const owe = (settings: PlainSettings) =>
  runPlainly(settings, [
    `insert into environment_leases (id, tenant_id, environment_id, status, cleanup_status, lease_policy, provider,
        provider_lease_id, released_at, cleanup_due_at, failure_reason, metadata)
      select gen_random_uuid(), '${tenant}', '${environment}', 'pending_cleanup', 'failed', 'ephemeral', '${provider}',
        'sandbox://fake/' || n, now(), now(), 'release_cleanup_failed',
        jsonb_build_object('driver', 'sandbox', 'provider', '${provider}', 'image', 'bench', 'timeoutMs', 60000)
      from generate_series(1, ${cleanupsMax}) n`,
    "vacuum analyze environment_leases"
  ])

/** Each worker is a daemon that sweeps what is due: the rows are shared among them by their claims. */
const sweepAll = (db: Db, load: Load, fake: FakeProvider) => {
  const sweep = sweepPendingCleanupLeases({ backoffMillis: 0 })
  const daemon = EnvironmentDrivers.layerOf([sandboxDriver]).pipe(
    Layer.provideMerge(Layer.mergeAll(OrphanBuffer.layer, TraceParents.layer, LostCreations.layer)),
    Layer.provideMerge(surroundings(db, fake))
  )
  return Effect.all(
    Array.from({ length: load.workers }, () => sweep),
    { concurrency: "unbounded" }
  ).pipe(Effect.provide(daemon))
}

export const productSweep = (settings: PlainSettings): Contender => ({
  name: "sweepPendingCleanupLeases",
  run: (load) =>
    Effect.andThen(
      owe(settings),
      onHandle(settings, load, (db) => sweepFigures(cleanupsMax, sweepAll(db, load, makeFakeProvider())))
    ),
  check: Effect.gen(function* () {
    const { rows } = yield* runPlainly(settings, [
      `select count(*)::int as done, count(distinct metadata ->> 'pendingCleanupAttemptId')::int as claims
        from environment_leases where status = 'expired' and cleanup_status = 'success'
          and metadata #>> '{remoteExecutionTermination,providerLeaseId}' = provider_lease_id`
    ])
    yield* emptied(settings)
    const { claims, done } = rows[0] ?? {}
    return done === cleanupsMax && claims === cleanupsMax
      ? []
      : [`${String(done)} of ${cleanupsMax} cleanups were done, under ${String(claims)} claims`]
  })
})
