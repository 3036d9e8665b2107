/** What a sandbox was made from decides whether it may be come back to: its config, and the versions of its secrets. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import type { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { RunnerHarnessBackupUnavailable } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import { bindSecret, createSecret, rotateSecret } from "../../../src/domain/secrets/vault.ts"
import { nativeRunnerAdapter } from "../../../src/domain/work/Work.ts"
import { acquisitionOf, leasedPlugin, type Scene } from "./acquisitions.ts"
import { fakeConfigSchema, newEnvironment, newRun, onClone, reusableConfig, reuseFixture } from "./fixture.ts"
import { leaseRow, setLease } from "./rawRows.ts"
import { capturedLog, freshRuntime } from "./runtimes.ts"
import { type Answers, answering, type RecordedCall, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const leaseByTemplate = ({ params }: RecordedCall) => ({
  providerLeaseId: `lease-${(params["config"] as { image: string }).image}`
})

const fingerprintOf = (metadata: object) =>
  (metadata as { reusableSandboxLease: { leaseFingerprint?: { fingerprint: string } } }).reusableSandboxLease
    .leaseFingerprint

/** A run leased `template-a` and handed it back; now the image is `template-b`. */
const drifted = (answers: Answers = {}) =>
  Effect.gen(function* () {
    const scene = yield* leasedPlugin({
      config: { ...reusableConfig, image: "template-a" },
      answers: { environmentAcquireLease: leaseByTemplate, ...answers }
    })
    const first = yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
    yield* scene.runtime.releaseRunLeases(scene.run)
    assert.deepInclude(yield* leaseRow(first.lease.id), { status: "released", cleanup_status: "success" })
    const config = { ...reusableConfig, image: "template-b" }
    const environment = yield* EnvironmentStore.use((store) => store.update(scene.environment.id, { config }))
    const run = (yield* newRun(scene.tenant, scene.agent)).id
    scene.workers.reset()
    return { scene, first: first.lease, asked: { ...acquisitionOf(scene), environment, run } }
  })

const canary = "canary-of-the-first-version"
const rotated = "canary-of-the-second-version"
const schema = {
  ...fakeConfigSchema,
  properties: {
    apiKey: { type: "string", format: "secret-ref" },
    reuseLease: { type: "boolean" },
    timeoutMs: { type: "number" }
  }
}

/** The value stands in the provider's lease id, and the provider echoes it. */
const leaseBySecret = ({ params }: RecordedCall) => {
  const { apiKey } = params["config"] as { apiKey: string }
  return {
    providerLeaseId: `lease-${apiKey}`,
    metadata: { apiKey, note: `made with ${apiKey}`, sandboxId: "s" }
  }
}

const secretScene = Effect.gen(function* () {
  const scene = yield* reuseFixture({ entry: { configSchema: schema } })
  yield* setLease(scene.lease, { status: "expired", cleanup_status: "success" })
  const value = Redacted.make(canary)
  const secret = (yield* createSecret({ tenant: scene.tenant, name: "key", value })).id
  const config = { provider: "fake-plugin", apiKey: secret, timeoutMs: 1234, reuseLease: true }
  const environment = yield* newEnvironment("sandbox", config)
  yield* bindSecret({ tenant: scene.tenant, secret, environment: environment.id, configPath: "apiKey" })
  const workers = scriptedWorkers({ call: answering({ environmentAcquireLease: leaseBySecret }) })
  const runtime = yield* freshRuntime({ workers: workers.manager })
  const first = yield* runtime.acquireRunLease({ ...acquisitionOf(scene), environment })
  const rotate = rotateSecret({ tenant: scene.tenant, secret, value: Redacted.make(rotated) })
  return { ...scene, environment, workers, runtime, secret, first: first.lease, rotate }
})

const nextOf = (scene: Scene) =>
  Effect.map(newRun(scene.tenant, scene.agent), ({ id }) => ({ ...acquisitionOf(scene), run: id }))

