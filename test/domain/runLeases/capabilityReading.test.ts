import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { resolveCapabilities } from "../../../src/domain/runLeases/capabilityReading.ts"
import { inDaemon, leaseNow } from "./daemons.ts"
import { fakeEntry, newPlugin, onClone, reuseFixture } from "./fixture.ts"
import { setMetadata } from "./rawRows.ts"
import { scriptedWorkers } from "./scriptedWorkers.ts"

const sync = ["environmentSyncIn", "environmentSyncOut"]
const all = ["environmentResumeLease", "environmentReleaseLease", ...sync]

type Scene = Effect.Success<ReturnType<typeof reuseFixture>>

/** The keys that are granted. */
const granted = (scene: Scene, methods: ReadonlyArray<string> = all, isRunning = true) =>
  Effect.flatMap(leaseNow(scene.lease), resolveCapabilities).pipe(
    inDaemon({ workers: scriptedWorkers({ methods: () => methods, isRunning: () => isRunning }).manager }),
    Effect.map((capabilities) => Object.entries(capabilities).flatMap(([key, holds]) => (holds ? [key] : [])))
  )

describe("runLeases/capabilityReading", () => {
  it.live("RL-CAP-01 the pin decides, whatever an earlier plugin of the same key grants", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ entry: { sandboxCapabilities: { reusableLeases: false } } })
      yield* newPlugin({ installOrder: 0, status: "installed", entries: [fakeEntry()] })
      assert.deepStrictEqual(yield* granted(scene), ["nativeSyncIn", "nativeSyncOut"])
    }).pipe(onClone)
  )

  it.live("RL-CAP-02 pinned plugin gone: every key false", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      assert.include(yield* granted(scene), "reusableLeases")
      yield* ProviderPlugins.use((plugins) => plugins.remove(scene.plugin.id))
      yield* newPlugin({ entries: [fakeEntry()] })
      assert.deepStrictEqual(yield* granted(scene), [])
    }).pipe(onClone)
  )

  it.live("RL-CAP-03 pinned plugin no longer declares the key as sandbox_provider: every key false", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ entry: { kind: "environment_driver" } })
      assert.deepStrictEqual(yield* granted(scene), [])
    }).pipe(onClone)
  )

  it.live("RL-CAP-04 no declaration at all is not an identity failure", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ entry: { supportsReusableLeases: undefined } })
      assert.deepStrictEqual(yield* granted(scene, sync), ["nativeSyncIn", "nativeSyncOut"])
    }).pipe(onClone)
  )

  it.live("U2 no worker, no pin or another driver: denied", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      assert.deepStrictEqual(yield* granted(scene, all, false), [])
      yield* setMetadata(scene.lease, { driver: "local" })
      assert.deepStrictEqual(yield* granted(scene), [])
      yield* setMetadata(scene.lease, { driver: "sandbox", pluginId: undefined })
      assert.deepStrictEqual(yield* granted(scene), [])
    }).pipe(onClone)
  )
})
