/** The driver `plugin`, and drivers of a consumer's own. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { plainDriver } from "./daemons.ts"
import { newEnvironment, onClone } from "./fixture.ts"
import { leasedByPlugin, pluginScene, returned } from "./pluginScenes.ts"
import { leaseRow, newLease } from "./rawRows.ts"
import { freshRuntime } from "./runtimes.ts"

describe("pluginDriver", () => {
  it.live.each([
    ["undeclared", undefined, [3, undefined]],
    ["300000", 300_000, [4, 330_000]]
  ] as const)("RL-DRIVER-02 RL-BUDGET-05 acquire, declared %s", ([, declared, given]) =>
    Effect.gen(function* () {
      const expiresAt = "2031-05-06T07:08:09.123Z"
      const answer = { providerLeaseId: "p-1", expiresAt, metadata: returned }
      const scene = yield* pluginScene(
        { environmentAcquireLease: answer },
        { defaultAcquireTimeoutMs: declared }
      )
      const { lease } = yield* scene.runtime.acquireRunLease(scene.asked)
      const [call, ...others] = scene.workers.calls
      assert.deepStrictEqual(others, [])
      assert.strictEqual(call?.plugin, scene.plugin.id)
      assert.deepStrictEqual(call?.params, {
        driverKey: "fake-plugin",
        tenantId: scene.tenant,
        environmentId: scene.environment.id,
        executionWorkspaceSettings: null,
        taskId: null,
        config: { template: "base" },
        runId: scene.run
      })
      assert.deepStrictEqual([call?.given.length, call?.given[3]], [...given])
      const row = yield* leaseRow(lease.id)
      assert.deepStrictEqual(row.metadata, {
        driver: "plugin",
        pluginId: scene.plugin.id,
        pluginKey: "acme.environments",
        driverKey: "fake-plugin",
        executionWorkspaceMode: null,
        providerMetadata: returned
      })
      assert.deepInclude(row, { provider_lease_id: "p-1", status: "active" })
      assert.strictEqual((row["expires_at"] as Date).toISOString(), expiresAt)
    }).pipe(onClone)
  )

  it.live("RL-DRIVER-02 a plugin that is not ready carries nothing", () =>
    Effect.gen(function* () {
      const scene = yield* pluginScene()
      yield* ProviderPlugins.use((plugins) => plugins.setStatus(scene.plugin.id, "installed"))
      const refused = yield* Effect.flip(scene.runtime.acquireRunLease(scene.asked))
      assert.strictEqual(refused.name, "SandboxProviderUnknown")
      assert.deepStrictEqual(scene.workers.calls, [])
    }).pipe(onClone)
  )

  it.live("RL-DRIVER-03 RL-BUDGET-05 release, after the environment has changed", () =>
    Effect.gen(function* () {
      const scene = yield* leasedByPlugin
      yield* EnvironmentStore.use((store) =>
        store.update(scene.environment.id, { driver: "sandbox", config: {} })
      )
      const released = yield* scene.runtime.releaseRunLeases(scene.run)
      assert.deepStrictEqual(
        released.map(({ lease }) => lease.status),
        ["released"]
      )
      const [call, ...others] = scene.workers.calls
      assert.deepStrictEqual(others, [])
      assert.strictEqual(call?.method, "environmentReleaseLease")
      assert.strictEqual(call?.given.length, 3)
      assert.deepStrictEqual(call?.params, {
        driverKey: "fake-plugin",
        tenantId: scene.tenant,
        environmentId: scene.environment.id,
        taskId: null,
        config: {},
        providerLeaseId: "p-1",
        leaseMetadata: scene.lease.metadata
      })
      assert.deepInclude(scene.lease.metadata, { driver: "plugin", pluginId: scene.plugin.id })
    }).pipe(onClone)
  )

  it.live("RL-DRIVER-03 a release that fails is told, and the row stays active", () =>
    Effect.gen(function* () {
      const failure = new Error("the provider's own")
      const scene = yield* pluginScene({ environmentReleaseLease: failure })
      const { lease } = yield* scene.runtime.acquireRunLease(scene.asked)
      const told: Array<unknown> = []
      const onError = (...fault: ReadonlyArray<unknown>) => Effect.sync(() => void told.push(fault))
      assert.deepStrictEqual(yield* scene.runtime.releaseRunLeases(scene.run, { onError }), [])
      assert.deepStrictEqual(told, [[lease.id, failure]])
      assert.strictEqual((yield* leaseRow(lease.id))["status"], "active")
    }).pipe(onClone)
  )

  it.live.each([
    ["keep_running", "environmentReleaseLease", "released"],
    ["stop_and_retain", "environmentReleaseLease", "released"],
    ["destroy", "environmentDestroyLease", "expired"]
  ] as const)("RL-DRIVER-03 U13 disposition %s", ([disposition, method, status]) =>
    Effect.gen(function* () {
      const scene = yield* leasedByPlugin
      const [released] = yield* scene.runtime.releaseRunLeases(scene.run, { disposition })
      assert.deepStrictEqual(scene.workers.methods(), [method])
      assert.strictEqual(released?.lease.status, status)
    }).pipe(onClone)
  )

  it.live("RL-DRIVER-04 RL-BUDGET-05 resume and destroy, three arguments each", () =>
    Effect.gen(function* () {
      const scene = yield* leasedByPlugin
      const resumed = yield* scene.runtime.resumeRunLease(scene.place)
      assert.deepStrictEqual(resumed, { providerLeaseId: "p-1", metadata: { resumed: true } })
      const destroyed = yield* scene.runtime.destroyRunLease(scene.place)
      assert.strictEqual(destroyed.status, "failed")
      assert.deepStrictEqual(
        scene.workers.calls.map(({ given, method }) => [method, given.length]),
        [
          ["environmentResumeLease", 3],
          ["environmentDestroyLease", 3]
        ]
      )
      for (const { params } of scene.workers.calls) {
        assert.deepStrictEqual(params, {
          driverKey: "fake-plugin",
          tenantId: scene.tenant,
          environmentId: scene.environment.id,
          taskId: null,
          config: { template: "base" },
          providerLeaseId: "p-1",
          leaseMetadata: scene.lease.metadata
        })
      }
    }).pipe(onClone)
  )

  it.live("RL-CAP-07 RL-DRIVER-04 a resume that the worker has stopped to list is not sent", () =>
    Effect.gen(function* () {
      const scene = yield* leasedByPlugin
      scene.workers.script.methods = () => ["environmentExecute"]
      const refused = yield* Effect.flip(scene.runtime.resumeRunLease(scene.place))
      assert.include(refused.message, "the lease was preserved and no replacement was created")
      assert.deepStrictEqual(scene.workers.calls, [])
      assert.strictEqual((yield* leaseRow(scene.lease.id))["status"], "active")
      scene.workers.script.methods = null
      assert.deepInclude(yield* scene.runtime.resumeRunLease(scene.place), { providerLeaseId: "p-1" })
    }).pipe(onClone)
  )

  it.live.each([
    ["another lease", { providerLeaseId: "p-2", metadata: {} }, "the provider answered for another lease"],
    ["its loss", { providerLeaseId: null, metadata: { expired: true } }, "the provider has lost it"],
    ["nothing", undefined, "the provider answered for another lease"]
  ] as const)("RL-DRIVER-04 U4 a resume that is answered with %s", ([, answer, why]) =>
    Effect.gen(function* () {
      const scene = yield* pluginScene({ environmentResumeLease: answer })
      const { lease } = yield* scene.runtime.acquireRunLease(scene.asked)
      const refused = yield* Effect.flip(
        scene.runtime.resumeRunLease({ environment: scene.environment, lease })
      )
      assert.strictEqual(
        refused.message,
        `Sandbox lease "${lease.id}" could not be resumed (${why}); the lease was preserved and no replacement was created.`
      )
      assert.strictEqual((yield* leaseRow(lease.id))["status"], "active")
    }).pipe(onClone)
  )

  it.live("RL-DRIVER-05 RL-EXEC-03 RL-WORKSPACE-03 RL-BUDGET-04 RL-BUDGET-05 realize and execute", () =>
    Effect.gen(function* () {
      const scene = yield* leasedByPlugin
      const workspace = { localPath: "/tmp/project", mode: "ephemeral" }
      const realized = yield* scene.runtime.realizeWorkspace({ ...scene.place, workspace })
      assert.deepStrictEqual(realized, { cwd: "/workspace/project", metadata: { realized: true } })
      const command = { command: "echo", args: ["ok"], cwd: realized.cwd, env: { A: "1" } }
      const logSink = () => {}
      const result = yield* scene.runtime.execute({
        ...scene.place,
        ...command,
        timeoutMillis: 1000,
        logSink
      })
      assert.strictEqual(result.stdout, "ok")
      yield* scene.runtime.execute({ ...scene.place, ...command })
      assert.deepStrictEqual(
        scene.workers.calls.map(({ given, method }) => [method, given.length, given[3]]),
        [
          ["environmentRealizeWorkspace", 3, undefined],
          ["environmentExecute", 4, 31_000],
          ["environmentExecute", 3, undefined]
        ]
      )
      const common = {
        driverKey: "fake-plugin",
        tenantId: scene.tenant,
        environmentId: scene.environment.id,
        config: { template: "base" }
      }
      const [realize, execute] = scene.workers.calls
      assert.deepInclude(realize?.params, { ...common, workspace })
      assert.deepInclude(execute?.params, { ...common, ...command, timeoutMs: 1000 })
    }).pipe(onClone)
  )

  it.live("RL-DRIVER-01 RL-DRIVER-06 the recorded driver of a consumer's own list releases", () =>
    Effect.gen(function* () {
      const scene = yield* leasedPlugin()
      const store = yield* EnvironmentLeaseStore
      const released: Array<string> = []
      const counted = (name: string) => {
        const driver = plainDriver(name, store)
        return {
          ...driver,
          releaseRunLease: (asked: Parameters<typeof driver.releaseRunLease>[0]) =>
            Effect.suspend(() => {
              released.push(name)
              return driver.releaseRunLease(asked)
            })
        }
      }
      const runtime = yield* freshRuntime({ drivers: [counted("local"), counted("ssh")] })
      const environment = yield* newEnvironment("local")
      yield* newLease(scene.tenant, environment.id, { run_id: scene.run, metadata: { driver: "local" } })
      yield* EnvironmentStore.use((stored) => stored.update(environment.id, { driver: "ssh" }))
      const entries = yield* runtime.releaseRunLeases(scene.run)
      assert.strictEqual(entries.length, 1)
      assert.deepStrictEqual(released, ["local"])
      const refused = yield* Effect.flip(runtime.acquireRunLease(acquisitionOf(scene)))
      assert.include(refused.message, 'Environment driver "sandbox" is not registered')
    }).pipe(onClone)
  )
})
