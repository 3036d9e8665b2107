/** Resources whose rows were refused: a row first, a teardown always, and nothing about the cause in a log. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  EnvironmentLeaseStore,
  EnvironmentTenantMismatch
} from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { SandboxOrphanCleanupWriteError } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { newTenant, onClone } from "./fixture.ts"
import { builtInOrphan, canary, failingWrites, pluginOrphan } from "./orphanScenes.ts"
import { leaseRow, leaseRowsOf, sql } from "./rawRows.ts"
import { capturedLog, freshRuntime, type LoggedLine } from "./runtimes.ts"
import { receiptOf } from "./scriptedWorkers.ts"

const assertBindingError = (error: Error) => {
  assert.instanceOf(error, EnvironmentTenantMismatch)
  const { details, status } = error as EnvironmentTenantMismatch
  assert.deepStrictEqual(
    { status, details },
    { status: 403, details: { code: "environment_tenant_mismatch" } }
  )
}

const failing = () => Effect.fail(new Error(canary))

const fakeId = (run: string) => new RegExp(`^sandbox://fake/${run}/[0-9a-f-]{36}$`)

/** What a log of the orphan path must say and must not. */
const assertFields = (line: LoggedLine | undefined, fields: object) => {
  assert.deepInclude(line?.fields, { errorKind: "sandbox_orphan_cleanup_write_failed", ...fields })
  assert.notProperty(line?.fields, "cause")
  assert.notProperty(line?.fields, "cleanupWriteError")
}

