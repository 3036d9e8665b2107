import { randomUUID } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { retryPendingSandboxTeardown } from "../../../src/domain/runLeases/teardown.ts"
import { inDaemon, leaseNow, sweepIn } from "./daemons.ts"
import { onClone, reuseFixture } from "./fixture.ts"
import { setLease, setMetadata } from "./rawRows.ts"
import { type RecordedCall, scriptedWorkers } from "./scriptedWorkers.ts"

const uncertain = Effect.gen(function* () {
  const scene = yield* reuseFixture()
  const placeholder = `holdfast-create-${randomUUID()}`
  const evidence = {
    providerLeaseId: placeholder,
    attemptId: randomUUID(),
    tenantId: scene.tenant,
    environmentId: scene.environment.id,
    runId: scene.run,
    accountFingerprint: "c".repeat(64),
    labels: { "holdfast-provider": "fake-plugin" }
  }
  yield* setLease(scene.lease, {
    status: "pending_cleanup",
    cleanup_status: "failed",
    provider_lease_id: placeholder
  })
  yield* setMetadata(scene.lease, { failedCreateCleanup: evidence })
  return { ...scene, placeholder, evidence }
})

type Scene = Effect.Success<typeof uncertain>

const evidenceIn = (call: RecordedCall): JsonObject =>
  (call.params["leaseMetadata"] as { failedCreateCleanup: JsonObject }).failedCreateCleanup

/** Another attempt takes the row; that it cannot would be the test's own fault. */
const anotherTakes = Effect.map(
  Effect.context<Effect.Services<ReturnType<typeof setMetadata>>>(),
  (context) => (lease: Scene["lease"]) =>
    setMetadata(lease, { pendingCleanupAttemptId: "the other's" }).pipe(
      Effect.provideContext(context),
      Effect.orDie
    )
)

const staysTheTakers = (scene: Scene) =>
  Effect.gen(function* () {
    assert.deepInclude((yield* leaseNow(scene.lease)).metadata, {
      failedCreateCleanup: scene.evidence,
      pendingCleanupAttemptId: "the other's"
    })
  })

/** A provider that deletes only what it has been handed back as observed. */
const observing = (scene: Scene, change: JsonObject = {}) => {
  const state = { deleted: 0 }
  const workers = scriptedWorkers({
    call: (call) => {
      const evidence = evidenceIn(call)
      if (evidence["observedProviderLeaseId"] === undefined) {
        const cleanup = { ...evidence, observedProviderLeaseId: "verified-provider-id", ...change }
        return Effect.fail(
          new ProviderRpcError({
            code: -32_002,
            message: "observe first",
            data: { schema: "holdfast/environment-creation-cleanup/v1", cleanup }
          })
        )
      }
      state.deleted += 1
      return Effect.succeed({ providerLeaseId: scene.placeholder, state: "destroyed" })
    }
  })
  return { workers, state }
}

