/** Coming back to a sandbox: whose lease it has to be, and what becomes of the row that was there before. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Option from "effect/Option"
import {
  EnvironmentLeaseStore,
  ReusableLeaseConflict
} from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { resolveRunnerEnvironmentForRun } from "../../../src/domain/runLeases/runnerOverlay.ts"
import { nativeRunnerAdapter } from "../../../src/domain/work/Work.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { newAgent, newRun, newTask, onClone, reusableConfig, reuseFixture } from "./fixture.ts"
import { leaseRow, leaseRowsOf, setMetadata } from "./rawRows.ts"
import { freshRuntime } from "./runtimes.ts"
import { answering, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

/** A provider that refuses to end anything but by a stop. */
const stoppingOnly = {
  environmentStopLease: receiptOf("stopped"),
  environmentDestroyLease: new Error("not to be destroyed"),
  environmentReleaseLease: new Error("not to be released")
}

const projectless = (rows: { readonly agent?: boolean }) =>
  Effect.gen(function* () {
    let made = 0
    const scene = yield* leasedPlugin({
      config: reusableConfig,
      answers: {
        ...stoppingOnly,
        environmentAcquireLease: () => ({ providerLeaseId: `projectless-${(made += 1)}` })
      }
    })
    const first = { ...acquisitionOf(scene), executionWorkspace: null, task: scene.task }
    const { lease } = yield* scene.runtime.acquireRunLease(first)
    yield* scene.runtime.releaseRunLeases(scene.run, { disposition: "stop_and_retain" })
    const otherAgent = yield* newAgent(scene.tenant)
    const agent = rows.agent === true ? otherAgent.id : scene.agent
    const run = (yield* newRun(scene.tenant, agent)).id
    return { scene, first, lease, next: { ...first, run, agent } }
  })