const assertDrifted = (lease: EnvironmentLeaseId) =>
  Effect.gen(function* () {
    assert.deepInclude(yield* leaseRow(lease), {
      status: "expired",
      cleanup_status: "success",
      failure_reason: "lease_fingerprint_mismatch"
    })
  })

describe("drift", () => {
  it.live("RL-REUSE-14 an idle lease that was made from another config is destroyed for a new one", () =>
    Effect.gen(function* () {
      const { asked, first, scene } = yield* drifted()
      const log = capturedLog()
      const { lease } = yield* scene.runtime.acquireRunLease(asked).pipe(log.capture)
      assert.strictEqual(lease.providerLeaseId, "lease-template-b")
      assert.deepStrictEqual(
        scene.workers.calls.map(({ given, method }) => [method, given[3]]),
        [
          ["environmentDestroyLease", 31_234],
          ["environmentAcquireLease", 31_234]
        ]
      )
      assert.strictEqual(scene.workers.calls[0]?.params["providerLeaseId"], "lease-template-a")
      yield* assertDrifted(first.id)
      assert.deepInclude(log.lines[0]?.fields, { leaseId: first.id, decision: "Drifted" })
    }).pipe(onClone)
  )

  it.live("RL-REUSE-14 U9 a destroy that fails stays owed, and the run gets its lease all the same", () =>
    Effect.gen(function* () {
      const { asked, first, scene } = yield* drifted({ environmentDestroyLease: new Error("unavailable") })
      const { lease } = yield* scene.runtime.acquireRunLease(asked)
      assert.strictEqual(lease.providerLeaseId, "lease-template-b")
      assert.deepInclude(yield* leaseRow(first.id), {
        status: "pending_cleanup",
        cleanup_status: "failed",
        failure_reason: "lease_fingerprint_mismatch"
      })
    }).pipe(onClone)
  )

  it.live(
    "RL-REUSE-14 RL-BACKUP-02 a native runner's is kept, and not replaced, until its backup is proved",
    () =>
      Effect.gen(function* () {
        const scene = yield* leasedPlugin({ native: true })
        const asked = { ...acquisitionOf(scene), adapterType: nativeRunnerAdapter }
        const first = yield* scene.runtime.acquireRunLease(asked)
        yield* scene.runtime.releaseRunLeases(scene.run)
        const before = yield* leaseRow(first.lease.id)
        scene.workers.reset()
        const config = { ...reusableConfig, image: "other" }
        const environment = yield* EnvironmentStore.use((store) =>
          store.update(scene.environment.id, { config })
        )
        const refused = yield* Effect.flip(scene.runtime.acquireRunLease({ ...asked, environment }))
        assert.instanceOf(refused, RunnerHarnessBackupUnavailable)
        assert.deepStrictEqual(scene.workers.calls, [])
        assert.deepStrictEqual(yield* leaseRow(first.lease.id), before)
      }).pipe(onClone)
  )

  it.live("RL-REUSE-15 RL-SECRET-06 RL-SECRET-02 a rotated secret is drift, and no row tells a value", () =>
    Effect.gen(function* () {
      const scene = yield* secretScene
      yield* scene.runtime.releaseRunLeases(scene.run)
      const former = fingerprintOf(scene.first.metadata)
      yield* scene.rotate
      scene.workers.reset()
      const { lease } = yield* scene.runtime.acquireRunLease(yield* nextOf(scene))
      assert.strictEqual(lease.providerLeaseId, `lease-${rotated}`)
      assert.deepStrictEqual(
        scene.workers.calls.map(({ given, method, params }) => [method, params["providerLeaseId"], given[3]]),
        [
          ["environmentDestroyLease", `lease-${canary}`, 31_234],
          ["environmentAcquireLease", undefined, 31_234]
        ]
      )
      yield* assertDrifted(scene.first.id)
      assert.notDeepEqual(fingerprintOf(lease.metadata), former)
      for (const { id } of [scene.first, lease]) {
        const { metadata, sent_config } = yield* leaseRow(id)
        assert.strictEqual(metadata["apiKey"], scene.secret)
        assert.strictEqual(metadata["sandboxId"], "s")
        const text = JSON.stringify([metadata, sent_config])
        assert.notInclude(text, canary)
        assert.notInclude(text, rotated)
      }
    }).pipe(onClone)
  )

  it.live(
    "FC-20 a retained lease is not come back to after its secret has rotated, and the log says so",
    () =>
      Effect.gen(function* () {
        const scene = yield* secretScene
        yield* scene.runtime.releaseRunLeases(scene.run, { disposition: "keep_running" })
        const before = yield* leaseRow(scene.first.id)
        assert.strictEqual(before["status"], "retained")
        yield* scene.rotate
        const log = capturedLog()
        const { lease } = yield* scene.runtime.acquireRunLease(yield* nextOf(scene)).pipe(log.capture)
        assert.strictEqual(lease.providerLeaseId, `lease-${rotated}`)
        assert.deepStrictEqual(yield* leaseRow(scene.first.id), before)
        const [said] = log.lines
        assert.include(said?.message, "the version of a secret has changed")
        assert.deepInclude(said?.fields, { leaseId: scene.first.id })
        assert.notInclude(log.lines.map(({ text }) => text).join(), "canary-of")
      }).pipe(onClone)
  )

  it.live("FC-20 a retained lease whose secret is the same is come back to", () =>
    Effect.gen(function* () {
      const scene = yield* secretScene
      yield* scene.runtime.releaseRunLeases(scene.run, { disposition: "keep_running" })
      scene.workers.script.call = answering({
        environmentResumeLease: ({ params }) => ({ providerLeaseId: params["providerLeaseId"] })
      })
      const { lease } = yield* scene.runtime.acquireRunLease(yield* nextOf(scene))
      assert.strictEqual(lease.providerLeaseId, scene.first.providerLeaseId)
      const [resume] = scene.workers.callsOf("environmentResumeLease")
      assert.deepInclude(resume?.params["config"], { apiKey: canary })
      assert.notInclude(JSON.stringify(lease.metadata), canary)
    }).pipe(onClone)
  )

  it.live("RL-REUSE-20 a new reusable lease is stamped with its provider and a fingerprint", () =>
    Effect.gen(function* () {
      const { first } = yield* drifted({ environmentReleaseLease: receiptOf("stopped") })
      assert.deepInclude(first.metadata["reusableSandboxLease"] as object, {
        version: 1,
        provider: "fake-plugin"
      })
      assert.match(String(fingerprintOf(first.metadata)?.fingerprint), /^v1:sha256:[a-f0-9]{64}$/)
    }).pipe(onClone)
  )

  it.live(
    "RL-REUSE-20 a row with the older fingerprint alone is come back to while it fits, and drifts when not",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture({ lease: { status: "released", cleanup_status: "success" } })
        const workers = scriptedWorkers({
          call: answering({
            environmentAcquireLease: { providerLeaseId: "fresh" },
            environmentResumeLease: ({ params }) => ({ providerLeaseId: params["providerLeaseId"] })
          })
        })
        const runtime = yield* freshRuntime({ workers: workers.manager })
        const resumed = yield* runtime.acquireRunLease(yield* nextOf(scene))
        assert.deepStrictEqual(workers.methods(), ["environmentResumeLease"])
        yield* runtime.releaseRunLeases(resumed.lease.run!)
        const config = { ...reusableConfig, timeoutMs: 1235 }
        const environment = yield* EnvironmentStore.use((store) =>
          store.update(scene.environment.id, { config })
        )
        const fresh = yield* runtime.acquireRunLease({ ...(yield* nextOf(scene)), environment })
        assert.strictEqual(fresh.lease.providerLeaseId, "fresh")
        yield* assertDrifted(resumed.lease.id)
      }).pipe(onClone)
  )
})
