/** What does not lead back to a sandbox: failing and lying providers, workers that lose their verbs, others' leases. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { RunnerHarnessBackupUnavailable } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import { nativeRunnerAdapter } from "../../../src/domain/work/Work.ts"
import { acquisitionOf, sandboxAnswers } from "./acquisitions.ts"
import {
  newAgent,
  newEnvironment,
  newRun,
  onClone,
  reusableLeaseId,
  type ReuseOptions,
  reuseFixture
} from "./fixture.ts"
import { leaseRow, leaseRowsOf, newLease } from "./rawRows.ts"
import { freshRuntime, type RuntimeParts } from "./runtimes.ts"
import { type Answers, answering, lifecycleMethods, scriptedWorkers } from "./scriptedWorkers.ts"

const held = (options: ReuseOptions, answers: Answers = {}, parts: RuntimeParts = {}) =>
  Effect.gen(function* () {
    const scene = yield* reuseFixture(options)
    const workers = scriptedWorkers({ call: answering({ ...sandboxAnswers(), ...answers }) })
    const runtime = yield* freshRuntime({ workers: workers.manager, ...parts })
    return { ...scene, workers, runtime }
  })

const preservedFragment = "the lease was preserved and no replacement was created"
const gone = { providerLeaseId: null, metadata: { expired: true } }

describe("resumption", () => {
  it.live.each([
    ["the provider throws", new Error("unavailable")],
    ["a different id", { providerLeaseId: "other", metadata: {} }],
    ["no id and no word of loss", { providerLeaseId: null, metadata: {} }],
    ["nothing", undefined]
  ] as const)("RL-REUSE-12 U4 a failing resume preserves the lease: %s", ([, answer]) =>
    Effect.gen(function* () {
      const scene = yield* held({}, { environmentResumeLease: answer })
      const refused = yield* Effect.flip(scene.runtime.acquireRunLease(acquisitionOf(scene)))
      assert.match(
        refused.message,
        new RegExp(`^Sandbox lease "${scene.lease}" could not be resumed \\(.*\\); ${preservedFragment}\\.$`)
      )
      assert.notInclude(refused.message, "unavailable")
      assert.deepStrictEqual(scene.workers.methods(), ["environmentResumeLease"])
      const [call] = scene.workers.calls
      assert.deepInclude(call?.params, { driverKey: "fake-plugin", providerLeaseId: reusableLeaseId })
      assert.deepStrictEqual([call?.given.length, call?.given[3]], [4, 31_234])
      assert.strictEqual((yield* leaseRow(scene.lease))["status"], "active")
    }).pipe(onClone)
  )

  /** Moves the test's clock until the effect has ended, and says how far. */
  const elapsedMillis = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Effect.exit(effect))
      let passed = 0
      while (fiber.pollUnsafe() === undefined) {
        yield* TestClock.adjust(250)
        yield* TestClock.withLive(Effect.sleep(2))
        passed += 250
      }
      return { exit: yield* Fiber.join(fiber), passed }
    })

  it.effect("RL-REUSE-12 U1 a resume that fails is tried again for a minute, ever more seldom", () =>
    Effect.gen(function* () {
      const scene = yield* held(
        {},
        { environmentResumeLease: new Error("unavailable") },
        { settings: { resumeAttemptMillis: 60_000 } }
      )
      const { exit, passed } = yield* elapsedMillis(scene.runtime.acquireRunLease(acquisitionOf(scene)))
      assert.isTrue(Exit.isFailure(exit))
      const tries = scene.workers.callsOf("environmentResumeLease").length
      assert.isAtLeast(tries, 12)
      assert.isAtMost(tries, 24)
      assert.isAtLeast(passed, 50_000)
      assert.isAtMost(passed, 75_000)
      assert.strictEqual(scene.workers.calls.length, tries)
    }).pipe(onClone)
  )

  it.effect("RL-REUSE-12 U1 a resume that works at a later try is a resume", () =>
    Effect.gen(function* () {
      let tries = 0
      const scene = yield* held(
        {},
        {
          environmentResumeLease: ({ params }) =>
            (tries += 1) < 3 ? new Error("unavailable") : { providerLeaseId: params["providerLeaseId"] }
        },
        { settings: { resumeAttemptMillis: 60_000 } }
      )
      const { exit } = yield* elapsedMillis(scene.runtime.acquireRunLease(acquisitionOf(scene)))
      assert.strictEqual(Exit.isSuccess(exit) ? exit.value.lease.id : null, scene.lease)
      assert.strictEqual(tries, 3)
    }).pipe(onClone)
  )

  it.live("RL-REUSE-12 U1 what the provider's own API refuses is not asked for again", () =>
    Effect.gen(function* () {
      const data = { schema: "holdfast/provider-fault/v1", status: 403 }
      const refusal = new ProviderRpcError({ code: -32_000, message: "forbidden", data })
      const scene = yield* held(
        {},
        { environmentResumeLease: refusal },
        { settings: { resumeAttemptMillis: 60_000 } }
      )
      yield* Effect.flip(scene.runtime.acquireRunLease(acquisitionOf(scene)))
      assert.deepStrictEqual(scene.workers.methods(), ["environmentResumeLease"])
    }).pipe(onClone)
  )

  it.live("RL-REUSE-13 RL-CAP-07 a verb that is lost after the decision preserves the lease", () =>
    Effect.gen(function* () {
      const scene = yield* held({})
      scene.workers.script.methods = (_plugin, read) =>
        read === 1 ? lifecycleMethods : lifecycleMethods.filter((each) => each !== "environmentResumeLease")
      const refused = yield* Effect.flip(scene.runtime.acquireRunLease(acquisitionOf(scene)))
      assert.include(refused.message, preservedFragment)
      assert.deepStrictEqual(scene.workers.calls, [])
      assert.strictEqual((yield* leaseRow(scene.lease))["status"], "active")
    }).pipe(onClone)
  )

  it.live("RL-REUSE-16 a lease that another running run holds is left alone", () =>
    Effect.gen(function* () {
      const scene = yield* held({})
      const run = (yield* newRun(scene.tenant, scene.agent)).id
      const before = yield* leaseRow(scene.lease)
      const { lease } = yield* scene.runtime.acquireRunLease({ ...acquisitionOf(scene), run })
      assert.strictEqual(lease.providerLeaseId, "sandbox-1")
      const [call, ...others] = scene.workers.calls
      assert.deepStrictEqual(others, [])
      assert.deepInclude(call?.params, {
        agentId: scene.agent,
        executionWorkspaceId: scene.workspace,
        runId: run
      })
      assert.strictEqual(call?.given[3], 31_234)
      assert.deepStrictEqual(yield* leaseRow(scene.lease), before)
    }).pipe(onClone)
  )

  it.live("RL-REUSE-16 U12 an active lease of a run that is over is not resumed", () =>
    Effect.gen(function* () {
      const scene = yield* held({ runStatus: "failed" })
      const run = (yield* newRun(scene.tenant, scene.agent)).id
      const { lease } = yield* scene.runtime.acquireRunLease({ ...acquisitionOf(scene), run })
      assert.strictEqual(lease.providerLeaseId, "sandbox-1")
      assert.strictEqual((yield* leaseRow(scene.lease))["status"], "active")
    }).pipe(onClone)
  )

  it.live.each([
    ["without the opt-in", { supportsReusableLeases: undefined }, lifecycleMethods],
    [
      "nested false beats the older flag",
      { supportsReusableLeases: true, sandboxCapabilities: { reusableLeases: false } },
      lifecycleMethods
    ],
    [
      "without verified verbs",
      { supportsReusableLeases: undefined, sandboxCapabilities: { reusableLeases: true } },
      ["environmentExecute"]
    ]
  ] as const)("RL-REUSE-17 RL-REUSE-18 RL-REUSE-19 %s nothing is come back to", ([, entry, methods]) =>
    Effect.gen(function* () {
      const scene = yield* held({ entry })
      scene.workers.script.methods = () => methods
      const before = yield* leaseRow(scene.lease)
      const { lease } = yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
      assert.deepInclude(lease, { providerLeaseId: "sandbox-1", policy: "ephemeral" })
      assert.deepStrictEqual(
        scene.workers.calls.map(({ given, method }) => [method, given[3]]),
        [["environmentAcquireLease", 31_234]]
      )
      assert.deepStrictEqual(yield* leaseRow(scene.lease), before)
    }).pipe(onClone)
  )

  it.live("RL-REUSE-21 driver plugin: another agent's lease is not come back to", () =>
    Effect.gen(function* () {
      const scene = yield* held({}, { environmentAcquireLease: { providerLeaseId: "fresh-agent-lease" } })
      const { pluginKey } = scene.plugin
      const environment = yield* newEnvironment("plugin", {
        pluginKey,
        driverKey: "fake-plugin",
        driverConfig: {}
      })
      yield* newLease(scene.tenant, environment.id, {
        lease_policy: "reuse_by_environment",
        provider: "fake-plugin",
        provider_lease_id: "held",
        execution_workspace_id: scene.workspace,
        run_id: scene.run,
        metadata: {
          driver: "plugin",
          pluginId: scene.plugin.id,
          driverKey: "fake-plugin",
          agentId: scene.agent
        }
      })
      const agent = (yield* newAgent(scene.tenant)).id
      const asked = { ...acquisitionOf(scene), environment, agent }
      const { lease } = yield* scene.runtime.acquireRunLease(asked)
      assert.strictEqual(lease.providerLeaseId, "fresh-agent-lease")
      const [call, ...others] = scene.workers.calls
      assert.deepStrictEqual(others, [])
      assert.strictEqual(call?.method, "environmentAcquireLease")
      assert.deepInclude(call?.params, { agentId: agent, executionWorkspaceId: scene.workspace })
      assert.strictEqual(call?.given.length, 3)
    }).pipe(onClone)
  )

  it.live("RL-REUSE-22 an exact resume outside an acquisition is one call and writes nothing", () =>
    Effect.gen(function* () {
      const scene = yield* held({ native: true, lease: { status: "released", cleanup_status: "success" } })
      const before = yield* leaseRow(scene.lease)
      const lease = Option.getOrThrow(
        yield* EnvironmentLeaseStore.use((store) => store.getLeaseById(scene.lease))
      )
      const resumed = yield* scene.runtime.resumeRunLease({ environment: scene.environment, lease })
      assert.strictEqual(resumed.providerLeaseId, reusableLeaseId)
      const [call, ...others] = scene.workers.calls
      assert.deepStrictEqual(others, [])
      assert.deepInclude(call, { plugin: scene.plugin.id, method: "environmentResumeLease" })
      assert.deepInclude(call?.params, {
        tenantId: scene.tenant,
        environmentId: scene.environment.id,
        providerLeaseId: reusableLeaseId
      })
      assert.deepStrictEqual(call?.params["leaseMetadata"], lease.metadata)
      assert.isNumber(call?.given[3])
      assert.deepStrictEqual(yield* leaseRow(scene.lease), before)
      assert.strictEqual((yield* leaseRowsOf(scene.environment.id)).length, 1)
    }).pipe(onClone)
  )

  const native = (verifies: boolean) =>
    Effect.gen(function* () {
      const nativeHarnessBackup = { manifestPath: "somewhere" }
      const scene = yield* held(
        { native: true, metadata: verifies ? { nativeHarnessBackup } : {} },
        { environmentResumeLease: gone },
        {
          verifies: (stamp, id) =>
            JSON.stringify([stamp, id]) === JSON.stringify([nativeHarnessBackup, reusableLeaseId])
        }
      )
      const asked = { ...acquisitionOf(scene), adapterType: nativeRunnerAdapter }
      return { scene, acquired: yield* Effect.exit(scene.runtime.acquireRunLease(asked)) }
    })

  it.live("RL-BACKUP-02 a native runner's lost sandbox is not replaced without a verified backup", () =>
    Effect.gen(function* () {
      const { acquired, scene } = yield* native(false)
      const refused = Option.getOrThrow(Exit.findErrorOption(acquired))
      assert.instanceOf(refused, RunnerHarnessBackupUnavailable)
      assert.include(String(refused), "runner_harness_backup_unavailable")
      assert.deepStrictEqual(scene.workers.methods(), ["environmentResumeLease"])
      assert.strictEqual((yield* leaseRow(scene.lease))["status"], "active")
    }).pipe(onClone)
  )

  it.live("RL-BACKUP-03 RL-ACQ-05 U8 with a verified backup it is, and the lost one's row is closed", () =>
    Effect.gen(function* () {
      const { acquired, scene } = yield* native(true)
      const { lease } = Exit.isSuccess(acquired) ? acquired.value : yield* Effect.die("no lease")
      assert.strictEqual(lease.providerLeaseId, "sandbox-1")
      assert.deepStrictEqual(lease.metadata["sandboxLeaseAcquisition"], {
        outcome: "replacement",
        reason: "not_found"
      })
      assert.deepInclude(yield* leaseRow(scene.lease), {
        status: "expired",
        cleanup_status: "success",
        failure_reason: "provider_lease_not_found"
      })
      assert.deepStrictEqual(scene.workers.methods(), ["environmentResumeLease", "environmentAcquireLease"])
    }).pipe(onClone)
  )
})
