/** What could be neither recorded nor torn down: kept beside the database, recovered once, and counted while it is alone. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentId } from "../../../src/domain/Identity.ts"
import { IdleWork } from "../../../src/domain/runLeases/IdleWork.ts"
import { OrphanSpool, OrphanSpoolUnreadable } from "../../../src/domain/runLeases/OrphanSpool.ts"
import { SandboxOrphanCleanupWriteError } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import * as FileSpool from "../../../src/infra/filesystem/OrphanSpool.ts"
import { waitFor } from "../../support/waiting.ts"
import { onClone } from "./fixture.ts"
import { builtInOrphan, canary, failingWrites } from "./orphanScenes.ts"
import { leaseRowsOf } from "./rawRows.ts"
import { capturedLog, freshRuntime, noSpool, type RuntimeParts } from "./runtimes.ts"

const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(Path.join(tmpdir(), "spool-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true }).filter((name) => String(name).endsWith(".json"))

/** The real spool on a folder of the test's own. */
const fileSpool = Effect.gen(function* () {
  const folder = Path.join(yield* temporaryFolder, "orphans")
  const context = yield* Layer.build(Layer.fresh(FileSpool.layer({ directory: folder })))
  return { folder, spool: yield* Effect.provideContext(OrphanSpool, context) }
})

/** Row and teardown fail; the database answers again when `recover` is called. */
const deferredOrphan = (parts: RuntimeParts = {}) =>
  Effect.gen(function* () {
    const { leases, seen } = yield* failingWrites(() => true)
    const scene = yield* builtInOrphan({ leases, ...parts })
    scene.fake.always("destroy", () => Effect.fail(new Error(canary)))
    const log = capturedLog()
    const error = yield* scene.rejected.pipe(log.capture)
    assert.instanceOf(error, SandboxOrphanCleanupWriteError)
    const told = log.lines.find(({ level }) => level === "Error")?.fields
    const recover = Effect.sync(() => void (seen.fails = () => false))
    return { ...scene, told, recover, seen, leases }
  })

