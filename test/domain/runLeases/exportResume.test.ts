import { randomUUID } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { JsonObject } from "../../../src/domain/Json.ts"
import type { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { releaseRunLeases } from "../../../src/domain/runLeases/runRelease.ts"
import { inDaemon, leaseNow, sweepIn } from "./daemons.ts"
import { newPlugin, onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { leaseRow, newLease, setLease, setMetadata, setRun } from "./rawRows.ts"
import { receiptOf, type RecordedCall, scriptedWorkers } from "./scriptedWorkers.ts"

type Scene = Effect.Success<ReturnType<typeof reuseFixture>>

const stopMethod = "environmentStopLease"
const receipt = receiptOf("stopped")

const markerOf = (scene: Scene, requestId: string): JsonObject => ({
  schema: "holdfast.workspace-export-resume.v1",
  requestId,
  tenantId: scene.tenant,
  pluginId: scene.plugin.id,
  runId: scene.run,
  leaseId: scene.lease,
  provider: "fake-plugin",
  providerLeaseId: reusableLeaseId,
  resultId: "result-1"
})

/** The row of a native runner whose export waits, its claim ended a moment ago. */
const exporting = Effect.fnUntraced(function* (change: JsonObject = {}) {
  const scene = yield* reuseFixture({ native: true })
  const requestId = randomUUID()
  yield* setLease(scene.lease, { status: "pending_cleanup", cleanup_status: "failed" })
  yield* setMetadata(scene.lease, {
    nativeWorkspaceExportResume: { ...markerOf(scene, requestId), ...change },
    pendingCleanupAttemptId: requestId,
    pendingCleanupInFlight: true,
    pendingCleanupLeaseExpiresAtMs: Date.now() - 1
  })
  return { ...scene, requestId }
})

/** Another plugin with the same driver key, installed before. */
const sibling = newPlugin({ installOrder: -1 })

const own = (scene: Scene, key: string, value: unknown) => setMetadata(scene.lease, { [key]: value })

const otherOwner = (status: string) => (scene: Scene) =>
  newLease(scene.tenant, scene.environment.id, {
    status,
    provider: "fake-plugin",
    provider_lease_id: reusableLeaseId
  })

interface Row {
  readonly change?: JsonObject
  /** Done to the row, or beside it, before the sweep. */
  readonly given?: (scene: Scene) => Effect.Effect<unknown, unknown, PluginDb | ProviderPlugins>
  readonly reply?: ((call: RecordedCall) => unknown) | undefined
  readonly methods?: ReadonlyArray<string>
  readonly isRunning?: (scene: Scene, plugin: string) => boolean
  readonly outcome: "DONE" | "PENDING" | "PENDING, stop sent" | "PENDING, attempt unchanged"
}

const rows: Readonly<Record<string, Row>> = {
  stopped: { outcome: "DONE" },
  duplicate_key: { given: () => sibling, outcome: "DONE" },
  legacy_intent: { change: { pluginId: undefined }, given: () => sibling, outcome: "DONE" },
  unconfirmed: { reply: () => undefined, outcome: "PENDING, stop sent" },
  foreign_marker: { change: { runId: randomUUID() }, outcome: "PENDING" },
  foreign_plugin_pin: { change: { pluginId: randomUUID() }, outcome: "PENDING" },
  v2_missing_pin: {
    change: { schema: "holdfast.workspace-export-resume.v2", pluginId: undefined },
    outcome: "PENDING"
  },
  competing_owner: { given: otherOwner("active"), outcome: "PENDING" },
  retained_owner: { given: otherOwner("retained"), outcome: "PENDING" },
  no_stop_capability: {
    methods: ["environmentReleaseLease", "environmentDestroyLease"],
    outcome: "PENDING"
  },
  live_request: {
    given: (scene) => own(scene, "pendingCleanupLeaseExpiresAtMs", Date.now() + 60_000),
    outcome: "PENDING, attempt unchanged"
  },
  owner_stopped: {
    given: () => sibling,
    isRunning: (scene, plugin) => plugin !== scene.plugin.id,
    outcome: "PENDING, attempt unchanged"
  },
  owner_driver_changed: {
    given: (scene) =>
      Effect.andThen(
        sibling,
        ProviderPlugins.use((plugins) =>
          plugins.install({
            packageName: scene.plugin.packageName,
            manifest: { ...scene.plugin.manifest, environmentDrivers: [] },
            status: "ready"
          })
        )
      ),
    outcome: "PENDING, attempt unchanged"
  },
  owner_missing: {
    given: (scene) =>
      Effect.andThen(
        sibling,
        ProviderPlugins.use((plugins) => plugins.remove(scene.plugin.id))
      ),
    outcome: "PENDING, attempt unchanged"
  }
}

const sweepRow = Effect.fnUntraced(function* (row: Row) {
  const scene = yield* exporting(row.change)
  if (row.given !== undefined) yield* row.given(scene)
  const workers = scriptedWorkers({
    isRunning: (plugin) => row.isRunning?.(scene, plugin) ?? true,
    ...(row.methods === undefined ? {} : { methods: () => row.methods }),
    call: (call) => Effect.sync(() => ("reply" in row ? row.reply?.(call) : receipt(call)))
  })
  yield* sweepIn({ workers: workers.manager })
  return { scene, workers, lease: yield* leaseNow(scene.lease) }
})

describe("runLeases: a pending export resume", () => {
  for (const [name, row] of Object.entries(rows)) {
    it.live(`RL-EXPORT-02 RL-EXPORT-03 RL-SWEEP-06 ${name}: ${row.outcome}`, () =>
      Effect.gen(function* () {
        const { lease, scene, workers } = yield* sweepRow(row)
        const isSent = row.outcome === "DONE" || row.outcome === "PENDING, stop sent"
        assert.deepStrictEqual(workers.methods(), isSent ? [stopMethod] : [])
        for (const call of workers.calls) {
          assert.strictEqual(call.plugin, scene.plugin.id)
          assert.isNumber(call.given[3])
          assert.deepInclude(call.params, { providerLeaseId: reusableLeaseId, cancelActiveWork: true })
        }
        if (row.outcome === "DONE") {
          assert.deepInclude(lease, { status: "released", cleanupStatus: "success" })
          assert.deepInclude(lease.metadata["remoteExecutionTermination"], {
            state: "stopped",
            runId: scene.run
          })
          assert.notProperty(lease.metadata, "nativeWorkspaceExportResume")
          return
        }
        assert.deepInclude(lease, { status: "pending_cleanup", cleanupStatus: "failed" })
        assert.notProperty(lease.metadata, "remoteExecutionTermination")
        if (row.outcome === "PENDING, attempt unchanged")
          assert.strictEqual(lease.metadata["pendingCleanupAttemptId"], scene.requestId)
      }).pipe(onClone)
    )
  }

  it.live("RL-EXPORT-02 RL-STOP-08 late_receipt: exactly the new owner's row", () =>
    Effect.gen(function* () {
      const scene = yield* exporting()
      const taken = { status: "active", run_id: null, cleanup_status: null, metadata: { newOwner: true } }
      const context = yield* Effect.context<Effect.Services<ReturnType<typeof setLease>>>()
      const workers = scriptedWorkers({
        call: (call) =>
          setLease(scene.lease, taken).pipe(
            Effect.provideContext(context),
            Effect.orDie,
            Effect.as(receipt(call))
          )
      })
      yield* sweepIn({ workers: workers.manager })
      assert.deepStrictEqual(workers.methods(), [stopMethod])
      assert.deepInclude(yield* leaseRow(scene.lease), taken)
    }).pipe(onClone)
  )

  const terminal = Effect.fnUntraced(function* (inFlight: boolean) {
    const scene = yield* reuseFixture({
      native: true,
      runStatus: "failed",
      lease: { lease_policy: "ephemeral" },
      metadata: { reuseLease: false }
    })
    const requestId = randomUUID()
    yield* setLease(scene.lease, { status: "pending_cleanup", cleanup_status: "failed" })
    yield* setMetadata(scene.lease, {
      nativeWorkspaceExportResume: {
        ...markerOf(scene, requestId),
        schema: "holdfast.workspace-export-resume.v2",
        purpose: "terminal_export"
      },
      pendingCleanupAttemptId: requestId,
      pendingCleanupInFlight: inFlight,
      pendingCleanupLeaseExpiresAtMs: Date.now() + (inFlight ? 60_000 : -1)
    })
    return scene
  })

  const terminalRows: Readonly<
    Record<
      string,
      { readonly replies: ReadonlyArray<unknown>; readonly by: ReadonlyArray<"release" | "sweep"> }
    >
  > = {
    stopped: { replies: [receipt], by: ["release"] },
    stop_failed: { replies: [new Error("no"), receipt], by: ["release", "sweep"] },
    unconfirmed: { replies: [undefined, receipt], by: ["release", "sweep"] },
    restart: { replies: [receipt], by: ["sweep"] },
    committed_release: { replies: [receipt], by: ["release"] }
  }

  for (const [name, row] of Object.entries(terminalRows)) {
    it.live(`RL-EXPORT-04 RL-EXPORT-05 ${name}: FINAL`, () =>
      Effect.gen(function* () {
        const scene = yield* terminal(false)
        if (name === "committed_release") {
          yield* setLease(scene.lease, { status: "active", cleanup_status: null })
          yield* setRun(scene.run, "succeeded")
        }
        const left = [...row.replies]
        const workers = scriptedWorkers({
          call: (call) => {
            const reply = left.shift()
            if (reply instanceof Error) return Effect.fail(reply)
            return Effect.succeed(typeof reply === "function" ? reply(call) : reply)
          }
        })
        const parts = { workers: workers.manager }
        for (const [at, by] of row.by.entries()) {
          if (by === "sweep") yield* sweepIn(parts)
          else
            yield* releaseRunLeases(scene.run, { status: "failed", disposition: "stop_and_retain" }).pipe(
              inDaemon(parts)
            )
          if (at < row.by.length - 1) {
            const lease = yield* leaseNow(scene.lease)
            assert.strictEqual(lease.status, "pending_cleanup")
            assert.isFalse(lease.metadata["pendingCleanupInFlight"])
          }
        }
        const lease = yield* leaseNow(scene.lease)
        assert.deepInclude(lease, { status: "released", cleanupStatus: "success" })
        assert.deepInclude(lease.metadata["remoteExecutionTermination"], { state: "stopped" })
        assert.notProperty(lease.metadata, "nativeWorkspaceExportResume")
        assert.lengthOf(workers.calls, row.replies.length)
        for (const { method, params } of workers.calls) {
          assert.strictEqual(method, stopMethod)
          assert.deepInclude(params, {
            providerLeaseId: reusableLeaseId,
            resourceDisposition: "stop_and_retain"
          })
          assert.deepInclude(params["config"], { reuseLease: false })
        }
      }).pipe(onClone)
    )
  }

  it.live("RL-EXPORT-04 RL-EXPORT-05 inflight: no call", () =>
    Effect.gen(function* () {
      const scene = yield* terminal(true)
      const workers = scriptedWorkers()
      yield* releaseRunLeases(scene.run, { status: "failed", disposition: "stop_and_retain" }).pipe(
        inDaemon({ workers: workers.manager })
      )
      assert.isEmpty(workers.calls)
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
    }).pipe(onClone)
  )

  it.live("RL-EXPORT-02 a default release of an active lease with a marker stops and never releases", () =>
    Effect.gen(function* () {
      const scene = yield* terminal(false)
      yield* setLease(scene.lease, { status: "active", cleanup_status: null })
      const workers = scriptedWorkers({ call: (call) => Effect.sync(() => receipt(call)) })
      yield* releaseRunLeases(scene.run, { status: "expired" }).pipe(inDaemon({ workers: workers.manager }))
      assert.deepStrictEqual(workers.methods(), [stopMethod])
    }).pipe(onClone)
  )
})
