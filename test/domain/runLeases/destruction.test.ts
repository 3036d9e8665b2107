import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import {
  destroyReusableSandboxLeases,
  destroyReusableSandboxLeasesForEnvironment
} from "../../../src/domain/runLeases/destruction.ts"
import { releaseRunLeases } from "../../../src/domain/runLeases/runRelease.ts"
import { inDaemon, leaseNow } from "./daemons.ts"
import { newTenant, onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { setRun } from "./rawRows.ts"
import { answering, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

type Scene = Effect.Success<ReturnType<typeof reuseFixture>>

const reason = "execution_workspace_closed"
const destroyed = answering({ environmentDestroyLease: receiptOf("destroyed") })

const scopeOf = (scene: Scene, by: string, tenant = scene.tenant) =>
  by === "task" ? { tenant, task: scene.task } : { tenant, executionWorkspace: scene.workspace }

const destroyIn = (
  workers: ReturnType<typeof scriptedWorkers>,
  scope: Parameters<typeof destroyReusableSandboxLeases>[0],
  why?: string
) => destroyReusableSandboxLeases(scope, why).pipe(inDaemon({ workers: workers.manager }))

const assertOneDestroy = (workers: ReturnType<typeof scriptedWorkers>, scene: Scene) => {
  assert.deepStrictEqual(workers.methods(), ["environmentDestroyLease"])
  const [call] = workers.calls
  assert.strictEqual(call!.plugin, scene.plugin.id)
  assert.deepStrictEqual([call!.given.length, call!.given[3]], [4, 31_234])
  assert.deepInclude(call!.params, {
    driverKey: "fake-plugin",
    tenantId: scene.tenant,
    environmentId: scene.environment.id,
    providerLeaseId: reusableLeaseId
  })
}

describe("runLeases/destruction", () => {
  for (const [status, runStatus, by] of [
    ["active", "succeeded", "workspace"],
    ["failed", "failed", "workspace"],
    ["failed", "failed", "task"]
  ] as const) {
    it.live(`RL-DESTROY-01 RL-DESTROY-02 ${status} / ${by}: destroyed, by its own tenant alone`, () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ withTask: true, runStatus, lease: { status } })
        const workers = scriptedWorkers()
        const foreign = yield* newTenant
        assert.deepStrictEqual(yield* destroyIn(workers, scopeOf(scene, by, foreign), reason), [])
        assert.isEmpty(workers.calls)
        const result = yield* destroyIn(workers, scopeOf(scene, by), reason)
        assert.deepStrictEqual(
          result.map(({ lease }) => [lease.id, lease.status]),
          [[scene.lease, "expired"]]
        )
        assertOneDestroy(workers, scene)
        assert.deepInclude(yield* leaseNow(scene.lease), {
          status: "expired",
          failureReason: reason,
          cleanupStatus: "success",
          endedBy: "scope"
        })
      }).pipe(onClone)
    )
  }

  it.live("U22 the default reason of a scoped destruction", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ runStatus: "failed" })
      yield* destroyIn(scriptedWorkers(), scopeOf(scene, "workspace"))
      assert.strictEqual((yield* leaseNow(scene.lease)).failureReason, "reusable_lease_closed")
    }).pipe(onClone)
  )

  for (const status of ["active", "failed"] as const) {
    it.live(`RL-DESTROY-03 RL-DESTROY-07 a live run protects its ${status} lease`, () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ lease: { status } })
        const workers = scriptedWorkers()
        assert.deepStrictEqual(yield* destroyIn(workers, scopeOf(scene, "workspace"), reason), [])
        const ofEnvironment = yield* destroyReusableSandboxLeasesForEnvironment(scene.environment.id).pipe(
          inDaemon({ workers: workers.manager })
        )
        assert.deepStrictEqual(ofEnvironment, { destroyed: 0, failed: 0, skippedLiveRun: 1 })
        assert.isEmpty(workers.calls)
        const lease = yield* leaseNow(scene.lease)
        assert.deepInclude(lease, { status, policy: "reuse_by_environment" })
        const removed = yield* EnvironmentStore.use((store) => store.removeIfDeletable(scene.environment.id))
        assert.isTrue(Option.isNone(removed))
      }).pipe(onClone)
    )
  }

  for (const live of ["queued", "scheduled_retry", "running"]) {
    it.live(`RL-FENCE-01 the run becomes ${live} between selection and claim`, () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ native: true, runStatus: "failed", lease: { status: "failed" } })
        const workers = scriptedWorkers()
        const context = yield* Effect.context<Effect.Services<ReturnType<typeof setRun>>>()
        let isAsked = false
        const result = yield* destroyReusableSandboxLeases(scopeOf(scene, "workspace"), reason).pipe(
          inDaemon({
            workers: workers.manager,
            // The backup is looked at after the selection and before the claim.
            backups: () =>
              setRun(scene.run, live).pipe(
                Effect.provideContext(context),
                Effect.orDie,
                Effect.as((isAsked = true))
              )
          })
        )
        assert.isTrue(isAsked)
        assert.deepStrictEqual(result, [])
        assert.isEmpty(workers.calls)
        assert.strictEqual((yield* leaseNow(scene.lease)).status, "failed")
      }).pipe(onClone)
    )
  }

  it.live("RL-DESTROY-05 environment-wide destruction, with evidence", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ runStatus: "succeeded" })
      const workers = scriptedWorkers({ call: destroyed })
      const result = yield* destroyReusableSandboxLeasesForEnvironment(scene.environment.id).pipe(
        inDaemon({ workers: workers.manager })
      )
      assert.deepStrictEqual(result, { destroyed: 1, failed: 0, skippedLiveRun: 0 })
      assertOneDestroy(workers, scene)
      const lease = yield* leaseNow(scene.lease)
      assert.deepInclude(lease, {
        status: "expired",
        failureReason: "environment_deleted",
        cleanupStatus: "success"
      })
      assert.deepInclude(lease.metadata["remoteExecutionTermination"], {
        schema: "holdfast.remote-termination.v1",
        leaseId: scene.lease,
        runId: scene.run,
        providerLeaseId: reusableLeaseId,
        state: "destroyed"
      })
      const removed = yield* EnvironmentStore.use((store) => store.removeIfDeletable(scene.environment.id))
      assert.strictEqual(Option.getOrUndefined(removed)?.id, scene.environment.id)
    }).pipe(onClone)
  )

  it.live(
    "RL-DESTROY-08 worker offline: pending, and the same call again destroys under the newer reason",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ runStatus: "succeeded" })
        const offline = scriptedWorkers({ isRunning: () => false })
        const first = yield* destroyIn(offline, scopeOf(scene, "workspace"), reason)
        assert.deepStrictEqual(
          first.map(({ lease }) => lease.status),
          ["pending_cleanup"]
        )
        assert.isEmpty(offline.calls)
        assert.deepInclude(yield* leaseNow(scene.lease), {
          failureReason: reason,
          cleanupStatus: "failed",
          // A worker that is away costs no try.
          cleanupTries: 0
        })
        const workers = scriptedWorkers()
        const second = yield* destroyIn(workers, scopeOf(scene, "workspace"), "cleanup_retry")
        assert.deepStrictEqual(
          second.map(({ lease }) => lease.status),
          ["expired"]
        )
        assertOneDestroy(workers, scene)
        assert.deepInclude(yield* leaseNow(scene.lease), {
          failureReason: "cleanup_retry",
          cleanupStatus: "success"
        })
      }).pipe(onClone)
  )

  for (const hasBackups of [false, true]) {
    it.live(`U23 a native lease ${hasBackups ? "with" : "without"} a proved backup`, () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ native: true, runStatus: "failed", lease: { status: "failed" } })
        const workers = scriptedWorkers()
        const parts = { workers: workers.manager, hasBackups }
        const ofEnvironment = yield* destroyReusableSandboxLeasesForEnvironment(scene.environment.id).pipe(
          inDaemon(parts)
        )
        const counts = { destroyed: hasBackups ? 1 : 0, failed: hasBackups ? 0 : 1, skippedLiveRun: 0 }
        assert.deepStrictEqual(ofEnvironment, counts)
        assert.lengthOf(workers.calls, hasBackups ? 1 : 0)
        assert.strictEqual((yield* leaseNow(scene.lease)).status, hasBackups ? "expired" : "failed")
      }).pipe(onClone)
    )
  }

  it.live("U18 a call that fails is counted as failed, and its row stays owed", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ runStatus: "failed" })
      const workers = scriptedWorkers({ call: () => Effect.fail(new Error("no")) })
      const result = yield* destroyReusableSandboxLeasesForEnvironment(scene.environment.id).pipe(
        inDaemon({ workers: workers.manager })
      )
      assert.deepStrictEqual(result, { destroyed: 0, failed: 1, skippedLiveRun: 0 })
      assert.deepInclude(yield* leaseNow(scene.lease), { status: "pending_cleanup", cleanupTries: 1 })
    }).pipe(onClone)
  )

  it.live("RL-DESTROY-02 what is over, or ephemeral and in use, is not selected", () =>
    Effect.gen(function* () {
      const over = yield* reuseFixture({ runStatus: "failed", lease: { status: "expired" } })
      const held = yield* reuseFixture({ runStatus: "failed", lease: { lease_policy: "ephemeral" } })
      const workers = scriptedWorkers()
      for (const scene of [over, held]) {
        assert.deepStrictEqual(yield* destroyIn(workers, scopeOf(scene, "workspace")), [])
        const { id } = scene.environment
        const result = yield* destroyReusableSandboxLeasesForEnvironment(id).pipe(
          inDaemon({ workers: workers.manager })
        )
        assert.deepStrictEqual(result, { destroyed: 0, failed: 0, skippedLiveRun: 0 })
      }
      assert.isEmpty(workers.calls)
    }).pipe(onClone)
  )

  it.live("RL-DESTROY-06 a stopped, failed lease is destroyed before its environment goes", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ runStatus: "failed" })
      const seen: Array<unknown> = []
      const stores = yield* Effect.context<Effect.Services<ReturnType<typeof leaseNow>>>()
      const workers = scriptedWorkers({
        call: (call) =>
          call.method === "environmentReleaseLease"
            ? Effect.succeed(receiptOf("stopped")(call))
            : leaseNow(scene.lease).pipe(
                Effect.provideContext(stores),
                Effect.orDie,
                Effect.map(({ environment, status }) => {
                  seen.push([status, environment])
                  return receiptOf("destroyed")(call)
                })
              )
      })
      const parts = { workers: workers.manager }
      yield* releaseRunLeases(scene.run, { status: "failed" }).pipe(inDaemon(parts))
      assert.deepInclude((yield* leaseNow(scene.lease)).metadata["remoteExecutionTermination"], {
        state: "stopped"
      })
      const result = yield* destroyReusableSandboxLeasesForEnvironment(scene.environment.id).pipe(
        inDaemon(parts)
      )
      assert.deepStrictEqual(result, { destroyed: 1, failed: 0, skippedLiveRun: 0 })
      assert.deepStrictEqual(seen, [["pending_cleanup", scene.environment.id]])
      const lease = yield* leaseNow(scene.lease)
      assert.deepInclude(lease, { status: "expired", cleanupStatus: "success" })
      assert.deepInclude(lease.metadata["remoteExecutionTermination"], { state: "destroyed" })
      const removed = yield* EnvironmentStore.use((store) => store.removeIfDeletable(scene.environment.id))
      assert.isTrue(Option.isSome(removed))
    }).pipe(onClone)
  )
})