const assertOneRow = (environment: EnvironmentId) =>
  Effect.gen(function* () {
    const [row, ...others] = yield* leaseRowsOf(environment)
    assert.deepStrictEqual(others, [])
    assert.deepInclude(row, {
      status: "pending_cleanup",
      cleanup_status: "failed",
      failure_reason: "acquire_rejected_teardown_failed"
    })
    assert.match(String(row?.["provider_lease_id"]), /^sandbox:\/\/fake\//)
  })

const nothing = { recovered: 0, pending: 0 }
const one = { recovered: 1, pending: 0 }

describe("spool", () => {
  it.live("RL-SPOOL-01 RL-SPOOL-02 what is in the buffer and in the spool is recovered once", () =>
    Effect.gen(function* () {
      const { spool } = yield* fileSpool
      const scene = yield* deferredOrphan({ spool })
      assert.deepInclude(scene.told, { buffered: true, persisted: true })
      assert.deepStrictEqual(yield* leaseRowsOf(scene.environment.id), [])
      yield* scene.recover
      const before = scene.seen.writes
      assert.deepStrictEqual(yield* scene.runtime.flushDeferredOrphanCleanups, one)
      assert.strictEqual(scene.seen.writes, before + 1)
      yield* assertOneRow(scene.environment.id)
      assert.deepStrictEqual(yield* scene.runtime.flushDeferredOrphanCleanups, nothing)
      yield* assertOneRow(scene.environment.id)
    }).pipe(onClone)
  )

  it.live("RL-SPOOL-02 two flushes at once recover an orphan once", () =>
    Effect.gen(function* () {
      const { spool } = yield* fileSpool
      const scene = yield* deferredOrphan({ spool })
      yield* scene.recover
      const flush = scene.runtime.flushDeferredOrphanCleanups
      assert.deepStrictEqual(yield* Effect.all([flush, flush], { concurrency: 2 }), [one, nothing])
    }).pipe(onClone)
  )

  it.live("RL-SPOOL-03 the spool survives the process", () =>
    Effect.gen(function* () {
      const { folder, spool } = yield* fileSpool
      const scene = yield* deferredOrphan({ spool })
      assert.deepInclude(scene.told, { persisted: true })
      assert.strictEqual(filesIn(folder).length, 1)
      assert.deepStrictEqual(yield* leaseRowsOf(scene.environment.id), [])
      const second = yield* freshRuntime({ spool })
      assert.deepStrictEqual(yield* second.flushDeferredOrphanCleanups, one)
      yield* assertOneRow(scene.environment.id)
      assert.strictEqual(filesIn(folder).length, 0)
      const third = yield* freshRuntime({ spool })
      assert.deepStrictEqual(yield* third.flushDeferredOrphanCleanups, nothing)
      yield* assertOneRow(scene.environment.id)
    }).pipe(onClone)
  )

  it.live("RL-SPOOL-03 a process that ended between the row and the file imports the same row again", () =>
    Effect.gen(function* () {
      const { spool } = yield* fileSpool
      const scene = yield* deferredOrphan({ spool: { ...spool, remove: () => Effect.void } })
      const first = yield* freshRuntime({ spool: { ...spool, remove: () => Effect.void } })
      assert.deepStrictEqual(yield* first.flushDeferredOrphanCleanups, one)
      const second = yield* freshRuntime({ spool })
      assert.deepStrictEqual(yield* second.flushDeferredOrphanCleanups, one)
      yield* assertOneRow(scene.environment.id)
    }).pipe(onClone)
  )

  it.live("RL-SPOOL-04 without a spool that can be written the buffer alone keeps it", () =>
    Effect.gen(function* () {
      const scene = yield* deferredOrphan({ spool: noSpool })
      assert.deepInclude(scene.told, { persisted: false, buffered: true })
      yield* scene.recover
      assert.deepStrictEqual(yield* scene.runtime.flushDeferredOrphanCleanups, one)
      yield* assertOneRow(scene.environment.id)
    }).pipe(onClone)
  )

  it.live("RL-SPOOL-05 the process is busy until the row of an orphan that it alone knows is there", () =>
    Effect.gen(function* () {
      const context = yield* Layer.build(Layer.fresh(IdleWork.layer))
      const idle = yield* Effect.provideContext(IdleWork, context)
      const [started, gate] = [yield* Latch.make(), yield* Latch.make()]
      const store = yield* EnvironmentLeaseStore
      let isDown = true
      const leases: EnvironmentLeaseStore["Service"] = {
        ...store,
        insertPendingCleanupLease: (record) =>
          isDown
            ? Effect.fail({ ...new Error(canary) } as never)
            : started.open.pipe(
                Effect.andThen(gate.await),
                Effect.andThen(store.insertPendingCleanupLease(record))
              )
      }
      yield* idle.begin
      const scene = yield* deferredOrphan({ leases, idle })
      const active = Effect.map(idle.snapshot, (snapshot) => snapshot.active)
      assert.strictEqual(yield* active, 2)
      isDown = false
      const flush = yield* Effect.forkChild(scene.runtime.flushDeferredOrphanCleanups)
      yield* started.await
      assert.strictEqual(yield* active, 2)
      yield* gate.open
      assert.deepStrictEqual(yield* Fiber.join(flush), one)
      assert.strictEqual(yield* active, 1)
    }).pipe(onClone)
  )

  it.live("RL-SPOOL-05 U14 an orphan that is safe in the spool keeps nobody busy", () =>
    Effect.gen(function* () {
      const { spool } = yield* fileSpool
      const context = yield* Layer.build(Layer.fresh(IdleWork.layer))
      const idle = yield* Effect.provideContext(IdleWork, context)
      const scene = yield* deferredOrphan({ spool, idle })
      assert.deepStrictEqual(yield* idle.snapshot, { active: 0 })
      yield* scene.recover
      yield* scene.runtime.flushDeferredOrphanCleanups
      assert.deepStrictEqual(yield* idle.snapshot, { active: 0 })
    }).pipe(onClone)
  )

  it.live("RL-SPOOL-06 RL-SPOOL-02 RL-ORPHAN-07 a flush that fails keeps the orphan, and logs no cause", () =>
    Effect.gen(function* () {
      const { spool } = yield* fileSpool
      const scene = yield* deferredOrphan({ spool })
      const log = capturedLog()
      const flush = scene.runtime.flushDeferredOrphanCleanups.pipe(log.capture)
      assert.deepStrictEqual(yield* flush, { recovered: 0, pending: 1 })
      assert.deepStrictEqual(yield* leaseRowsOf(scene.environment.id), [])
      assert.deepStrictEqual(
        log.lines.map(({ level }) => level),
        ["Warn"]
      )
      const [{ fields, text }] = log.lines as [(typeof log.lines)[number]]
      assert.deepInclude(fields, { errorKind: "sandbox_orphan_cleanup_write_failed", requeued: true })
      assert.notProperty(fields, "cause")
      assert.notProperty(fields, "cleanupWriteError")
      assert.notInclude(text, canary)
      yield* scene.recover
      assert.deepStrictEqual(yield* flush, one)
      yield* assertOneRow(scene.environment.id)
    }).pipe(onClone)
  )

  it.live(
    "RL-SPOOL-06 FC-19 a spool that cannot be read is an error, after the buffer has been seen to",
    () =>
      Effect.gen(function* () {
        const unreadable = new OrphanSpoolUnreadable({ why: "folder" })
        const scene = yield* deferredOrphan({ spool: { ...noSpool, load: Effect.fail(unreadable) } })
        yield* scene.recover
        assert.strictEqual(yield* Effect.flip(scene.runtime.flushDeferredOrphanCleanups), unreadable)
        yield* assertOneRow(scene.environment.id)
      }).pipe(onClone)
  )

  it.effect("RL-SPOOL-07 the pause between two writes is the configured one", () =>
    Effect.gen(function* () {
      const { leases, seen } = yield* failingWrites(() => true)
      const scene = yield* builtInOrphan({ leases, settings: { pendingCleanupWritePauseMillis: 40 } })
      scene.fake.always("destroy", () => Effect.fail(new Error(canary)))
      const rejected = yield* Effect.forkChild(scene.rejected)
      const written = (writes: number) =>
        TestClock.withLive(
          waitFor({
            fact: `${writes} writes`,
            look: Effect.sync(() => seen.writes),
            holds: (n) => n === writes
          })
        )
      yield* written(1)
      yield* TestClock.adjust(39)
      assert.strictEqual(seen.writes, 1)
      yield* TestClock.adjust(1)
      yield* written(2)
      yield* TestClock.adjust(40)
      assert.instanceOf(yield* Fiber.join(rejected), SandboxOrphanCleanupWriteError)
      assert.strictEqual(seen.writes, 3)
    }).pipe(onClone)
  )
})
