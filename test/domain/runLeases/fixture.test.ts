/** The shared fixture of run leases is what the specification says of F-REUSE, and the script records what was called. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { pinOf } from "../../../src/domain/environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { leaseRow, setLease, setMetadata } from "./rawRows.ts"
import { answering, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

describe("the fixture of run leases", () => {
  it.live("F-REUSE is a lease as its store reads it, and a row as it was written", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ native: true, metadata: { executionWorkspaceMode: undefined } })
      const store = yield* EnvironmentLeaseStore
      const lease = Option.getOrThrow(yield* store.getLeaseById(scene.lease))
      assert.deepInclude(lease, {
        tenant: scene.tenant,
        environment: scene.environment.id,
        executionWorkspace: scene.workspace,
        task: null,
        run: scene.run,
        status: "active",
        policy: "reuse_by_environment",
        provider: "fake-plugin",
        providerLeaseId: reusableLeaseId,
        releasedAtMillis: null,
        cleanupStatus: null,
        sentConfig: null
      })
      assert.strictEqual(pinOf(lease), scene.plugin.id)
      assert.notProperty(lease.metadata, "executionWorkspaceMode")
      assert.match(
        String((lease.metadata["reusableSandboxLease"] as { runtimeFingerprint: string }).runtimeFingerprint),
        /^[a-f0-9]{64}$/
      )
      yield* setLease(scene.lease, { status: "pending_cleanup", run_id: null, metadata: { a: 1, b: 2 } })
      yield* setMetadata(scene.lease, { a: undefined, c: [3] })
      const row = yield* leaseRow(scene.lease)
      assert.deepInclude(row, { status: "pending_cleanup", run_id: null })
      assert.deepStrictEqual(row.metadata, { b: 2, c: [3] })
    }).pipe(onClone)
  )

  it.effect("the worker script counts checks and reads and keeps the arguments of a call", () =>
    Effect.gen(function* () {
      const { plugin } = { plugin: "00000000-0000-4000-8000-000000000001" as never }
      const workers = scriptedWorkers({
        call: answering({ stop: receiptOf("stopped"), fail: new Error("no") })
      })
      const { manager } = workers
      assert.isTrue(manager.isRunning(plugin))
      assert.isDefined(manager.getWorker?.(plugin))
      assert.deepStrictEqual(yield* manager.call(plugin, "stop", { providerLeaseId: "x" }, undefined), {
        providerLeaseId: "x",
        state: "stopped"
      })
      assert.strictEqual((yield* Effect.flip(manager.call(plugin, "fail", {}))).message, "no")
      assert.deepStrictEqual(
        workers.calls.map(({ given }) => given.length),
        [4, 3]
      )
      assert.deepStrictEqual(workers.counts, { checks: 1, reads: 1 })
      workers.script.methods = null
      assert.isUndefined(manager.getWorker)
      assert.isFalse("getWorker" in manager)
    })
  )
})
