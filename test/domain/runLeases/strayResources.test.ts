/** Resources of ours that are nobody's: seen twice, journaled, then destroyed; and what is left alone. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { providerOrphanGraceMillis } from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentId, EnvironmentLeaseId, RunId } from "../../../src/domain/Identity.ts"
import type { BuiltInProvider } from "../../../src/domain/providers/BuiltInProviders.ts"
import { RuntimeSettings } from "../../../src/domain/runLeases/RuntimeSettings.ts"
import { makeStraySearch } from "../../../src/domain/runLeases/strayResources.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { censuses, people } from "./callers.ts"
import { inDaemon, sweepIn } from "./daemons.ts"
import { fakeEntry, newEnvironment, newPlugin, onClone } from "./fixture.ts"
import { leaseRow, newLease, sql } from "./rawRows.ts"
import { settings } from "./runtimes.ts"
import { lifecycleMethods, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const grace = TestClock.adjust(providerOrphanGraceMillis)

/** A resource of the provider's, made past every row. */
const created = ({ provider }: { readonly provider: BuiltInProvider }, label: string, name: string) =>
  provider.acquireLease({
    tenant: randomUUID() as never,
    environment: EnvironmentId.make(randomUUID()),
    task: null,
    run: RunId.make(randomUUID()),
    config: {},
    intent: { name, installation: label, generation: 1 }
  })

const ours = (id: string) => `${settings.installation}-${id}`

const scene = Effect.gen(function* () {
  const { tenant } = yield* people
  const fake = makeFakeProvider()
  const environment = yield* newEnvironment("sandbox", { provider: "fake", image: "x" })
  const parts = { builtIns: [fake.provider] }
  const search = yield* makeStraySearch({ own: tenant, providers: [] })
  const pass = search.pipe(inDaemon(parts), Effect.provideService(RuntimeSettings, settings))
  return { environment, fake, parts, pass, tenant }
})

const rows = sql("select id, status from environment_leases")

describe("runLeases/strayResources", () => {
  it.effect(
    "FC-03 BX-03 a resource of ours without a row is seen twice, becomes a row, and is destroyed",
    () =>
      Effect.gen(function* () {
        const { environment, fake, parts, pass, tenant } = yield* scene
        const id = EnvironmentLeaseId.make(randomUUID())
        const { providerLeaseId } = yield* created(fake, settings.installation, ours(id))
        assert.deepStrictEqual(yield* pass, { attempted: 0, done: 0, failed: 0 })
        yield* TestClock.adjust(providerOrphanGraceMillis - 1)
        assert.strictEqual((yield* pass).attempted, 0)
        assert.deepStrictEqual([fake.sandboxes().length, yield* rows], [1, []])
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(yield* pass, { attempted: 1, done: 1, failed: 0 })
        assert.deepInclude(yield* leaseRow(id), {
          status: "pending_cleanup",
          provider: "fake",
          provider_lease_id: providerLeaseId,
          failure_reason: "provider_stray",
          environment_id: environment.id,
          tenant_id: tenant
        })
        assert.lengthOf(fake.sandboxes(), 1, "it is journaled before anything is destroyed")
        yield* sweepIn(parts)
        assert.deepStrictEqual(fake.sandboxes(), [])
        assert.strictEqual((yield* leaseRow(id))["status"], "expired")
      }).pipe(Effect.provide(censuses), onClone)
  )

  it.effect("FC-03 whose it is is read anew: one that got its row in between is left alone", () =>
    Effect.gen(function* () {
      const { environment, fake, pass, tenant } = yield* scene
      const id = EnvironmentLeaseId.make(randomUUID())
      yield* created(fake, settings.installation, ours(id))
      yield* pass
      yield* grace
      const made = yield* newLease(tenant, environment.id)
      yield* sql("update environment_leases set id = $1::uuid where id = $2::uuid", [id, made])
      assert.strictEqual((yield* pass).attempted, 0)
      assert.deepStrictEqual(
        (yield* rows).map(({ status }) => status),
        ["active"]
      )
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.effect("BX-01 so is one whose acquisition is under way: its intent has its name", () =>
    Effect.gen(function* () {
      const { environment, fake, pass, tenant } = yield* scene
      const id = EnvironmentLeaseId.make(randomUUID())
      yield* EnvironmentLeaseStore.use((store) =>
        store.intend({
          id,
          tenant,
          environment: environment.id,
          run: null,
          provider: "fake",
          plugin: null,
          name: ours(id),
          installation: settings.installation,
          generation: 1,
          process: "p"
        })
      )
      yield* created(fake, settings.installation, ours(id))
      yield* pass
      yield* grace
      assert.strictEqual((yield* pass).attempted, 0)
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.effect.each([
    ["another installation's label", "holdfast-other", (id: string) => `holdfast-other-${id}`],
    ["our label and a name that is none of ours", settings.installation, () => "made by hand"],
    [
      "our label and another installation's name",
      settings.installation,
      (id: string) => `holdfast-live-${id}`
    ]
  ] as const)("FC-03 a resource with %s is never touched", ([, label, nameOf]) =>
    Effect.gen(function* () {
      const { fake, parts, pass } = yield* scene
      yield* created(fake, label, nameOf(randomUUID()))
      for (let passes = 0; passes < 3; passes += 1) {
        assert.strictEqual((yield* pass).attempted, 0)
        yield* grace
      }
      yield* sweepIn(parts)
      assert.deepStrictEqual([fake.sandboxes().length, yield* rows], [1, []])
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.effect("BX-03 one that was missing in between begins anew", () =>
    Effect.gen(function* () {
      const { fake, pass } = yield* scene
      yield* created(fake, settings.installation, ours(randomUUID()))
      yield* pass
      yield* grace
      fake.script("list", () => Effect.succeed([]))
      yield* pass
      assert.strictEqual((yield* pass).attempted, 0)
      yield* grace
      assert.strictEqual((yield* pass).attempted, 1)
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.effect(
    "FC-03 a plugin's stray is pinned to the plugin that lists it, with its environment's config",
    () =>
      Effect.gen(function* () {
        const { tenant } = yield* people
        const plugin = yield* newPlugin({ entries: [fakeEntry({ supportsIntents: true })] })
        const environment = yield* newEnvironment("sandbox", { provider: "fake-plugin", image: "y" })
        const id = EnvironmentLeaseId.make(randomUUID())
        const held = ["s-1"]
        const workers = scriptedWorkers({
          methods: () => [...lifecycleMethods, "environmentListLeases"],
          call: (call) =>
            Effect.sync(() => {
              if (call.method === "environmentListLeases")
                return { leases: held.map((providerLeaseId) => ({ providerLeaseId, intentName: ours(id) })) }
              held.pop()
              return receiptOf("destroyed")(call)
            })
        })
        const search = yield* makeStraySearch({ own: tenant, providers: [] })
        const parts = { workers: workers.manager }
        const pass = search.pipe(inDaemon(parts), Effect.provideService(RuntimeSettings, settings))
        yield* pass
        yield* grace
        assert.strictEqual((yield* pass).done, 1)
        assert.deepInclude((yield* leaseRow(id)).metadata, { pluginId: plugin.id, image: "y" })
        assert.deepInclude(yield* leaseRow(id), { environment_id: environment.id })
        yield* sweepIn(parts)
        assert.strictEqual((yield* leaseRow(id))["status"], "expired")
      }).pipe(Effect.provide(censuses), onClone)
  )
})