describe("orphans", () => {
  it.live(
    "RL-ACQ-10 RL-ORPHAN-01 a built-in sandbox whose row is refused is provisioned, and torn down",
    () =>
      Effect.gen(function* () {
        const scene = yield* builtInOrphan()
        assertBindingError(yield* scene.rejected)
        const [torn, ...others] = scene.teardowns()
        assert.match(String(torn), fakeId(scene.run))
        assert.deepStrictEqual(others, [])
        assert.deepStrictEqual(
          (yield* leaseRowsOf(scene.environment.id)).map(({ cleanup_status, status }) => [
            status,
            cleanup_status
          ]),
          [["expired", "success"]]
        )
        assert.deepStrictEqual(scene.fake.sandboxes(), [])
        assert.deepStrictEqual(yield* sql("select 1 from provider_intents"), [])
      }).pipe(onClone)
  )

  it.live("RL-ACQ-10 RL-ORPHAN-02 a plugin's is destroyed, with evidence of the row's own", () =>
    Effect.gen(function* () {
      const scene = yield* pluginOrphan({
        environmentAcquireLease: { providerLeaseId: "plugin-lease-1" },
        environmentDestroyLease: receiptOf("destroyed")
      })
      assertBindingError(yield* scene.rejected)
      assert.deepStrictEqual(
        scene.workers.calls.map(({ method, params }) => [method, params["providerLeaseId"]]),
        [
          ["environmentAcquireLease", undefined],
          ["environmentDestroyLease", "plugin-lease-1"]
        ]
      )
      const [row, ...others] = yield* leaseRowsOf(scene.environment.id)
      assert.deepStrictEqual(others, [])
      assert.deepInclude(row, { status: "expired", cleanup_status: "success" })
      assert.deepInclude(
        (row!["metadata"] as { remoteExecutionTermination: object }).remoteExecutionTermination,
        {
          tenantId: scene.tenant,
          runId: scene.run,
          leaseId: row!["id"] as string,
          providerLeaseId: "plugin-lease-1",
          state: "destroyed"
        }
      )
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-03 the row that owes the cleanup is there before the teardown", () =>
    Effect.gen(function* () {
      const scene = yield* builtInOrphan()
      const statuses = Effect.map(leaseRowsOf(scene.environment.id), (rows) =>
        rows.map(({ status }) => status)
      )
      const context = yield* Effect.context<Effect.Services<typeof statuses>>()
      let atTeardown: unknown
      scene.fake.script("destroy", (real) =>
        Effect.provideContext(Effect.orDie(statuses), context).pipe(
          Effect.tap((seen) => Effect.sync(() => (atTeardown = seen))),
          Effect.andThen(real)
        )
      )
      assertBindingError(yield* scene.rejected)
      assert.deepStrictEqual(atTeardown, ["pending_cleanup"])
      assert.deepStrictEqual(yield* statuses, ["expired"])
      assert.strictEqual(scene.teardowns().length, 1)
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-04 a teardown that fails leaves the row: built-in", () =>
    Effect.gen(function* () {
      const scene = yield* builtInOrphan()
      scene.fake.always("destroy", failing)
      assertBindingError(yield* scene.rejected)
      assert.strictEqual(scene.teardowns().length, 1)
      const [row, ...others] = yield* leaseRowsOf(scene.environment.id)
      assert.deepStrictEqual(others, [])
      assert.deepInclude(row, { status: "pending_cleanup", cleanup_status: "failed" })
      assert.match(String(row?.["provider_lease_id"]), fakeId(scene.run))
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-04 a teardown that fails leaves the row: plugin", () =>
    Effect.gen(function* () {
      const scene = yield* pluginOrphan({
        environmentAcquireLease: { providerLeaseId: "plugin-lease-2" },
        environmentDestroyLease: new Error(canary)
      })
      assertBindingError(yield* scene.rejected)
      const [row, ...others] = yield* leaseRowsOf(scene.environment.id)
      assert.deepStrictEqual(others, [])
      assert.deepInclude(row, {
        status: "pending_cleanup",
        cleanup_status: "failed",
        provider_lease_id: "plugin-lease-2",
        failure_reason: "acquire_rejected_teardown_failed"
      })
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-05 a row that cannot be written is nothing to report where the teardown works", () =>
    Effect.gen(function* () {
      const { leases } = yield* failingWrites(() => true)
      const scene = yield* builtInOrphan({ leases })
      assertBindingError(yield* scene.rejected)
      assert.strictEqual(scene.teardowns().length, 1)
      assert.deepStrictEqual(yield* leaseRowsOf(scene.environment.id), [])
      assert.deepStrictEqual(yield* scene.runtime.flushDeferredOrphanCleanups, { recovered: 0, pending: 0 })
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-06 RL-ORPHAN-07 neither row nor teardown: built-in", () =>
    Effect.gen(function* () {
      const { leases, seen } = yield* failingWrites(() => true)
      const scene = yield* builtInOrphan({ leases })
      scene.fake.always("destroy", failing)
      const log = capturedLog()
      const error = yield* scene.rejected.pipe(log.capture)
      assert.instanceOf(error, SandboxOrphanCleanupWriteError)
      assert.strictEqual((error as SandboxOrphanCleanupWriteError).provider, "fake")
      assertBindingError((error as SandboxOrphanCleanupWriteError).cause as Error)
      assert.strictEqual(scene.teardowns().length, 1)
      assert.strictEqual(seen.writes, 3)
      assert.deepStrictEqual(yield* leaseRowsOf(scene.environment.id), [])
      const told = { provider: "fake", tenantId: scene.tenant, environmentId: scene.environment.id }
      assert.deepStrictEqual(
        log.lines.map(({ level }) => level),
        ["Warn", "Warn", "Warn", "Error"]
      )
      for (const line of log.lines) assertFields(line, told)
      assertFields(log.lines[3], { providerLeaseId: scene.teardowns()[0], persisted: false, buffered: true })
      for (const line of log.lines.slice(0, 3)) assert.notProperty(line.fields, "requeued")
      assert.notInclude(log.lines.map(({ text }) => text).join(), canary)
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-06 neither row nor teardown: plugin", () =>
    Effect.gen(function* () {
      const { leases } = yield* failingWrites(() => true)
      const answers = {
        environmentAcquireLease: { providerLeaseId: "plugin-lease-4" },
        environmentDestroyLease: new Error(canary)
      }
      const scene = yield* pluginOrphan(answers, { leases })
      const error = yield* scene.rejected
      assert.instanceOf(error, SandboxOrphanCleanupWriteError)
      const { cause, provider, providerLeaseId } = error as SandboxOrphanCleanupWriteError
      assert.deepStrictEqual(
        { provider, providerLeaseId },
        { provider: "fake-plugin", providerLeaseId: "plugin-lease-4" }
      )
      assertBindingError(cause as Error)
      assert.notInclude(error.message, canary)
      assert.deepStrictEqual(yield* leaseRowsOf(scene.environment.id), [])
    }).pipe(onClone)
  )

  it.live("RL-ORPHAN-08 a write that works at the second try is enough", () =>
    Effect.gen(function* () {
      const { leases, seen } = yield* failingWrites((write) => write === 1)
      const scene = yield* builtInOrphan({ leases })
      scene.fake.always("destroy", failing)
      assertBindingError(yield* scene.rejected)
      assert.strictEqual(seen.writes, 2)
      assert.strictEqual(scene.teardowns().length, 1)
      const [row, ...others] = yield* leaseRowsOf(scene.environment.id)
      assert.deepStrictEqual(others, [])
      assert.deepInclude(row, {
        status: "pending_cleanup",
        cleanup_status: "failed",
        failure_reason: "acquire_rejected_teardown_failed"
      })
    }).pipe(onClone)
  )

  it.live.each([
    ["RL-ORPHAN-10 an orphan of a deleted environment", true],
    ["RL-ORPHAN-11 an orphan whose environment is deleted later", false]
  ] as const)("%s stays, names none, and can be torn down", ([, isDeletedFirst]) =>
    Effect.gen(function* () {
      const tenant = yield* newTenant
      const scene = yield* builtInOrphan()
      const remove = EnvironmentStore.use((store) => store.remove(scene.environment.id))
      if (isDeletedFirst) yield* remove
      const store = yield* EnvironmentLeaseStore
      const { id } = yield* store.insertPendingCleanupLease({
        id: EnvironmentLeaseId.make(crypto.randomUUID()),
        tenant,
        environment: scene.environment.id,
        executionWorkspace: null,
        task: null,
        run: null,
        provider: "fake",
        providerLeaseId: "sandbox://fake/orphan",
        metadata: { driver: "sandbox", provider: "fake" },
        sentConfig: null,
        failureReason: "acquire_rejected_teardown_failed"
      })
      if (!isDeletedFirst) yield* remove
      const row = yield* leaseRow(id)
      assert.deepInclude(row, { environment_id: null, status: "pending_cleanup" })
      const fake = makeFakeProvider()
      const runtime = yield* freshRuntime({ builtIns: [fake.provider] })
      yield* runtime.retryPendingSandboxTeardown(Option.getOrThrow(yield* store.getLeaseById(id)))
      assert.deepStrictEqual(
        fake.calls.filter(({ verb }) => verb === "destroy").map(({ asked }) => asked),
        [{ providerLeaseId: "sandbox://fake/orphan" }]
      )
      assert.strictEqual((yield* leaseRow(id))["status"], "pending_cleanup")
    }).pipe(onClone)
  )
})
