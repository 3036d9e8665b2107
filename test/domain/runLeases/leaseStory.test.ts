import { assert, describe, it } from "@effect/vitest"
import type { EnvironmentLease } from "../../../src/domain/environments/EnvironmentLease.ts"
import { leaseStory } from "../../../src/domain/runLeases/leaseStory.ts"
import { Run } from "../../../src/domain/work/Work.ts"
import { agent, leaseOf, pinned, run as runId, tenant } from "../environments/leaseBuilders.ts"

const run = new Run({
  id: runId,
  tenant,
  agent,
  status: "failed",
  invocationSource: "daemon:a/b",
  errorCode: "daemon_died",
  result: null,
  finishedAtMillis: 5
})

const proofOf = (fields: Partial<EnvironmentLease>): string | undefined =>
  leaseStory(leaseOf({ status: "expired", cleanupStatus: "success", ...fields }), undefined).find(
    ({ step }) => step === "proof"
  )?.text

describe("runLeases/leaseStory", () => {
  it("FC-22 every step says what is known of who did it and why", () => {
    const lease = leaseOf({
      status: "expired",
      cleanupStatus: "success",
      cleanupTries: 2,
      endedBy: "recovery",
      failureReason: "daemon_died",
      metadata: {
        ...pinned,
        sandboxLeaseAcquisition: { outcome: "replacement", reason: "not_found" },
        remoteExecutionTermination: { state: "destroyed" }
      }
    })
    assert.deepStrictEqual(
      leaseStory(lease, run).map(({ actor, reason, step }) => [step, actor, reason]),
      [
        ["acquired", `run ${runId}`, "not_found"],
        ["run", "daemon", "daemon_died"],
        ["ended", "recovery", "daemon_died"],
        ["cleanup", null, null],
        ["proof", null, null]
      ]
    )
    assert.include(leaseStory(lease, run)[3]?.text, "after 2 failed tries")
  })

  it("an active lease has neither an end nor a proof", () => {
    const lease = leaseOf({ status: "active", cleanupStatus: null, releasedAtMillis: null })
    assert.deepStrictEqual(
      leaseStory(lease, undefined).map(({ step }) => step),
      ["acquired"]
    )
  })

  it("FC-09 an end that is owed says how often it was tried, and when it needs an operator", () => {
    const lease = leaseOf({ cleanupTries: 5, needsOperator: true, cleanupStatus: "failed" })
    const cleanup = leaseStory(lease, undefined).find(({ step }) => step === "cleanup")
    assert.strictEqual(cleanup?.text, "its end is owed, after 5 tries, and needs an operator")
  })

  it.each([
    [{ metadata: { ...pinned, remoteExecutionTermination: { state: "stopped" } } }, "as stopped"],
    [
      { metadata: { ...pinned, sandboxStopAndRetainReceipt: { method: "environmentStopLease" } } },
      "environmentStopLease was confirmed"
    ],
    [{ metadata: { ...pinned, providerAbsence: "already_absent" } }, "does not know it"],
    [{ provider: null, metadata: { driver: "local" } }, "no process of it was left"]
  ])("the proof is what was believed: %j", (fields, text) => {
    assert.include(proofOf(fields), text)
  })

  it("an end without evidence is told as none", () => {
    assert.isUndefined(proofOf({ metadata: pinned }))
    assert.isUndefined(proofOf({ status: "pending_cleanup", provider: null, metadata: { driver: "local" } }))
  })
})