describe("runLeases/creationHandshake", () => {
  it.live(
    "RL-CREATE-10 RL-SWEEP-04 the sweep observes, journals, then deletes; the placeholder stays the key",
    () =>
      Effect.gen(function* () {
        const scene = yield* uncertain
        const { state, workers } = observing(scene)
        assert.deepStrictEqual(yield* sweepIn({ workers: workers.manager }), {
          swept: 1,
          destroyed: 1,
          capped: 0
        })
        assert.strictEqual(state.deleted, 1)
        const observed = { ...scene.evidence, observedProviderLeaseId: "verified-provider-id" }
        assert.deepStrictEqual(workers.calls.map(evidenceIn), [scene.evidence, observed])
        for (const { params } of workers.calls)
          assert.deepInclude(params, {
            providerLeaseId: scene.placeholder,
            environmentId: scene.environment.id,
            tenantId: scene.tenant
          })
        const lease = yield* leaseNow(scene.lease)
        assert.deepInclude(lease, { status: "expired", cleanupStatus: "success" })
        assert.deepStrictEqual(lease.metadata["failedCreateCleanup"], observed)
      }).pipe(onClone)
  )

  it.live("RL-CREATE-08 the evidence's environment is sent although the row's reference is gone", () =>
    Effect.gen(function* () {
      const scene = yield* uncertain
      yield* setLease(scene.lease, { environment_id: null })
      const { workers } = observing(scene)
      const reply = yield* Effect.flatMap(leaseNow(scene.lease), retryPendingSandboxTeardown).pipe(
        inDaemon({ workers: workers.manager })
      )
      assert.deepStrictEqual(reply, { providerLeaseId: scene.placeholder, state: "destroyed" })
      assert.isTrue(workers.calls.every(({ params }) => params["environmentId"] === scene.environment.id))
    }).pipe(onClone)
  )

  it.live("RL-CREATE-11 foreign observation: not stored, no second destroy", () =>
    Effect.gen(function* () {
      const scene = yield* uncertain
      const { state, workers } = observing(scene, { tenantId: randomUUID() })
      assert.deepInclude(yield* sweepIn({ workers: workers.manager }), { swept: 1, destroyed: 0 })
      assert.lengthOf(workers.calls, 1)
      assert.strictEqual(state.deleted, 0)
      assert.deepStrictEqual((yield* leaseNow(scene.lease)).metadata["failedCreateCleanup"], scene.evidence)
    }).pipe(onClone)
  )

  it.live("RL-CREATE-11 journal write failed: no second destroy, and the next one deletes once", () =>
    Effect.gen(function* () {
      const scene = yield* uncertain
      const { state, workers } = observing(scene)
      const store = yield* EnvironmentLeaseStore
      const failing = { ...store, updateLeaseMetadata: () => Effect.succeedNone }
      yield* sweepIn({ workers: workers.manager }).pipe(Effect.provideService(EnvironmentLeaseStore, failing))
      assert.lengthOf(workers.calls, 1)
      assert.strictEqual(state.deleted, 0)
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
      yield* sweepIn({ workers: workers.manager })
      assert.strictEqual(state.deleted, 1)
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "expired")
    }).pipe(onClone)
  )

  it.live("RL-CREATE-11 RL-STOP-08 a row that another attempt has taken meanwhile gets no observation", () =>
    Effect.gen(function* () {
      const scene = yield* uncertain
      const { state, workers } = observing(scene)
      const take = yield* anotherTakes
      const answer = workers.script.call
      workers.script.call = (call) => Effect.andThen(take(scene.lease), answer(call))
      yield* sweepIn({ workers: workers.manager })
      assert.lengthOf(workers.calls, 1)
      assert.strictEqual(state.deleted, 0)
      yield* staysTheTakers(scene)
    }).pipe(onClone)
  )

  it.live(
    "RL-CREATE-10 RL-FENCE-03 a row that is taken between the look and the journal's write stays its taker's",
    () =>
      Effect.gen(function* () {
        const scene = yield* uncertain
        const { state, workers } = observing(scene)
        const take = yield* anotherTakes
        const store = yield* EnvironmentLeaseStore
        const takenAtLook: EnvironmentLeaseStore["Service"] = {
          ...store,
          getLeaseById: (lease) => Effect.tap(store.getLeaseById(lease), () => take(lease))
        }
        yield* sweepIn({ workers: workers.manager }).pipe(
          Effect.provideService(EnvironmentLeaseStore, takenAtLook)
        )
        assert.lengthOf(workers.calls, 1)
        assert.strictEqual(state.deleted, 0)
        yield* staysTheTakers(scene)
      }).pipe(onClone)
  )

  it.live("U25 U6 one observation in one attempt, and an empty answer closes nothing", () =>
    Effect.gen(function* () {
      const scene = yield* uncertain
      const silent = scriptedWorkers()
      assert.deepInclude(yield* sweepIn({ workers: silent.manager }), { swept: 1, destroyed: 0 })
      assert.lengthOf(silent.calls, 1)
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
    }).pipe(onClone)
  )
})
