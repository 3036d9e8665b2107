/**
 * The database really stops between a provider's answer and the insert of its row, on a server of the test's own: what was
 * created is in a private file, becomes one row when the server is there again, and is destroyed at the provider.
 */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { OrphanSpool } from "../../../src/domain/runLeases/OrphanSpool.ts"
import { SandboxOrphanCleanupWriteError } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import * as FileSpool from "../../../src/infra/filesystem/OrphanSpool.ts"
import { type Cluster, start } from "../../../src/infra/postgres/EmbeddedCluster.ts"
import { ensureDatabase } from "../../../src/infra/postgres/embeddedDatabase.ts"
import { type Migration, runMigrations } from "../../../src/infra/postgres/migrate.ts"
import { coreMigrations } from "../../../src/infra/postgres/migrations/0001_core.ts"
import { pluginMigrations } from "../../../src/infra/postgres/migrations/0021_baseline.ts"
import * as Db from "../../../src/infra/postgres/PluginDb.ts"
import { coreSchema, pluginSchema } from "../../support/schemas.ts"
import { inTime } from "../../support/waiting.ts"
import { newAgent, newEnvironment, newRun, newTenant } from "./fixture.ts"
import { overHandle } from "./leaseStores.ts"
import { leaseRowsOf, sql } from "./rawRows.ts"
import { capturedLog, freshRuntime } from "./runtimes.ts"
import {
  installScripted,
  resourcesIn,
  runningWorkers,
  stateDirectory,
  workersLayer
} from "./scriptedProvider.ts"

const testMillisMax = 60_000
const folder = Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-stops-"))
Files.chmodSync(folder, 0o755)
const server = start({ kind: "persistent", home: Path.join(folder, "home") })

const migrateInto = (cluster: Cluster, schema: string, migrations: ReadonlyArray<Migration>) =>
  Effect.gen(function* () {
    const address = yield* ensureDatabase(cluster)
    const db = yield* Db.make({ address, schema, connectionsMax: 1 })
    yield* runMigrations({ migrations }).pipe(Effect.provideService(PluginDb, db))
  }).pipe(Effect.scoped)

/** The server while the answered scope is open. */
const startServer = Effect.gen(function* () {
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const cluster = yield* server.pipe(Scope.provide(scope))
  return { cluster, scope }
})

/** Everything of a daemon that has just begun, with a handle of its own. */
const daemon = (cluster: Cluster) =>
  Layer.unwrap(
    Effect.map(ensureDatabase(cluster), (address) => Db.layer({ address, schema: pluginSchema }))
  ).pipe(
    (handle) => workersLayer.pipe(Layer.provideMerge(overHandle), Layer.provideMerge(handle)),
    Layer.fresh
  )

const spoolIn = (directory: string) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(Layer.fresh(FileSpool.layer({ directory })))
    return yield* Effect.provideContext(OrphanSpool, context)
  })

const modeOf = (path: string): number => Files.lstatSync(path).mode & 0o777

const recordsIn = (directory: string): ReadonlyArray<string> =>
  Files.readdirSync(directory, { recursive: true })
    .map((name) => Path.join(directory, String(name)))
    .filter((path) => path.endsWith(".json"))

const place = Effect.gen(function* () {
  const tenant = yield* newTenant
  const run = (yield* newRun(tenant, (yield* newAgent(tenant)).id)).id
  yield* installScripted
  const directory = yield* stateDirectory
  const config = { provider: "scripted", stateDirectory: directory }
  const environment = (yield* newEnvironment("sandbox", config)).id
  return { tenant, run, environment, directory, spool: Path.join(directory, "orphans") }
})

type Place = Effect.Success<typeof place>

/** Acquires, and has the database go when the provider has answered. */
const acquireWhile = (own: Place, stops: Effect.Effect<void>) =>
  Effect.gen(function* () {
    const runtime = yield* freshRuntime({ workers: yield* runningWorkers, spool: yield* spoolIn(own.spool) })
    const found = yield* EnvironmentStore.use((environments) => environments.getById(own.environment))
    const { run, tenant } = own
    const environment = Option.getOrThrow(found)
    const asked = { tenant, environment, task: null, run, executionWorkspace: null }
    const after = (_program: string, step: string) => (step === "create" ? stops : Effect.void)
    return yield* Effect.flip(runtime.acquireRunLease(asked)).pipe(
      Effect.provideService(StepObserver, { before: () => Effect.void, after })
    )
  })

