/** What a plugin's environment is called with: the present config, its secrets opened for the call alone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { bindSecret, createSecret } from "../../../src/domain/secrets/vault.ts"
import { newEnvironment, onClone } from "./fixture.ts"
import { pluginScene } from "./pluginScenes.ts"
import { leaseRow } from "./rawRows.ts"

describe("pluginCalls", () => {
  it.live(
    "RL-SECRET-01 RL-SECRET-02 secrets of a driver config are opened, and scrubbed from what comes back",
    () =>
      Effect.gen(function* () {
        const value = "canary-of-the-driver"
        const scene = yield* pluginScene({
          environmentAcquireLease: ({ params }) => ({
            providerLeaseId: "p-1",
            metadata: { echo: params["config"] }
          })
        })
        const { tenant } = scene
        const secret = (yield* createSecret({ tenant, name: "key", value: Redacted.make(value) })).id
        const apiKey = { type: "secret_ref", secretId: secret, version: "latest" }
        const environment = yield* newEnvironment("plugin", {
          pluginKey: "acme.environments",
          driverKey: "fake-plugin",
          driverConfig: { apiKey }
        })
        yield* bindSecret({ tenant, secret, environment: environment.id, configPath: "driverConfig.apiKey" })
        const { lease } = yield* scene.runtime.acquireRunLease({ ...scene.asked, environment })
        yield* scene.runtime.releaseRunLeases(scene.run)
        for (const { params } of scene.workers.calls)
          assert.deepStrictEqual(params["config"], { apiKey: value })
        const { metadata, sent_config } = yield* leaseRow(lease.id)
        assert.deepStrictEqual(sent_config, { apiKey })
        assert.notInclude(JSON.stringify(metadata), value)
      }).pipe(onClone)
  )

  it.live("RL-DRIVER-02 a plugin that is not there by both of its names is told, and nothing is called", () =>
    Effect.gen(function* () {
      const scene = yield* pluginScene()
      for (const other of [{ pluginKey: "acme.others" }, { driverKey: "others" }, { driverKey: 7 }]) {
        const environment = yield* newEnvironment("plugin", { ...scene.environment.config, ...other })
        const refused = yield* Effect.flip(scene.runtime.acquireRunLease({ ...scene.asked, environment }))
        assert.include(refused.message, "neither built in nor installed and ready")
      }
      assert.deepStrictEqual(scene.workers.calls, [])
    }).pipe(onClone)
  )
})
