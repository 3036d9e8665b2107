/** Creations that failed half-way: what is believed, what is called, what the row says and what the caller gets. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { acquisitionDiagnosticsOf } from "../../../src/domain/environments/creationDiagnostics.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { SandboxCreationCleaned } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import { acquisitionOf, type Scene } from "./acquisitions.ts"
import { onClone, reuseFixture } from "./fixture.ts"
import { leaseRow, setLease, sql } from "./rawRows.ts"
import { freshRuntime } from "./runtimes.ts"
import { answering, type RecordedCall, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const schema = "holdfast/environment-creation-cleanup/v1"

/** Evidence about the scene's acquisition. The uuid of the placeholder need not be the attempt's. */
const evidenceOf = (scene: Scene): JsonObject => ({
  providerLeaseId: `holdfast-create-${randomUUID()}`,
  attemptId: randomUUID(),
  tenantId: scene.tenant,
  environmentId: scene.environment.id,
  runId: scene.run,
  accountFingerprint: "ab".repeat(32),
  labels: { "holdfast-provider": "fake-plugin" }
})

const diagnostic = { phase: "shell", elapsedMs: 300_000, budgetMs: 300_000 }

const rpcError = (data: JsonObject) =>
  new ProviderRpcError({ code: -32_002, message: "Provider creation cleanup required", data })

/** A plain error with the same data, as anybody may make it. */
const plainError = (data: JsonObject) =>
  Object.assign(new Error("Provider creation cleanup required"), { data })

const failingScene = Effect.gen(function* () {
  const scene = yield* reuseFixture()
  yield* setLease(scene.lease, { status: "expired", cleanup_status: "success" })
  const workers = scriptedWorkers({ methods: () => ["environmentDestroyLease"] })
  const parts = { workers: workers.manager }
  return { ...scene, workers, runtime: yield* freshRuntime(parts), another: freshRuntime(parts) }
})

const placeholderRows = (placeholder: unknown) =>
  sql("select * from environment_leases where provider_lease_id = $1::text", [placeholder])

/** The evidence in a row's metadata, or in those that a call was given. */
const storedIn = (metadata: unknown) => (metadata as JsonObject)["failedCreateCleanup"]

const leaseOf = (row: { readonly [column: string]: unknown } | undefined) =>
  EnvironmentLeaseStore.use((store) => store.getLeaseById(row?.["id"] as EnvironmentLeaseId)).pipe(
    Effect.map(Option.getOrThrow)
  )

interface Form {
  readonly evidence?: (evidence: JsonObject) => JsonObject
  readonly diagnostic?: JsonObject | null
  readonly isForged?: boolean
  readonly destroy: "throws" | "receipt" | "never"
  readonly rejection: "same" | "confirmed"
  readonly row: readonly [status: string, cleanup: string] | null
  readonly hasDiagnostics: boolean
  readonly deletesEnvironment?: boolean
}

const pending = { destroy: "throws", rejection: "same", row: ["pending_cleanup", "failed"] } as const
const ignored = { destroy: "never", rejection: "same", row: null, hasDiagnostics: false } as const

const forms: ReadonlyArray<readonly [name: string, form: Form]> = [
  ["pending", { ...pending, hasDiagnostics: true }],
  [
    "inline",
    { destroy: "receipt", rejection: "confirmed", row: ["expired", "success"], hasDiagnostics: true }
  ],
  ["foreign scope", { ...ignored, evidence: (it) => ({ ...it, tenantId: randomUUID() }) }],
  ["foreign environment", { ...ignored, evidence: (it) => ({ ...it, environmentId: randomUUID() }) }],
  ["foreign run", { ...ignored, evidence: (it) => ({ ...it, runId: randomUUID() }) }],
  ["malformed", { ...ignored, evidence: (it) => ({ ...it, accountFingerprint: "invalid" }) }],
  ["deleted environment", { ...pending, hasDiagnostics: true, deletesEnvironment: true }],
  ["forged error", { ...pending, hasDiagnostics: false, isForged: true }],
  [
    "invalid diagnostic",
    { ...pending, hasDiagnostics: false, diagnostic: { ...diagnostic, phase: "private-command" } }
  ],
  ["old worker", { ...pending, hasDiagnostics: false, diagnostic: null }]
]

const invisible = new Error("provider not visible yet")

