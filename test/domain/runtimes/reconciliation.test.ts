/** What a runtime's row is corrected to by its sandbox's record, and how long its machine lives. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { sandboxLifeSecondsMax } from "../../../src/domain/Bounds.ts"
import { Generation, ProjectId, SandboxId } from "../../../src/domain/Identity.ts"
import { SandboxRecord, type SandboxStatus } from "../../../src/domain/registry/Record.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { correctionOf, isRenewalDue, reconcileRuntimes } from "../../../src/domain/runtimes/reconciliation.ts"
import { Runtime, type RuntimeObserved } from "../../../src/domain/runtimes/Runtime.ts"
import { fixture, provisioned } from "../removal/fixture.ts"

const sandbox = SandboxId.make("sb-00000000-0000-4000-8000-000000000001")

const runtime = (observed: RuntimeObserved, machine: SandboxId | null = sandbox) =>
  new Runtime({
    project: ProjectId.make(1),
    generation: Generation.make(1),
    sandbox: machine,
    desired: "running",
    observed,
    observedReason: null,
    recipe: null,
    refreshEpoch: 0,
    sampleStartedAtMillis: null
  })

const record = (status: SandboxStatus) =>
  new SandboxRecord({
    id: sandbox,
    generation: Generation.make(1),
    runId: "",
    attemptId: "",
    image: "host",
    argv: [],
    environment: {},
    metadata: {},
    cpuMillis: 1,
    memoryBytes: 1,
    processesMax: 32,
    disk: null,
    createdAtMillis: 0,
    expiresAtMillis: 1,
    status,
    statusReason: status === "Failed" ? "lost to a reboot" : null,
    deletion: null,
    endpointToken: "0".repeat(64)
  })

describe("runtimes/reconciliation", () => {
  it.each([
    ["running", "Failed", { observed: "failed", reason: "lost to a reboot" }],
    ["running", "Terminated", { observed: "stopped", reason: null }],
    ["stopped", "Running", { observed: "running", reason: null }],
    ["failed", "Paused", { observed: "running", reason: null }],
    ["running", "Running", null],
    ["running", "Paused", null],
    ["running", "Stopping", null],
    ["running", "Pending", null],
    ["starting", "Failed", null],
    ["deleting", "Failed", null],
    ["unprovisioned", "Running", null]
  ] as const)("a runtime %s whose sandbox is %s is corrected to %o", (observed, status, expected) => {
    assert.deepStrictEqual(correctionOf(runtime(observed), record(status)), expected)
  })

  it("a machine without a record is failed, never taken for absent", () => {
    assert.strictEqual(correctionOf(runtime("running"), undefined)?.observed, "failed")
  })

  it("a runtime without a machine is left alone", () => {
    assert.strictEqual(correctionOf(runtime("stopped", null), undefined), null)
  })

  const lifeMillis = sandboxLifeSecondsMax * 1_000
  it.each([
    [lifeMillis, false],
    [lifeMillis / 2, false],
    [lifeMillis / 2 - 1, true],
    [0, true],
    [-1, true]
  ])("a machine that has %i ms to live is renewed: %s", (leftMillis, isDue) => {
    const lasting = new SandboxRecord({ ...record("Running"), expiresAtMillis: 10_000 + leftMillis })
    assert.strictEqual(isRenewalDue(lasting, 10_000), isDue)
    const deletion = { reason: "user", actor: "uid:0", requestedAtMillis: 1 } as const
    assert.isFalse(isRenewalDue(new SandboxRecord({ ...lasting, deletion }), 10_000))
  })

  layer(fixture, { excludeTestServices: true, timeout: "60 seconds" })((live) => {
    live.effect("RG-DEL-09 the machine of a runtime is renewed before its life is over", () =>
      Effect.gen(function* () {
        const { operation } = yield* provisioned
        const registry = yield* Registry
        const { sandbox } = operation.newRecipe!
        const nowMillis = yield* Clock.currentTimeMillis
        yield* registry.update(sandbox, (kept) =>
          Result.succeed(new SandboxRecord({ ...kept, expiresAtMillis: nowMillis + 1_000 }))
        )
        yield* reconcileRuntimes(() => false)
        const { expiresAtMillis } = yield* registry.get(sandbox)
        assert.isAtLeast(expiresAtMillis, nowMillis + lifeMillis)
        yield* reconcileRuntimes(() => false)
        assert.strictEqual((yield* registry.get(sandbox)).expiresAtMillis, expiresAtMillis)
      })
    )
  })
})
