/**
 * Writes on leases whose answer the server gave and nobody got: each says that its outcome is unknown, has been done, and
 * may be asked for again or looked up. On a clone, through a socket that drops the answer. Source: BX-04, FC-02.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { layer as adapter } from "../../../src/infra/postgres/EnvironmentLeaseStore.ts"
import * as Db from "../../../src/infra/postgres/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { pluginSchema } from "../../support/schemas.ts"
import { onClone, reusableLeaseId, reuseFixture } from "../../domain/runLeases/fixture.ts"
import { leaseRow, sql, value } from "../../domain/runLeases/rawRows.ts"
import { losingAnswer } from "./cuttingProxy.ts"
import { acquisition, claimed, claimedOf, claimOf, intention, orphan } from "./leaseRequests.ts"

/** The store over a connection that is cut when a statement with this tag is answered. */
const cutAt = Effect.fnUntraced(function* (tag: string) {
  const { address } = yield* losingAnswer((yield* Clone).address, tag)
  const db = yield* Db.make({ address, schema: pluginSchema, connectionsMax: 1 })
  const context = yield* Layer.build(Layer.fresh(adapter).pipe(Layer.provide(Layer.succeed(PluginDb, db))))
  return Context.get(context, EnvironmentLeaseStore)
})

type Leases = EnvironmentLeaseStore["Service"]

const unknown = <A, E>(tag: string, method: keyof Leases, write: (leases: Leases) => Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const failure: unknown = yield* Effect.flip(write(yield* cutAt(tag)))
    assert.deepInclude(failure, { _tag: "CommitUnknown", operation: `EnvironmentLeaseStore.${method}` })
  }).pipe(Effect.scoped)

describe("a write without its answer", () => {
  it.live("BX-01 BX-04 of an intent is a durable intent, and the same again is the same", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const leases = yield* EnvironmentLeaseStore
      const intent = intention(scene)
      yield* unknown("SELECT 1", "intend", (cut) => cut.intend(intent))
      yield* leases.intend(intent)
      assert.deepStrictEqual(
        (yield* leases.intents).map(({ id }) => id),
        [intent.id]
      )
      yield* unknown("DELETE 1", "dropIntent", (cut) => cut.dropIntent(intent.id))
      assert.deepStrictEqual(yield* leases.intents, [])
      yield* leases.dropIntent(intent.id)
    }).pipe(onClone)
  )

  it.live("BX-04 FC-02 of an acquisition is its row, answered to whoever asks for the same id again", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const leases = yield* EnvironmentLeaseStore
      const asked = acquisition(scene, { run: scene.run })
      yield* leases.intend(intention(scene, { id: asked.id }))
      yield* unknown("SELECT 1", "acquireLease", (cut) => cut.acquireLease(asked))
      assert.strictEqual((yield* leaseRow(asked.id))["status"], "active")
      assert.deepStrictEqual(yield* leases.intents, [])
      assert.deepInclude(yield* leases.acquireLease(asked), {
        id: asked.id,
        status: "active",
        run: scene.run
      })
    }).pipe(onClone)
  )

  it.live("BX-04 of an orphan is its row, and its insert again is the same row", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const leases = yield* EnvironmentLeaseStore
      const asked = orphan(scene)
      yield* unknown("INSERT 0 1", "insertPendingCleanupLease", (cut) => cut.insertPendingCleanupLease(asked))
      const lease = yield* leases.insertPendingCleanupLease(asked)
      assert.deepInclude(lease, { id: asked.id, status: "pending_cleanup" })
      assert.strictEqual(yield* value("select count(*)::int from environment_leases"), 2)
    }).pipe(onClone)
  )

  it.live("BX-04 of a claim, a renewal and an end is what the row says", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ lease: { status: "failed" } })
      const leases = yield* EnvironmentLeaseStore
      const claim = claimOf(scene.lease)
      yield* unknown("SELECT 1", "claimCleanup", (cut) => cut.claimCleanup(claim))
      const lease = Option.getOrThrow(yield* leases.getLeaseById(scene.lease))
      assert.deepInclude(lease.metadata, {
        pendingCleanupAttemptId: claim.attempt,
        pendingCleanupInFlight: true
      })
      yield* unknown("UPDATE 1", "renewCleanup", (cut) => cut.renewCleanup(claimedOf(lease)))
      yield* unknown("SELECT 1", "settleCleanup", (cut) =>
        cut.settleCleanup(claimedOf(lease), { _tag: "Owed" })
      )
      const owed = Option.getOrThrow(yield* leases.getLeaseById(scene.lease))
      assert.deepInclude(owed, { status: "pending_cleanup", cleanupTries: 1 })
      assert.isFalse(owed.metadata["pendingCleanupInFlight"])
      assert.deepInclude(yield* claimed(scene.lease), { providerLeaseId: reusableLeaseId })
    }).pipe(onClone)
  )

  it.live("BX-04 of a release and of metadata is what the row says", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const leases = yield* EnvironmentLeaseStore
      yield* unknown("UPDATE 1", "refreshLease", (cut) => cut.refreshLease(scene.lease, scene.run, { a: 1 }))
      yield* unknown("UPDATE 1", "updateLeaseMetadata", (cut) =>
        cut.updateLeaseMetadata(scene.lease, { b: 1 })
      )
      assert.deepStrictEqual((yield* leaseRow(scene.lease)).metadata, { b: 1 })
      const end = {
        status: "pending_cleanup",
        failureReason: "r",
        cleanupStatus: "failed",
        actor: "run"
      } as const
      yield* unknown("SELECT 1", "releaseLease", (cut) => cut.releaseLease(scene.lease, end))
      assert.deepInclude(yield* leaseRow(scene.lease), { status: "pending_cleanup", ended_by: "run" })
      assert.deepStrictEqual(yield* leases.releaseLease(scene.lease, end), Option.none())
      yield* unknown("UPDATE 1", "postponeCleanup", (cut) => cut.postponeCleanup(scene.lease))
      yield* unknown("UPDATE 1", "makeDue", (cut) => cut.makeDue(scene.lease))
      assert.strictEqual((yield* leases.dueCleanups({ backoffMillis: 10 ** 9 })).leases.length, 1)
    }).pipe(onClone)
  )

  it.live("BX-04 that the server refused is a failure, and not an unknown outcome", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const leases = yield* EnvironmentLeaseStore
      yield* sql("alter table environment_leases add constraint none check (task_id is null)")
      const refused = leases.acquireLease(acquisition(scene, { task: scene.task }))
      assert.deepInclude(yield* Effect.flip(refused), { _tag: "StorageFailure", fault: "constraint" })
    }).pipe(onClone)
  )
})