describe("uncertainCreation", () => {
  it.live.each(forms)(
    "RL-CREATE-01 RL-CREATE-02 RL-CREATE-05 RL-CREATE-06 RL-CREATE-07 RL-CREATE-09 %s",
    ([, form]) =>
      Effect.gen(function* () {
        const scene = yield* failingScene
        const evidence = (form.evidence ?? ((it) => it))(evidenceOf(scene))
        const acquisitionDiagnostic = form.diagnostic === undefined ? diagnostic : form.diagnostic
        const data = {
          schema,
          cleanup: evidence,
          ...(acquisitionDiagnostic === null ? {} : { acquisitionDiagnostic })
        }
        const error = form.isForged === true ? plainError(data) : rpcError(data)
        scene.workers.script.call = answering({
          environmentAcquireLease: error,
          environmentDestroyLease: form.destroy === "receipt" ? receiptOf("destroyed") : invisible
        })
        const rejection = yield* Effect.flip(scene.runtime.acquireRunLease(acquisitionOf(scene)))
        if (form.rejection === "same") assert.strictEqual(rejection, error)
        else {
          assert.instanceOf(rejection, SandboxCreationCleaned)
          assert.strictEqual(
            rejection.message,
            "Sandbox creation failed; allocated sandbox cleanup was confirmed."
          )
          assert.strictEqual(rejection.cause, error)
        }
        assert.strictEqual(
          scene.workers.callsOf("environmentDestroyLease").length,
          form.destroy === "never" ? 0 : 1
        )
        const rows = yield* placeholderRows(evidence["providerLeaseId"])
        assert.deepStrictEqual(
          rows.map(({ cleanup_status, status }) => [status, cleanup_status]),
          form.row === null ? [] : [[...form.row]]
        )
        const told = acquisitionDiagnosticsOf(rejection, {
          tenant: scene.tenant,
          environment: scene.environment.id,
          run: scene.run
        })
        assert.deepStrictEqual(
          Option.getOrNull(told),
          form.hasDiagnostics
            ? {
                environmentAcquisitionPhase: "shell",
                environmentAcquisitionElapsedMs: 300_000,
                environmentAcquisitionBudgetMs: 300_000
              }
            : null
        )
        assert.deepStrictEqual(yield* sql("select 1 from provider_intents"), [])
        if (form.row?.[0] !== "pending_cleanup") return
        // RL-CREATE-08: a later process, with or without the environment.
        if (form.deletesEnvironment === true) {
          yield* setLease(rows[0]?.["id"] as EnvironmentLeaseId, { environment_id: null })
        }
        scene.workers.script.call = answering({ environmentDestroyLease: receiptOf("destroyed") })
        const later = yield* scene.another
        const receipt = yield* later.retryPendingSandboxTeardown(yield* leaseOf(rows[0]))
        assert.deepStrictEqual(receipt, { providerLeaseId: evidence["providerLeaseId"], state: "destroyed" })
        assert.strictEqual(scene.workers.calls.at(-1)?.params["environmentId"], scene.environment.id)
      }).pipe(onClone)
  )

  it.live(
    "RL-CREATE-03 RL-CREATE-04 RL-CREATE-08 the row is there before the destroy, and says what the evidence said",
    () =>
      Effect.gen(function* () {
        const scene = yield* failingScene
        const evidence = evidenceOf(scene)
        const rowsNow = placeholderRows(evidence["providerLeaseId"])
        const context = yield* Effect.context<Effect.Services<typeof rowsNow>>()
        let atDestroy: ReadonlyArray<unknown> = []
        const error = rpcError({ schema, cleanup: evidence, acquisitionDiagnostic: diagnostic })
        scene.workers.script.call = answering({
          environmentAcquireLease: error,
          environmentDestroyLease: (call) =>
            Effect.provideContext(Effect.orDie(rowsNow), context).pipe(
              Effect.map((rows) => {
                atDestroy = rows.map(({ status }) => status)
                return receiptOf("destroyed")(call)
              })
            )
        })
        yield* Effect.flip(scene.runtime.acquireRunLease(acquisitionOf(scene)))
        assert.deepStrictEqual(atDestroy, ["pending_cleanup"])
        const [call] = scene.workers.callsOf("environmentDestroyLease")
        assert.deepInclude(call?.params, {
          providerLeaseId: evidence["providerLeaseId"],
          tenantId: scene.tenant,
          environmentId: scene.environment.id
        })
        assert.deepStrictEqual(storedIn(call?.params["leaseMetadata"]), evidence)
        const [row, ...others] = yield* rowsNow
        assert.deepStrictEqual(others, [])
        assert.deepInclude(row, { tenant_id: scene.tenant, failure_reason: "creation_uncertain" })
        assert.deepInclude(row?.["metadata"], {
          pluginId: scene.plugin.id,
          sandboxProviderPlugin: true,
          failedCreateCleanup: evidence
        })
      }).pipe(onClone)
  )
})

