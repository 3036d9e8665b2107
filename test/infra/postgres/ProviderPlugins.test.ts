/** Installed provider plugins; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { providerPluginsMax } from "../../../src/domain/Bounds.ts"
import { driverEntryOf } from "../../../src/domain/providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { fakeEntry, newPlugin, onClone, reuseFixture } from "../../domain/runLeases/fixture.ts"
import { leaseRow, value } from "../../domain/runLeases/rawRows.ts"

describe("ProviderPlugins", () => {
  it.live("RL 2.1 an update keeps the id and the order, and all come by order and then by key", () =>
    Effect.gen(function* () {
      const plugins = yield* ProviderPlugins
      const second = yield* newPlugin({ key: "b", installOrder: 1 })
      yield* newPlugin({ key: "a", installOrder: 1, status: "installing" })
      yield* newPlugin({ key: "z", installOrder: -1, status: "installed" })
      const manifest = {
        id: "b",
        apiVersion: 1,
        version: "2.0.0",
        environmentDrivers: [fakeEntry()]
      } as const
      const updated = yield* plugins.install({ packageName: "other", manifest, status: "installed" })
      assert.deepInclude(updated, { id: second.id, pluginKey: "b", version: "2.0.0", installOrder: 1 })
      assert.deepStrictEqual(updated.manifest, manifest)
      assert.isDefined(driverEntryOf(updated, "fake-plugin"))
      const last = yield* plugins.install({
        packageName: "new",
        manifest: { id: "c", apiVersion: 1, version: "1" },
        status: "ready"
      })
      assert.strictEqual(last.installOrder, 2, "a new one comes after those that are there")
      assert.deepStrictEqual(
        (yield* plugins.all).map(({ pluginKey, status }) => [pluginKey, status]),
        [
          ["z", "installed"],
          ["a", "installing"],
          ["b", "installed"],
          ["c", "ready"]
        ]
      )
      assert.isTrue(yield* plugins.setStatus(second.id, "ready"))
      assert.strictEqual(Option.getOrThrow(yield* plugins.byId(second.id)).status, "ready")
    }).pipe(onClone)
  )

  it.live("RL 2.1 a plugin that leases name can be removed, and they go on naming it", () =>
    Effect.gen(function* () {
      const plugins = yield* ProviderPlugins
      const scene = yield* reuseFixture()
      assert.isTrue(yield* plugins.remove(scene.plugin.id))
      assert.isFalse(yield* plugins.remove(scene.plugin.id))
      assert.deepStrictEqual(yield* plugins.byId(scene.plugin.id), Option.none())
      assert.strictEqual((yield* leaseRow(scene.lease)).metadata["pluginId"], scene.plugin.id)
      const restricting = yield* value(
        `select count(*)::int from pg_constraint where contype = 'f' and confrelid = 'core.provider_plugins'::regclass`
      )
      assert.strictEqual(restricting, 0)
      assert.isAbove(providerPluginsMax, 0)
    }).pipe(onClone)
  )
})