describe("reuse", () => {
  it.live.each([
    ["same task", "T", false, "projectless-1", 1, 1],
    ["different task", "other", false, "projectless-2", 2, 0],
    ["different agent", "T", true, "projectless-2", 2, 0],
    ["no task", null, false, "projectless-2", 2, 0]
  ] as const)(
    "RL-REUSE-04 RL-REUSE-05 a lease without a workspace is its task's and agent's: %s",
    ([, task, isOtherAgent, providerLeaseId, acquired, resumed]) =>
      Effect.gen(function* () {
        const { lease, next, scene } = yield* projectless({ agent: isOtherAgent })
        assert.deepInclude(lease.metadata["reusableSandboxLease"] as object, {
          projectlessTaskId: scene.task,
          executionWorkspaceId: null,
          agentId: scene.agent
        })
        const stopped = yield* leaseRow(lease.id)
        const other = yield* newTask(scene.tenant)
        const asked = { ...next, task: task === null ? null : task === "T" ? scene.task : other.id }
        const second = yield* scene.runtime.acquireRunLease(asked)
        assert.strictEqual(second.lease.providerLeaseId, providerLeaseId)
        assert.strictEqual(scene.workers.callsOf("environmentAcquireLease").length, acquired)
        assert.strictEqual(scene.workers.callsOf("environmentResumeLease").length, resumed)
        if (resumed === 0) assert.deepStrictEqual(yield* leaseRow(lease.id), stopped)
      }).pipe(onClone)
  )

  it.live.each([
    ["different task", "other", false],
    ["different agent", "T", true]
  ] as const)("RL-REUSE-06 the store hands a reusable lease to nobody else: %s", ([, task, isOtherAgent]) =>
    Effect.gen(function* () {
      const { lease, next, scene } = yield* projectless({ agent: isOtherAgent })
      const other = yield* newTask(scene.tenant)
      const refused = yield* Effect.flip(
        EnvironmentLeaseStore.use((store) =>
          store.acquireLease({
            id: EnvironmentLeaseId.make(crypto.randomUUID()),
            tenant: scene.tenant,
            environment: scene.environment.id,
            executionWorkspace: null,
            task: task === "T" ? scene.task : other.id,
            run: next.run,
            policy: "reuse_by_environment",
            provider: lease.provider,
            providerLeaseId: lease.providerLeaseId,
            expiresAtMillis: null,
            metadata: { ...lease.metadata, agentId: next.agent },
            sentConfig: lease.sentConfig,
            assertTenantBinding: false,
            replaces: lease.id
          })
        )
      )
      assert.instanceOf(refused, ReusableLeaseConflict)
      assert.strictEqual((refused as ReusableLeaseConflict).status, 409)
      assert.strictEqual((yield* leaseRow(lease.id))["status"], "released")
    }).pipe(onClone)
  )

  it.live("RL-REUSE-07 RL-REUSE-08 a task goes from per-turn to warm, and the overlay is never stored", () =>
    Effect.gen(function* () {
      const scene = yield* leasedPlugin({
        native: true,
        config: { ...reusableConfig, reuseLease: false },
        answers: { environmentStopLease: receiptOf("stopped") }
      })
      const warm = resolveRunnerEnvironmentForRun(scene.environment, nativeRunnerAdapter, {
        lifecycleMode: "warm"
      })
      const asked = { ...acquisitionOf(scene), task: scene.task, adapterType: nativeRunnerAdapter }
      const cold = yield* scene.runtime.acquireRunLease(asked)
      assert.deepInclude(cold.lease, { providerLeaseId: "sandbox-1", policy: "ephemeral" })
      yield* scene.runtime.releaseRunLeases(scene.run)
      const nextRun = Effect.map(newRun(scene.tenant, scene.agent), ({ id }) => id)
      const second = { ...asked, environment: warm, run: yield* nextRun }
      const { lease } = yield* scene.runtime.acquireRunLease(second)
      assert.deepInclude(lease, {
        providerLeaseId: "sandbox-2",
        policy: "reuse_by_environment",
        executionWorkspace: scene.workspace
      })
      assert.isTrue((yield* scene.runtime.resolveCapabilities(lease)).reusableLeases)
      yield* scene.runtime.releaseRunLeases(second.run, { disposition: "stop_and_retain" })
      const lifecycle = { lifecycleMode: "warm" } as const
      const third = yield* scene.runtime.acquireRunLease({ ...asked, lifecycle, run: yield* nextRun })
      assert.strictEqual(third.lease.providerLeaseId, "sandbox-2")
      assert.strictEqual(scene.workers.callsOf("environmentAcquireLease").length, 2)
      const stored = yield* EnvironmentStore.use((store) => store.getById(scene.environment.id))
      assert.deepStrictEqual(Option.getOrThrow(stored).config, { ...reusableConfig, reuseLease: false })
    }).pipe(onClone)
  )

  it.live("RL-REUSE-07 an overlay is a warm native runner's in a sandbox and nobody else's", () =>
    Effect.gen(function* () {
      const { environment } = yield* reuseFixture()
      const warm = { lifecycleMode: "warm" } as const
      const perTurn = { lifecycleMode: "per_turn" } as const
      assert.deepStrictEqual(resolveRunnerEnvironmentForRun(environment, nativeRunnerAdapter, warm).config, {
        ...environment.config,
        reuseLease: true,
        runnerLifecycleMode: "warm"
      })
      for (const [adapter, mode] of [
        ["local_agent", warm],
        [null, warm],
        [nativeRunnerAdapter, perTurn]
      ] as const) {
        assert.strictEqual(resolveRunnerEnvironmentForRun(environment, adapter, mode), environment)
      }
    }).pipe(onClone)
  )

  it.live(
    "RL-REUSE-09 RL-REUSE-10 RL-ACQ-05 the next run takes the resource over, and its workspace's stamp",
    () =>
      Effect.gen(function* () {
        const scene = yield* leasedPlugin({ answers: { environmentStopLease: receiptOf("stopped") } })
        const first = yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
        const nativeWorkspaceSync = {
          schema: "holdfast.native-workspace-stamp/v1",
          workspaceId: scene.workspace,
          providerLeaseId: first.lease.providerLeaseId,
          remoteCwd: "/workspace",
          hostSha256: "a".repeat(64),
          finalizedRunId: scene.run
        }
        yield* setMetadata(first.lease.id, { nativeWorkspaceSync })
        yield* scene.runtime.releaseRunLeases(scene.run, { disposition: "stop_and_retain" })
        const run = (yield* newRun(scene.tenant, scene.agent)).id
        const runtime = yield* scene.another
        const { lease } = yield* runtime.acquireRunLease({ ...acquisitionOf(scene), run })
        assert.strictEqual(scene.workers.callsOf("environmentAcquireLease").length, 1)
        assert.notStrictEqual(lease.id, first.lease.id)
        assert.deepInclude(lease, { status: "active", run, providerLeaseId: "sandbox-1" })
        assert.deepStrictEqual(lease.metadata["sandboxLeaseAcquisition"], { outcome: "resumed" })
        assert.deepStrictEqual(lease.metadata["nativeWorkspaceSync"], nativeWorkspaceSync)
        assert.strictEqual(lease.metadata["resumed"], true)
        for (const spent of [
          "sandboxStopAndRetain",
          "sandboxStopAndRetainReceipt",
          "remoteExecutionTermination"
        ]) {
          assert.notProperty(lease.metadata, spent)
        }
        assert.deepInclude(yield* leaseRow(first.lease.id), { status: "expired", cleanup_status: "success" })
      }).pipe(onClone)
  )

  it.live("RL-REUSE-09 RL-ACQ-05 of two runs that resume one resource at the same moment one gets it", () =>
    Effect.gen(function* () {
      const both = yield* Latch.make()
      let resumes = 0
      const scene = yield* leasedPlugin({
        answers: {
          environmentStopLease: receiptOf("stopped"),
          environmentResumeLease: ({ params }) => {
            resumes += 1
            const answer = { providerLeaseId: params["providerLeaseId"], metadata: {} }
            return Effect.as(resumes === 2 ? both.open : both.await, answer)
          }
        }
      })
      yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
      yield* scene.runtime.releaseRunLeases(scene.run, { disposition: "stop_and_retain" })
      const another = yield* scene.another
      const one = (yield* newRun(scene.tenant, scene.agent)).id
      const two = (yield* newRun(scene.tenant, scene.agent)).id
      const acquired = yield* Effect.all(
        [
          scene.runtime.acquireRunLease({ ...acquisitionOf(scene), run: one }),
          another.acquireRunLease({ ...acquisitionOf(scene), run: two })
        ],
        { concurrency: 2 }
      )
      assert.strictEqual(resumes, 2)
      assert.sameMembers(
        acquired.map(({ lease }) => lease.providerLeaseId),
        ["sandbox-1", "sandbox-2"]
      )
      // Who came too late has a sandbox of its own, which stands in the place of none.
      assert.deepStrictEqual(
        new Map(
          acquired.map(({ lease }) => [lease.providerLeaseId, lease.metadata["sandboxLeaseAcquisition"]])
        ),
        new Map([
          ["sandbox-1", { outcome: "resumed" }],
          ["sandbox-2", { outcome: "created" }]
        ])
      )
      assert.deepStrictEqual(scene.workers.callsOf("environmentDestroyLease"), [])
    }).pipe(onClone)
  )

  it.live("RL-REUSE-11 the same run comes back to its own row", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const workers = scriptedWorkers({
        call: answering({
          environmentResumeLease: ({ params }) => ({
            providerLeaseId: params["providerLeaseId"],
            metadata: {}
          })
        })
      })
      const runtime = yield* freshRuntime({ workers: workers.manager })
      const { lease } = yield* runtime.acquireRunLease(acquisitionOf(scene))
      assert.deepInclude(lease, { id: scene.lease, status: "active", cleanupStatus: null, run: scene.run })
      const [call, ...others] = workers.calls
      assert.deepStrictEqual(others, [])
      assert.deepInclude(call, { plugin: scene.plugin.id, method: "environmentResumeLease" })
      assert.strictEqual(call?.params["providerLeaseId"], "reusable-plugin-lease")
      assert.deepStrictEqual([call?.given.length, call?.given[3]], [4, 31_234])
      assert.strictEqual((yield* leaseRowsOf(scene.environment.id)).length, 1)
      assert.deepStrictEqual(lease.metadata["sandboxLeaseAcquisition"], { outcome: "resumed" })
    }).pipe(onClone)
  )

  it.live("RL-REUSE-04 a lease that is pinned to a sibling of the same key is left alone", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ metadata: { pluginId: crypto.randomUUID() } })
      const workers = scriptedWorkers({
        call: answering({ environmentAcquireLease: { providerLeaseId: "fresh" } })
      })
      const runtime = yield* freshRuntime({ workers: workers.manager })
      const before = yield* leaseRow(scene.lease)
      const { lease } = yield* runtime.acquireRunLease(acquisitionOf(scene))
      assert.strictEqual(lease.providerLeaseId, "fresh")
      assert.deepStrictEqual(workers.methods(), ["environmentAcquireLease"])
      assert.deepStrictEqual(yield* leaseRow(scene.lease), before)
    }).pipe(onClone)
  )
})
