import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { EnvironmentLeaseId, RunId } from "../../../src/domain/Identity.ts"
import type { Release } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import type { EnvironmentLease } from "../../../src/domain/environments/EnvironmentLease.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { type RunRelease, releaseRunLeases } from "../../../src/domain/runLeases/runRelease.ts"
import { type DaemonParts, inDaemon, leaseNow } from "./daemons.ts"
import { onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { setLease } from "./rawRows.ts"
import { answering, lifecycleMethods, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const release = (parts: DaemonParts, run: RunId, how?: RunRelease) =>
  inDaemon(parts)(releaseRunLeases(run, how))

/** What a test reads of the row. */
const ended = (lease: EnvironmentLeaseId) =>
  Effect.map(leaseNow(lease), ({ cleanupStatus, failureReason, status }) => ({
    status,
    cleanupStatus,
    failureReason
  }))

const onlyAcquires = ["environmentAcquireLease", "environmentExecute"]
const failing = new Error("provider unavailable")

describe("runLeases/release", () => {
  it.live("RL-REL-01 RL-REL-04 default release returns what it did, with the recorded config alone", () =>
    Effect.gen(function* () {
      const { environment, lease, plugin, run } = yield* reuseFixture({
        config: { provider: "fake-plugin", image: "fake:test", timeoutMs: 1234, reuseLease: false },
        lease: { lease_policy: "ephemeral" },
        metadata: { remoteCwd: "/workspace", sandboxId: "sbx", providerMetadata: { a: 1 } }
      })
      const workers = scriptedWorkers()
      const released = yield* release({ workers: workers.manager }, run)
      assert.deepStrictEqual(
        released.map((each) => [each.lease.id, each.lease.status, each.environment?.driver]),
        [[lease, "released", "sandbox"]]
      )
      assert.deepStrictEqual(yield* ended(lease), {
        status: "released",
        cleanupStatus: "success",
        failureReason: null
      })
      assert.deepStrictEqual(workers.methods(), ["environmentReleaseLease"])
      const [call] = workers.calls
      assert.lengthOf(call!.given, 4)
      assert.strictEqual(call!.given[3], 31_234)
      assert.deepStrictEqual(call!.params["config"], {
        image: "fake:test",
        timeoutMs: 1234,
        reuseLease: false
      })
      assert.deepInclude(call!.params, {
        driverKey: "fake-plugin",
        environmentId: environment.id,
        taskId: null,
        providerLeaseId: reusableLeaseId
      })
      assert.strictEqual(call!.plugin, plugin.id)
      assert.strictEqual((yield* leaseNow(lease)).endedBy, "run")
    }).pipe(onClone)
  )

  it.live(
    "RL-REL-04 a lease without a recorded time-out: the budget is undefined, and still the fourth argument",
    () =>
      Effect.gen(function* () {
        const { run } = yield* reuseFixture({ config: { provider: "fake-plugin", image: "a" } })
        const workers = scriptedWorkers()
        yield* release({ workers: workers.manager }, run)
        assert.deepStrictEqual([workers.calls[0]!.given.length, workers.calls[0]!.given[3]], [4, undefined])
      }).pipe(onClone)
  )

  it.live("RL-REL-02 keep running: retained, success, no call", () =>
    Effect.gen(function* () {
      const { lease, run } = yield* reuseFixture()
      const workers = scriptedWorkers()
      const released = yield* release({ workers: workers.manager }, run, { disposition: "keep_running" })
      assert.lengthOf(released, 1)
      assert.deepInclude(yield* ended(lease), { status: "retained", cleanupStatus: "success" })
      assert.isEmpty(workers.calls)
    }).pipe(onClone)
  )

  it.live("RL-REL-03 destroy disposition: expired although the provider answered undefined", () =>
    Effect.gen(function* () {
      const { lease, plugin, run } = yield* reuseFixture()
      const workers = scriptedWorkers()
      const released = yield* release({ workers: workers.manager }, run, { disposition: "destroy" })
      assert.deepStrictEqual(workers.methods(), ["environmentDestroyLease"])
      const [call] = workers.calls
      assert.deepStrictEqual(
        [call!.plugin, call!.params["providerLeaseId"], call!.given[3]],
        [plugin.id, reusableLeaseId, 31_234]
      )
      assert.strictEqual(released[0]?.lease.status, "expired")
      assert.deepStrictEqual(yield* ended(lease), {
        status: "expired",
        cleanupStatus: "success",
        failureReason: null
      })
    }).pipe(onClone)
  )

  it.live("RL-REL-05 a matching release receipt is evidence", () =>
    Effect.gen(function* () {
      const { lease, run, tenant } = yield* reuseFixture({ runStatus: "failed" })
      const workers = scriptedWorkers({
        methods: () => ["environmentReleaseLease", "environmentDestroyLease"],
        call: answering({ environmentReleaseLease: receiptOf("stopped") })
      })
      yield* release({ workers: workers.manager }, run, { status: "failed", cancelActiveWork: true })
      assert.deepInclude(yield* ended(lease), { status: "failed", cleanupStatus: "success" })
      assert.deepStrictEqual((yield* leaseNow(lease)).metadata["remoteExecutionTermination"], {
        schema: "holdfast.remote-termination.v1",
        tenantId: tenant,
        runId: run,
        leaseId: lease,
        providerLeaseId: reusableLeaseId,
        state: "stopped"
      })
    }).pipe(onClone)
  )

  const rows: ReadonlyArray<
    readonly [
      rule: string,
      given: {
        readonly policy?: string
        readonly status: Release["status"]
        readonly methods?: ReadonlyArray<string>
        readonly reply?: unknown
      },
      row: Pick<EnvironmentLease, "status" | "cleanupStatus" | "failureReason">,
      calls: ReadonlyArray<string>
    ]
  > = [
    [
      "RL-REL-06 missing release method",
      { status: "released", methods: onlyAcquires },
      { status: "pending_cleanup", cleanupStatus: "failed", failureReason: "release_cleanup_failed" },
      []
    ],
    [
      "RL-REL-07 retain_on_failure is kept",
      { policy: "retain_on_failure", status: "failed", methods: onlyAcquires },
      { status: "retained", cleanupStatus: "failed", failureReason: "release_cleanup_failed" },
      []
    ],
    [
      "U17 retain_on_failure with status released is owed",
      { policy: "retain_on_failure", status: "released", methods: onlyAcquires },
      { status: "pending_cleanup", cleanupStatus: "failed", failureReason: "release_cleanup_failed" },
      []
    ],
    [
      "U17 retain_on_failure that works ends as it was asked",
      { policy: "retain_on_failure", status: "failed" },
      { status: "failed", cleanupStatus: "success", failureReason: null },
      ["environmentReleaseLease"]
    ],
    [
      "RL-REL-08 expiry without the destroy method",
      { status: "expired", methods: onlyAcquires },
      { status: "pending_cleanup", cleanupStatus: "failed", failureReason: "release_cleanup_failed" },
      []
    ],
    [
      "RL-REL-00 expiry destroys",
      { status: "expired" },
      { status: "expired", cleanupStatus: "success", failureReason: null },
      ["environmentDestroyLease"]
    ],
    [
      "RL-REL-06 a release that throws",
      { status: "released", reply: failing },
      { status: "pending_cleanup", cleanupStatus: "failed", failureReason: "release_cleanup_failed" },
      ["environmentReleaseLease"]
    ],
    [
      "U5 a release receipt of another lease",
      { status: "released", reply: { providerLeaseId: "other", state: "stopped" } },
      { status: "pending_cleanup", cleanupStatus: "failed", failureReason: "release_cleanup_failed" },
      ["environmentReleaseLease"]
    ],
    [
      "RL-REL-08 a destroy that throws",
      { status: "expired", reply: failing },
      { status: "pending_cleanup", cleanupStatus: "failed", failureReason: "release_cleanup_failed" },
      ["environmentDestroyLease"]
    ]
  ]

  it.live.each(rows)(
    "RL-REL-00 RL-REL-04 RL-REL-05 RL-REL-06 RL-REL-07 RL-REL-08 %s",
    ([, given, row, calls]) =>
      Effect.gen(function* () {
        const { lease, run } = yield* reuseFixture({
          metadata: { reusableSandboxLease: undefined },
          lease: { lease_policy: given.policy ?? "reuse_by_environment" }
        })
        const workers = scriptedWorkers({
          methods: () => given.methods ?? lifecycleMethods,
          call: () => (given.reply instanceof Error ? Effect.fail(given.reply) : Effect.succeed(given.reply))
        })
        const released = yield* release({ workers: workers.manager }, run, { status: given.status })
        assert.lengthOf(released, 1)
        assert.deepStrictEqual(yield* ended(lease), row)
        assert.deepStrictEqual(workers.methods(), calls)
      }).pipe(onClone)
  )

  it.live("RL-STOP-08 RL-REL-01 a row that became another run's during the call is not ended", () =>
    Effect.gen(function* () {
      const { lease, run } = yield* reuseFixture()
      const other = yield* reuseFixture()
      const context = yield* Effect.context<Effect.Services<ReturnType<typeof setLease>>>()
      const workers = scriptedWorkers({
        call: () => setLease(lease, { run_id: other.run }).pipe(Effect.provideContext(context), Effect.orDie)
      })
      assert.isEmpty(yield* release({ workers: workers.manager }, run))
      assert.lengthOf(workers.calls, 1)
      assert.deepInclude(yield* leaseNow(lease), { status: "active", run: other.run })
    }).pipe(onClone)
  )

  it.live("RL-REL-09 release works from the lease, not from the environment", () =>
    Effect.gen(function* () {
      const { environment, lease, plugin, run } = yield* reuseFixture()
      yield* EnvironmentStore.use((store) => store.update(environment.id, { driver: "local", config: {} }))
      const workers = scriptedWorkers()
      yield* release({ workers: workers.manager }, run)
      assert.strictEqual(workers.calls[0]?.plugin, plugin.id)
      assert.deepStrictEqual(workers.calls[0]?.params["config"], {
        image: "fake:test",
        timeoutMs: 1234,
        reuseLease: true
      })
      assert.deepInclude(yield* ended(lease), { status: "released" })
    }).pipe(onClone)
  )

  for (const disposition of ["destroy", undefined] as const) {
    it.live(
      `RL-BACKUP-01 RL-REL-11 no destruction without a verified backup (${disposition ?? "expired"})`,
      () =>
        Effect.gen(function* () {
          const { lease, run } = yield* reuseFixture({
            native: true,
            metadata: { sandboxLeaseAcquisition: { outcome: "created" } }
          })
          const workers = scriptedWorkers()
          const told: Array<string> = []
          const how = {
            ...(disposition === undefined ? { status: "expired" as const } : { disposition }),
            onError: (id: EnvironmentLeaseId, error: Error) =>
              Effect.sync(() => void told.push(`${id} ${String(error)}`))
          }
          assert.deepStrictEqual(yield* release({ workers: workers.manager }, run, how), [])
          assert.lengthOf(told, 1)
          assert.include(told[0], lease)
          assert.include(told[0], "runner_harness_backup_unavailable")
          assert.isEmpty(workers.calls)
          assert.deepInclude(yield* ended(lease), { status: "active", cleanupStatus: null })
          const again = yield* release({ workers: workers.manager, hasBackups: true }, run, how)
          assert.strictEqual(again[0]?.lease.status, "expired")
        }).pipe(onClone)
    )
  }
})
