/** A plugin that only it can end anything of stays; and the census that says so. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { LeaseCensus } from "../../../src/domain/environments/LeaseCensus.ts"
import { removeProvider } from "../../../src/domain/environments/providerRemoval.ts"
import { EnvironmentLeaseId, type ProviderPluginId, TenantId } from "../../../src/domain/Identity.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { DaemonRuns } from "../../../src/domain/work/DaemonRuns.ts"
import { WorkStore } from "../../../src/domain/work/WorkStore.ts"
import { censuses } from "../runLeases/callers.ts"
import { newEnvironment, newTenant, onClone, reuseFixture } from "../runLeases/fixture.ts"
import { setLease, setRun, sql } from "../runLeases/rawRows.ts"

const isThere = (plugin: ProviderPluginId) =>
  Effect.map(
    ProviderPlugins.use((plugins) => plugins.byId(plugin)),
    Option.map(({ status }) => status)
  )

describe("environments/providerRemoval", () => {
  it.live("a plugin with a lease that is not over stays, and serves on; with none it goes", () =>
    Effect.gen(function* () {
      const { lease, plugin } = yield* reuseFixture()
      const error = yield* Effect.flip(removeProvider(plugin.id))
      assert.deepInclude(error, { code: "provider_in_use", leases: 1 })
      assert.deepStrictEqual(yield* isThere(plugin.id), Option.some("ready"))
      yield* setLease(lease, { status: "expired", cleanup_status: "success" })
      yield* removeProvider(plugin.id)
      assert.isTrue(Option.isNone(yield* isThere(plugin.id)))
      assert.strictEqual((yield* Effect.flip(removeProvider(plugin.id)))._tag, "ProviderNotFound")
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("BX-01 an intent keeps it too", () =>
    Effect.gen(function* () {
      const { environment, lease, plugin, tenant } = yield* reuseFixture()
      yield* setLease(lease, { status: "expired", cleanup_status: "success" })
      const id = EnvironmentLeaseId.make(randomUUID())
      yield* EnvironmentLeaseStore.use((store) =>
        store.intend({
          id,
          tenant,
          environment: environment.id,
          run: null,
          provider: "fake-plugin",
          plugin: plugin.id,
          name: "n",
          installation: "i",
          generation: 1,
          process: "p"
        })
      )
      assert.deepInclude(yield* Effect.flip(removeProvider(plugin.id)), { leases: 1 })
      const known = yield* LeaseCensus.use((census) =>
        census.known([id, lease, EnvironmentLeaseId.make(randomUUID())])
      )
      assert.deepStrictEqual(known, new Set([id, lease]))
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("a lease that came between the two looks keeps it, and it is ready again", () =>
    Effect.gen(function* () {
      const { lease, plugin } = yield* reuseFixture()
      yield* setLease(lease, { status: "expired", cleanup_status: "success" })
      const census = yield* LeaseCensus
      let looks = 0
      const late = { ...census, owedBy: () => Effect.sync(() => (looks += 1) - 1) }
      const error = yield* Effect.flip(removeProvider(plugin.id)).pipe(
        Effect.provideService(LeaseCensus, late)
      )
      assert.deepInclude(error, { code: "provider_in_use", leases: 1 })
      assert.deepStrictEqual(yield* isThere(plugin.id), Option.some("ready"))
    }).pipe(Effect.provide(censuses), onClone)
  )
})

describe("environments/LeaseCensus", () => {
  it.live("an environment's tenant is that of its newest lease; without one there is none", () =>
    Effect.gen(function* () {
      const { environment, tenant } = yield* reuseFixture()
      const other = yield* newEnvironment("ssh")
      const census = yield* LeaseCensus
      assert.deepStrictEqual(yield* census.tenantOf(environment.id), Option.some(tenant))
      assert.isTrue(Option.isNone(yield* census.tenantOf(other.id)))
      assert.strictEqual((yield* census.known([])).size, 0)
    }).pipe(Effect.provide(censuses), onClone)
  )
})

describe("work/DaemonRuns", () => {
  it.live("people at the API are one agent of their tenant, also where two come first at once", () =>
    Effect.gen(function* () {
      const [tenant, other] = [yield* newTenant, yield* newTenant]
      const runs = yield* DaemonRuns
      const agents = yield* Effect.all(
        Array.from({ length: 8 }, () => runs.agentOf(tenant)),
        {
          concurrency: "unbounded"
        }
      )
      assert.strictEqual(new Set(agents).size, 1)
      assert.notStrictEqual(yield* runs.agentOf(other), agents[0])
      const nobody = yield* Effect.flip(runs.agentOf(TenantId.make(randomUUID())))
      assert.strictEqual(nobody._tag, "WorkReferenceRefused")
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("live runs of daemons are told, those of others and those that ended are not", () =>
    Effect.gen(function* () {
      const tenant = yield* newTenant
      const runs = yield* DaemonRuns
      const agent = yield* runs.agentOf(tenant)
      const begin = (invocationSource?: string) =>
        WorkStore.use((work) =>
          work.createRun({
            tenant,
            agent,
            status: "running",
            ...(invocationSource === undefined ? {} : { invocationSource })
          })
        )
      const ours = yield* begin("daemon:x")
      const over = yield* begin("daemon:x")
      yield* begin()
      yield* setRun(over.id, "succeeded")
      assert.deepStrictEqual(
        (yield* runs.live).map(({ id }) => id),
        [ours.id]
      )
      const plan = yield* sql(
        "explain select * from core.runs where invocation_source like 'daemon:%' and status in ('queued', 'scheduled_retry', 'running') order by created_at"
      )
      assert.isNotEmpty(plan)
    }).pipe(Effect.provide(censuses), onClone)
  )
})
