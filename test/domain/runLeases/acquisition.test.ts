/** Acquiring leases: which call is made, what the row says, and what is refused before anything is written. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { EnvironmentDriver } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { newAgent, newEnvironment, newPlugin, newRun, newTenant, onClone } from "./fixture.ts"
import { sql } from "./rawRows.ts"
import { freshRuntime } from "./runtimes.ts"
import { lifecycleMethods } from "./scriptedWorkers.ts"

const newHolder = Effect.gen(function* () {
  const tenant = yield* newTenant
  const agent = yield* newAgent(tenant)
  const run = yield* newRun(tenant, agent.id)
  return { tenant, agent: agent.id, run: run.id }
})

/** A driver that inserts rows and carries nothing. */
const rowDriver = (driver: string): Effect.Effect<EnvironmentDriver, never, EnvironmentLeaseStore> =>
  EnvironmentLeaseStore.useSync((store) => ({
    driver,
    acquireRunLease: (asked) =>
      store.acquireLease({
        id: EnvironmentLeaseId.make(crypto.randomUUID()),
        tenant: asked.tenant,
        environment: asked.environment.id,
        executionWorkspace: asked.executionWorkspace?.id ?? null,
        task: asked.task,
        run: asked.run,
        policy: "ephemeral",
        provider: null,
        providerLeaseId: null,
        expiresAtMillis: null,
        metadata: { driver, executionWorkspaceMode: asked.executionWorkspace?.mode ?? null },
        sentConfig: null,
        assertTenantBinding: false
      }),
    releaseRunLease: () => Effect.die(new Error("nothing is released here"))
  }))

