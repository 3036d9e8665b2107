import { Option } from "effect"
import { assert, describe, it } from "vitest"
import { acquisitionDiagnosticsOf } from "../../../src/domain/environments/creationDiagnostics.ts"
import {
  creationEvidenceIn,
  observationIn,
  readCreationEvidence,
  storedEvidence
} from "../../../src/domain/environments/creationEvidence.ts"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import {
  environment,
  leaseOf,
  otherEnvironment,
  otherRun,
  otherTenant,
  pinned,
  run,
  tenant,
  uuidOf
} from "./leaseBuilders.ts"

const schema = "holdfast/environment-creation-cleanup/v1"
const placeholder = `holdfast-create-${uuidOf(60)}`
const cleanup = {
  providerLeaseId: placeholder,
  attemptId: uuidOf(61),
  tenantId: tenant,
  environmentId: environment,
  runId: run,
  accountFingerprint: "b".repeat(64),
  labels: { "holdfast-provider": "fake-plugin" }
}
const diagnostic = { phase: "shell", elapsedMs: 300_000, budgetMs: 300_000 }
const scope = { tenant, environment, run }
const rpcError = (data: unknown) =>
  new ProviderRpcError({ code: -32002, message: "Provider creation cleanup required", data })
const good = rpcError({ schema, cleanup, acquisitionDiagnostic: diagnostic })
const forged = Object.assign(new Error("Provider creation cleanup required"), {
  data: { schema, cleanup, acquisitionDiagnostic: diagnostic }
})
const dataWith = (change: object) =>
  rpcError({ schema, cleanup: { ...cleanup, ...change }, acquisitionDiagnostic: diagnostic })
const wrapped = Object.assign(new Error("allocated sandbox cleanup was confirmed"), { cause: good })

const rows: ReadonlyArray<readonly [row: string, error: unknown, evidence: boolean, diagnostics: boolean]> = [
  ["pending", good, true, true],
  ["inline (the error is the cause)", wrapped, false, true],
  ["foreign scope", dataWith({ tenantId: otherTenant }), false, false],
  ["foreign environment", dataWith({ environmentId: otherEnvironment }), false, false],
  ["foreign run", dataWith({ runId: otherRun }), false, false],
  ["malformed", dataWith({ accountFingerprint: "invalid" }), false, false],
  ["forged error", forged, true, false],
  [
    "invalid diagnostic",
    rpcError({ schema, cleanup, acquisitionDiagnostic: { ...diagnostic, phase: "private-command" } }),
    true,
    false
  ],
  ["old worker", rpcError({ schema, cleanup }), true, false],
  [
    "a negative elapsed time",
    rpcError({ schema, cleanup, acquisitionDiagnostic: { ...diagnostic, elapsedMs: -1 } }),
    true,
    false
  ],
  [
    "a broken number",
    rpcError({ schema, cleanup, acquisitionDiagnostic: { ...diagnostic, budgetMs: 0.5 } }),
    true,
    false
  ],
  ["another schema", rpcError({ schema: "v2", cleanup }), false, false],
  ["a placeholder of another kind", dataWith({ providerLeaseId: "sandbox-1" }), false, false],
  ["no provider label", dataWith({ labels: {} }), false, false],
  ["no data", rpcError(undefined), false, false],
  ["nothing", undefined, false, false]
]

describe("environments/creationEvidence", () => {
  it.each(rows)("RL-CREATE-02 RL-CREATE-05 RL-CREATE-06 %s", (_, error, evidence) => {
    const read = creationEvidenceIn(error, scope)
    assert.deepStrictEqual(Option.getOrUndefined(read), evidence ? cleanup : undefined)
  })

  it.each(rows)("RL-CREATE-07 diagnostics: %s", (_, error, _evidence, diagnostics) => {
    assert.deepStrictEqual(
      Option.getOrUndefined(acquisitionDiagnosticsOf(error, scope)),
      diagnostics
        ? {
            environmentAcquisitionPhase: "shell",
            environmentAcquisitionElapsedMs: 300_000,
            environmentAcquisitionBudgetMs: 300_000
          }
        : undefined
    )
  })

  it("RL-CREATE-07 a circle of causes comes to an end", () => {
    const circle: { cause?: unknown } = new Error("round")
    circle.cause = circle
    assert.isTrue(Option.isNone(acquisitionDiagnosticsOf(circle, scope)))
  })

  it.each(["request", "create", "start", "shell", "ready"])("U3 phase %s is on the list", (phase) => {
    const error = rpcError({ schema, cleanup, acquisitionDiagnostic: { ...diagnostic, phase } })
    assert.isTrue(Option.isSome(acquisitionDiagnosticsOf(error, scope)))
  })

  it("RL-CREATE-01 the uuid of the placeholder need not be the attempt's", () => {
    const same = dataWith({ attemptId: uuidOf(60) })
    assert.isTrue(Option.isSome(creationEvidenceIn(same, scope)))
    assert.isTrue(Option.isSome(creationEvidenceIn(good, scope)))
  })

  const observed = { ...cleanup, observedProviderLeaseId: "verified-provider-id" }
  const observation = rpcError({ schema, cleanup: observed })
  it.each([
    ["the evidence and the observed id", observation, cleanup, true],
    [
      "a plain error with the same data",
      Object.assign(new Error("x"), { data: { schema, cleanup: observed } }),
      cleanup,
      true
    ],
    ["another tenant", rpcError({ schema, cleanup: { ...observed, tenantId: otherTenant } }), cleanup, false],
    [
      "another placeholder",
      rpcError({ schema, cleanup: { ...observed, providerLeaseId: `holdfast-create-${uuidOf(70)}` } }),
      cleanup,
      false
    ],
    ["nothing observed", rpcError({ schema, cleanup }), cleanup, false],
    [
      "an empty id",
      rpcError({ schema, cleanup: { ...cleanup, observedProviderLeaseId: "" } }),
      cleanup,
      false
    ],
    ["a second observation", observation, observed, false],
    ["a plain error", new Error("provider not visible yet"), cleanup, false]
  ])("RL-CREATE-10 an observation: %s", (_, error, stored, holds) => {
    const read = observationIn(error, stored as Parameters<typeof observationIn>[1])
    assert.deepStrictEqual(Option.getOrUndefined(read), holds ? (observed as never) : undefined)
  })

  const stored = (change: Parameters<typeof leaseOf>[0], evidence: unknown = cleanup) =>
    leaseOf({
      providerLeaseId: placeholder,
      metadata: { ...pinned, ...storedEvidence(evidence as never) },
      ...change
    })
  it.each([
    ["its own", stored({}), "Usable"],
    ["its own, observed", stored({}, observed), "Usable"],
    ["RL-CREATE-08 its own, the environment is gone", stored({ environment: null }), "Usable"],
    ["its own, the run is gone", stored({ run: null }), "Usable"],
    ["another tenant's", stored({ tenant: otherTenant }), "Unusable"],
    ["another environment's", stored({ environment: otherEnvironment }), "Unusable"],
    ["another run's", stored({ run: otherRun }), "Unusable"],
    ["another resource's", stored({ providerLeaseId: "reusable-plugin-lease" }), "Unusable"],
    ["unreadable", stored({}, 1e300), "Unusable"],
    ["absent", leaseOf(), "Absent"]
  ])("RL-CREATE-04 stored evidence that is %s", (_, lease, tag) => {
    assert.strictEqual(readCreationEvidence(lease)._tag, tag)
  })
})
