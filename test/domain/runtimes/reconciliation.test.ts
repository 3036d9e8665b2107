/** What a runtime's row is corrected to by its sandbox's record. */
import { assert, describe, it } from "@effect/vitest"
import { Generation, ProjectId, SandboxId } from "../../../src/domain/Identity.ts"
import { SandboxRecord, type SandboxStatus } from "../../../src/domain/registry/Record.ts"
import { correctionOf } from "../../../src/domain/runtimes/reconciliation.ts"
import { Runtime, type RuntimeObserved } from "../../../src/domain/runtimes/Runtime.ts"

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
})
