import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { BuiltInProvider } from "../../../src/domain/providers/BuiltInProviders.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { findTarget, isPendingCleanupWorkerReady } from "../../../src/domain/runLeases/providerTargets.ts"
import { type DaemonParts, inDaemon, leaseNow } from "./daemons.ts"
import { fakeEntry, newEnvironment, newPlugin, newTenant, onClone, reuseFixture } from "./fixture.ts"
import { newLease, setMetadata } from "./rawRows.ts"
import { scriptedWorkers } from "./scriptedWorkers.ts"

const fake: BuiltInProvider = {
  key: "fake",
  acquireLease: () => Effect.die(new Error("not asked for")),
  releaseLease: () => Effect.succeed(undefined),
  destroyLease: () => Effect.succeed(undefined)
}

const ready = (lease: Parameters<typeof leaseNow>[0], parts: DaemonParts) =>
  Effect.flatMap(leaseNow(lease), isPendingCleanupWorkerReady).pipe(inDaemon(parts))

describe("runLeases/providerTargets", () => {
  it.live("RL-SWEEP-03 the readiness probe, for a row without a pin", () =>
    Effect.gen(function* () {
      const tenant = yield* newTenant
      const environment = yield* newEnvironment("sandbox")
      const orphan = yield* newLease(tenant, environment.id, {
        status: "pending_cleanup",
        provider: "fake-plugin",
        provider_lease_id: "plugin-lease-1",
        metadata: { provider: "fake-plugin" }
      })
      const builtIn = yield* newLease(tenant, environment.id, {
        status: "pending_cleanup",
        provider: "fake",
        provider_lease_id: "sandbox://fake/1"
      })
      const up = scriptedWorkers({ methods: null })
      const down = scriptedWorkers({ methods: null, isRunning: () => false })
      const [isUp, isDown] = [{ workers: up.manager }, { workers: down.manager }]
      assert.isFalse(yield* ready(orphan, isUp), "T42 no plugin row, worker up")
      const plugin = yield* newPlugin({ entries: [fakeEntry()], status: "installing" })
      assert.isFalse(yield* ready(orphan, isUp), "T41 plugin installing, worker up")
      yield* ProviderPlugins.use((plugins) => plugins.setStatus(plugin.id, "ready"))
      assert.isTrue(yield* ready(orphan, isUp), "T40 T41 T42 plugin ready, worker up")
      assert.isFalse(yield* ready(orphan, isDown), "T40 plugin ready, worker down")
      assert.isFalse(yield* ready(orphan, {}), "U21 no manager, plugin-backed")
      yield* newPlugin({ installOrder: -1, status: "installing" })
      assert.isTrue(yield* ready(orphan, isUp), "one that is not ready does not stand before one that is")
      for (const workers of [up.manager, down.manager, null])
        assert.isTrue(yield* ready(builtIn, { builtIns: [fake], workers }), "T40 U21 built-in, always")
      assert.isEmpty([...up.calls, ...down.calls])
    }).pipe(onClone)
  )

  it.live(
    "RL 6.1-3 RL 6.1-4 a pinned owner has to be ready himself, and without a pin nobody is an owner",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ lease: { status: "pending_cleanup" } })
        const up = scriptedWorkers()
        yield* newPlugin({ installOrder: -1 })
        assert.isTrue(yield* ready(scene.lease, { workers: up.manager }))
        yield* ProviderPlugins.use((plugins) => plugins.setStatus(scene.plugin.id, "installing"))
        assert.isFalse(yield* ready(scene.lease, { workers: up.manager }))
        yield* setMetadata(scene.lease, { pluginId: undefined })
        const lease = yield* leaseNow(scene.lease)
        const found = (search: "own" | "by_key") =>
          Effect.map(findTarget(lease, search), Option.isSome).pipe(inDaemon({ workers: up.manager }))
        assert.isFalse(yield* found("own"))
        assert.isTrue(yield* found("by_key"))
      }).pipe(onClone)
  )
})
