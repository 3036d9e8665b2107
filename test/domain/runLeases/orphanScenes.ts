/** Acquisitions whose rows are refused: a resource is there that no run holds, and what then works or does not. */
import * as Effect from "effect/Effect"
import {
  EnvironmentLeaseStore,
  type PendingCleanupLease
} from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { acquisitionOf, type Scene } from "./acquisitions.ts"
import { newEnvironment, newTenant, reuseFixture } from "./fixture.ts"
import { setLease } from "./rawRows.ts"
import { freshRuntime, type RuntimeParts } from "./runtimes.ts"
import { type Answers, answering, scriptedWorkers } from "./scriptedWorkers.ts"

/** Stands in what a provider fails with and in a storage failure: nothing of it may be told. */
export const canary = "canary-credential"

/** The clone's lease table with writes of orphans' rows that fail as told, by their number from 1. */
export const failingWrites = (fails: (write: number) => boolean) =>
  Effect.map(EnvironmentLeaseStore, (store) => {
    const seen = { writes: 0, records: [] as Array<PendingCleanupLease>, fails }
    const failure = new StorageFailure({
      operation: canary,
      fault: "connection",
      state: null,
      constraint: null
    })
    const leases: EnvironmentLeaseStore["Service"] = {
      ...store,
      insertPendingCleanupLease: (record) =>
        Effect.suspend(() => {
          seen.writes += 1
          seen.records.push(record)
          return seen.fails(seen.writes) ? Effect.fail(failure) : store.insertPendingCleanupLease(record)
        })
    }
    return { seen, leases }
  })

/** The environment is another tenant's managed resource, so the row of whoever acquires it is refused. */
const bindElsewhere = (environment: Scene["environment"]) =>
  Effect.gen(function* () {
    const tenant = yield* newTenant
    yield* EnvironmentStore.use((store) =>
      store.bindManagedResource({
        tenant,
        environment: environment.id,
        resourceKey: "managed-sandbox",
        stockVersion: 1,
        stockHash: "stock"
      })
    )
  })

const rejectedBy = (scene: Scene) => ({ ...acquisitionOf(scene), assertTenantBinding: true })

/** A built-in sandbox is provisioned and its row refused. */
export const builtInOrphan = (parts: RuntimeParts = {}) =>
  Effect.gen(function* () {
    const scene = yield* reuseFixture()
    const environment = yield* newEnvironment("sandbox", { provider: "fake", image: "ubuntu:24.04" })
    yield* bindElsewhere(environment)
    const fake = makeFakeProvider()
    const built = { builtIns: [fake.provider], ...parts }
    const runtime = yield* freshRuntime(built)
    const own = { ...scene, environment }
    return {
      ...own,
      fake,
      runtime,
      another: freshRuntime(built),
      rejected: Effect.flip(runtime.acquireRunLease(rejectedBy(own))),
      teardowns: () =>
        fake.calls.flatMap(({ asked, verb }) =>
          verb === "destroy" ? [(asked as JsonObject)["providerLeaseId"]] : []
        )
    }
  })

/** The same with a plugin's sandbox. */
export const pluginOrphan = (answers: Answers, parts: RuntimeParts = {}) =>
  Effect.gen(function* () {
    const scene = yield* reuseFixture()
    yield* setLease(scene.lease, { status: "expired", cleanup_status: "success" })
    const environment = yield* newEnvironment("sandbox", {
      provider: "fake-plugin",
      image: "i",
      timeoutMs: 1234
    })
    yield* bindElsewhere(environment)
    const workers = scriptedWorkers({ call: answering(answers) })
    const runtime = yield* freshRuntime({ workers: workers.manager, ...parts })
    const own = { ...scene, environment }
    return { ...own, workers, runtime, rejected: Effect.flip(runtime.acquireRunLease(rejectedBy(own))) }
  })