const nothing = { found: 0, dropped: 0, waiting: 0 }

/**
 * A later daemon: what it imports, and what its sweep leaves. The intent is durable too, so the creation may be found by it
 * before the file is read, and is one row all the same.
 */
const importAndSweep = (own: Place, isFoundFirst: boolean) =>
  Effect.gen(function* () {
    const spool = yield* spoolIn(own.spool)
    const runtime = yield* freshRuntime({ workers: yield* runningWorkers, spool, liveness: "dead" })
    assert.deepStrictEqual(yield* leaseRowsOf(own.environment), [])
    yield* sql("update provider_intents set created_at = created_at - interval '1 hour'")
    if (isFoundFirst) assert.deepStrictEqual(yield* runtime.recoverLostCreations, { ...nothing, found: 1 })
    assert.deepStrictEqual(yield* runtime.flushDeferredOrphanCleanups, { recovered: 1, pending: 0 })
    const [row, ...others] = yield* leaseRowsOf(own.environment)
    assert.deepStrictEqual(others, [])
    assert.deepInclude(row, {
      status: "pending_cleanup",
      cleanup_status: "failed",
      failure_reason: isFoundFirst ? "creation_lost" : "acquire_rejected_teardown_failed",
      tenant_id: own.tenant,
      run_id: own.run,
      provider_lease_id: Object.keys(resourcesIn(own.directory))[0]
    })
    assert.deepStrictEqual(recordsIn(own.spool), [])
    assert.deepStrictEqual(yield* runtime.recoverLostCreations, nothing)
    const another = yield* freshRuntime({ spool })
    assert.deepStrictEqual(yield* another.flushDeferredOrphanCleanups, { recovered: 0, pending: 0 })
    assert.strictEqual(Object.keys(resourcesIn(own.directory)).length, 1)
    assert.deepInclude(yield* runtime.sweepCleanups(0), { done: 1, failed: 0 })
    assert.deepStrictEqual(resourcesIn(own.directory), {})
    const after = yield* leaseRowsOf(own.environment)
    assert.deepStrictEqual(
      after.map(({ id, status }) => [id, status]),
      [[row?.["id"], "expired"]]
    )
  })

describe("a database that stops", () => {
  // Making the data directory durably is the slow part, so it is done once.
  beforeAll(
    () =>
      Effect.runPromise(
        Effect.scoped(
          Effect.gen(function* () {
            const cluster = yield* server
            yield* migrateInto(cluster, coreSchema, coreMigrations)
            yield* migrateInto(cluster, pluginSchema, pluginMigrations)
          })
        )
      ),
    testMillisMax
  )
  afterAll(() => Files.rmSync(folder, { recursive: true, force: true }))

  it.live.each([
    ["is stopped", false],
    ["is killed", true]
  ] as const)(
    "FC-19 the database %s between the provider's answer and the row: one private file, imported once, destroyed",
    ([, isKilled]) =>
      Effect.gen(function* () {
        const { cluster, scope } = yield* startServer
        const ends = isKilled
          ? Effect.andThen(
              Effect.sync(() => process.kill(cluster.processId, "SIGKILL")),
              Effect.asVoid(inTime("the server's death is noticed", cluster.died))
            )
          : Scope.close(scope, Exit.void)
        const own = yield* Effect.gen(function* () {
          const made = yield* place
          const log = capturedLog()
          const failure = yield* acquireWhile(made, ends).pipe(log.capture)
          assert.instanceOf(failure, SandboxOrphanCleanupWriteError)
          assert.deepInclude(log.lines.at(-1)?.fields, { persisted: true, buffered: true })
          return made
        }).pipe(Effect.provide(daemon(cluster)))
        assert.strictEqual(Object.keys(resourcesIn(own.directory)).length, 1)
        const [file, ...others] = recordsIn(own.spool)
        assert.deepStrictEqual(others, [])
        assert.strictEqual(modeOf(file ?? ""), 0o600)
        assert.strictEqual(modeOf(Path.dirname(file ?? "")), 0o700)
        yield* Scope.close(scope, Exit.void)
        const again = yield* startServer
        assert.notStrictEqual(again.cluster.processId, cluster.processId)
        yield* importAndSweep(own, isKilled).pipe(Effect.scoped, Effect.provide(daemon(again.cluster)))
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