/** A provider that observes first and deletes only what is journaled; faults are told by the rows of the table. */
const handshake = (evidence: JsonObject) => {
  const observed = { ...evidence, observedProviderLeaseId: "verified-provider-id" }
  const observation = plainError({ schema, cleanup: observed })
  const state = { deletions: 0, isDeleted: false }
  const stored = ({ params }: RecordedCall) =>
    (params["leaseMetadata"] as JsonObject)["failedCreateCleanup"] as JsonObject
  const destroy = (call: RecordedCall): unknown => {
    if (stored(call)["observedProviderLeaseId"] === undefined) return observation
    state.deletions += state.isDeleted ? 0 : 1
    state.isDeleted = true
    return receiptOf("destroyed")(call)
  }
  return { observed, observation, state, stored, destroy }
}

describe("uncertainCreation: observe, journal, delete", () => {
  it.live("RL-CREATE-10 what is observed is stored before the call that deletes", () =>
    Effect.gen(function* () {
      const scene = yield* failingScene
      const evidence = evidenceOf(scene)
      const { destroy, observed, state } = handshake(evidence)
      const error = plainError({ schema, cleanup: evidence })
      scene.workers.script.call = answering({
        environmentAcquireLease: error,
        environmentDestroyLease: destroy
      })
      const rejection = yield* Effect.flip(scene.runtime.acquireRunLease(acquisitionOf(scene)))
      assert.strictEqual((rejection as SandboxCreationCleaned).cause, error)
      assert.strictEqual(scene.workers.callsOf("environmentDestroyLease").length, 2)
      assert.strictEqual(state.deletions, 1)
      const [row] = yield* placeholderRows(evidence["providerLeaseId"])
      assert.deepInclude(row, { status: "expired", cleanup_status: "success" })
      assert.deepStrictEqual(storedIn(row?.["metadata"]), observed)
    }).pipe(onClone)
  )

  const lost = () => new Error("the answer was lost")
  const faults = [
    ["deleted receipt lost", true, 2, true],
    ["observation response lost", false, 1, false],
    ["journal write failed", false, 1, false],
    ["foreign observation", false, 1, false]
  ] as const
  it.live.each(faults)("RL-CREATE-11 %s", ([fault, isDeleted, calls, isObserved]) =>
    Effect.gen(function* () {
      const scene = yield* failingScene
      const evidence = evidenceOf(scene)
      const { destroy, observed, state, stored } = handshake(evidence)
      const foreign = plainError({ schema, cleanup: { ...observed, tenantId: randomUUID() } })
      const faulty = (call: RecordedCall): unknown => {
        const isFirst = stored(call)["observedProviderLeaseId"] === undefined
        if (fault === "observation response lost") return lost()
        if (fault === "foreign observation") return foreign
        const answer = destroy(call)
        return fault === "deleted receipt lost" && !isFirst ? lost() : answer
      }
      const error = plainError({ schema, cleanup: evidence })
      scene.workers.script.call = answering({
        environmentAcquireLease: error,
        environmentDestroyLease: faulty
      })
      const store = yield* EnvironmentLeaseStore
      const leases: EnvironmentLeaseStore["Service"] = {
        ...store,
        updateLeaseMetadata: (...change) =>
          fault === "journal write failed"
            ? Effect.fail(lost() as never)
            : store.updateLeaseMetadata(...change)
      }
      const runtime = yield* freshRuntime({ workers: scene.workers.manager, leases })
      assert.strictEqual(yield* Effect.flip(runtime.acquireRunLease(acquisitionOf(scene))), error)
      assert.strictEqual(state.isDeleted, isDeleted)
      assert.strictEqual(scene.workers.callsOf("environmentDestroyLease").length, calls)
      const [row, ...others] = yield* placeholderRows(evidence["providerLeaseId"])
      assert.deepStrictEqual(others, [])
      assert.strictEqual(row?.["status"], "pending_cleanup")
      assert.deepStrictEqual(storedIn(row?.["metadata"]), isObserved ? observed : evidence)
      scene.workers.script.call = answering({ environmentDestroyLease: destroy })
      const later = yield* scene.another
      const receipt = yield* later.retryPendingSandboxTeardown(yield* leaseOf(row))
      assert.deepStrictEqual(receipt, { providerLeaseId: evidence["providerLeaseId"], state: "destroyed" })
      assert.strictEqual(state.deletions, 1)
      assert.strictEqual((yield* leaseRow(row?.["id"] as EnvironmentLeaseId))["status"], "pending_cleanup")
    }).pipe(onClone)
  )
})