describe("acquisition", () => {
  it.live("RL-ACQ-01 a lease without a workspace says so, in the row and in its context", () =>
    Effect.gen(function* () {
      const { run, tenant } = yield* newHolder
      const environment = yield* newEnvironment("local")
      const runtime = yield* freshRuntime({ drivers: [yield* rowDriver("local")] })
      const { lease, leaseContext } = yield* runtime.acquireRunLease({
        tenant,
        environment,
        task: null,
        run,
        executionWorkspace: null
      })
      assert.strictEqual(lease.status, "active")
      assert.isNull(lease.executionWorkspace)
      assert.deepInclude(lease.metadata, { driver: "local", executionWorkspaceMode: null })
      assert.deepStrictEqual(leaseContext, { executionWorkspaceId: null, executionWorkspaceMode: null })
    }).pipe(onClone)
  )

  it.live("RL-ACQ-02 a driver that is not registered is refused before anything is written", () =>
    Effect.gen(function* () {
      const { run, tenant } = yield* newHolder
      const environment = yield* newEnvironment("ssh")
      const local = yield* rowDriver("local")
      let asked = 0
      const counted = { ...local, acquireRunLease: () => Effect.die(new Error(`asked ${(asked += 1)}`)) }
      const runtime = yield* freshRuntime({ drivers: [counted] })
      const refused = yield* Effect.flip(
        runtime.acquireRunLease({ tenant, environment, task: null, run, executionWorkspace: null })
      )
      assert.strictEqual(
        refused.message,
        'Environment driver "ssh" is not registered in the environment runtime yet.'
      )
      assert.strictEqual(asked, 0)
      assert.deepStrictEqual(yield* sql("select 1 from environment_leases"), [])
    }).pipe(onClone)
  )

  it.live(
    "RL-ACQ-03 a built-in sandbox has an id of its run, and is ephemeral whatever its config says",
    () =>
      Effect.gen(function* () {
        const { run, tenant } = yield* newHolder
        const environment = yield* newEnvironment("sandbox", {
          provider: "fake",
          image: "ubuntu:24.04",
          reuseLease: true
        })
        const fake = makeFakeProvider()
        const runtime = yield* freshRuntime({ builtIns: [fake.provider] })
        const { lease } = yield* runtime.acquireRunLease({
          tenant,
          environment,
          task: null,
          run,
          executionWorkspace: null
        })
        assert.strictEqual(lease.status, "active")
        assert.match(String(lease.providerLeaseId), new RegExp(`^sandbox://fake/${run}/[0-9a-f-]{36}$`))
        assert.strictEqual(lease.policy, "ephemeral")
        assert.deepInclude(lease.metadata, {
          driver: "sandbox",
          provider: "fake",
          image: "ubuntu:24.04",
          reuseLease: true,
          sandboxLeaseAcquisition: { outcome: "created" }
        })
      }).pipe(onClone)
  )

  it.live(
    "RL-ACQ-04 RL-ACQ-05 a plugin is asked under its key, with the config but for the provider's name",
    () =>
      Effect.gen(function* () {
        const scene = yield* leasedPlugin({ config: { provider: "fake-plugin", image: "i", target: null } })
        const { lease } = yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
        const [call, ...others] = scene.workers.calls
        assert.deepStrictEqual(others, [])
        assert.strictEqual(call?.plugin, scene.plugin.id)
        assert.strictEqual(call?.method, "environmentAcquireLease")
        assert.deepStrictEqual(call?.params, {
          driverKey: "fake-plugin",
          tenantId: scene.tenant,
          environmentId: scene.environment.id,
          executionWorkspaceId: scene.workspace,
          executionWorkspaceSettings: null,
          taskId: null,
          config: { image: "i", target: null },
          agentId: scene.agent,
          workspaceMode: "shared_workspace",
          runId: scene.run
        })
        assert.strictEqual(lease.providerLeaseId, "sandbox-1")
        assert.strictEqual(lease.policy, "ephemeral")
        assert.deepStrictEqual(lease.sentConfig, { image: "i", target: null })
        assert.deepStrictEqual(lease.metadata["sandboxLeaseAcquisition"], { outcome: "created" })
        assert.deepInclude(lease.metadata, {
          agentId: scene.agent,
          pluginId: scene.plugin.id,
          pluginKey: scene.plugin.pluginKey,
          sandboxProviderPlugin: true
        })
      }).pipe(onClone)
  )

  const stored = { provider: "fake-plugin", image: "i", timeoutMs: 1234 }
  const policies = [
    ["false / any / any", { reuseLease: false }, {}, lifecycleMethods, true, "ephemeral"],
    ["true / true / yes", { reuseLease: true }, {}, lifecycleMethods, true, "reuse_by_environment"],
    [
      "true / not opted in / yes",
      { reuseLease: true },
      { supportsReusableLeases: undefined },
      lifecycleMethods,
      true,
      "ephemeral"
    ],
    [
      "true / nested false over older flag true / yes",
      { reuseLease: true },
      { sandboxCapabilities: { reusableLeases: false } },
      lifecycleMethods,
      true,
      "ephemeral"
    ],
    [
      "true / declared, worker lacks the verbs / yes",
      { reuseLease: true },
      { supportsReusableLeases: undefined, sandboxCapabilities: { reusableLeases: true } },
      ["environmentExecute"],
      true,
      "ephemeral"
    ],
    ["true / true / no", { reuseLease: true }, {}, lifecycleMethods, false, "ephemeral"]
  ] as const
  it.live.each(policies)("RL-ACQ-06 policy: %s", ([, flag, entry, methods, hasScope, policy]) =>
    Effect.gen(function* () {
      const scene = yield* leasedPlugin({ config: { ...stored, ...flag }, entry, methods })
      const whole = acquisitionOf(scene)
      const { lease } = yield* scene.runtime.acquireRunLease(
        hasScope ? whole : { ...whole, executionWorkspace: null }
      )
      assert.strictEqual(lease.policy, policy)
      assert.strictEqual(lease.executionWorkspace, hasScope ? scene.workspace : null)
      assert.strictEqual("reusableSandboxLease" in lease.metadata, policy === "reuse_by_environment")
    }).pipe(onClone)
  )

  it.live("RL-ACQ-04 of the plugins of a key the first that is ready is asked", () =>
    Effect.gen(function* () {
      const scene = yield* leasedPlugin({ config: { ...stored, reuseLease: false } })
      yield* newPlugin({ installOrder: -1, status: "installing" })
      const asked = scene.runtime.acquireRunLease(acquisitionOf(scene))
      assert.strictEqual((yield* asked).lease.metadata["pluginId"], scene.plugin.id)
      const first = yield* newPlugin({ installOrder: 0 })
      const run = (yield* newRun(scene.tenant, scene.agent)).id
      const next = yield* scene.runtime.acquireRunLease({ ...acquisitionOf(scene), run })
      assert.strictEqual(next.lease.metadata["pluginId"], first.id)
      assert.deepStrictEqual(
        scene.workers.calls.map(({ plugin }) => plugin),
        [scene.plugin.id, first.id]
      )
    }).pipe(onClone)
  )

  it.live("RL-ACQ-06 policy: true / built-in / no", () =>
    Effect.gen(function* () {
      const { agent, run, tenant } = yield* newHolder
      const environment = yield* newEnvironment("sandbox", { provider: "fake", reuseLease: true })
      const runtime = yield* freshRuntime({ builtIns: [makeFakeProvider().provider] })
      const asked = { tenant, environment, task: null, run, agent, executionWorkspace: null }
      assert.strictEqual((yield* runtime.acquireRunLease(asked)).lease.policy, "ephemeral")
    }).pipe(onClone)
  )
})
