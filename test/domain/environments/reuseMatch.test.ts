import { Option } from "effect"
import { assert, describe, it } from "vitest"
import type { EnvironmentLease } from "../../../src/domain/environments/EnvironmentLease.ts"
import {
  type CandidateDecision,
  decideCandidate,
  findReusableSandboxLeaseId,
  isStampOf,
  type ReuseOwner,
  reuseOwnerOf,
  reuseStamp,
  reuseStampOf
} from "../../../src/domain/environments/reuseMatch.ts"
import {
  agent,
  environment,
  leaseOf,
  otherAgent,
  otherEnvironment,
  otherRun,
  otherTask,
  otherTenant,
  pinned,
  run,
  task,
  tenant,
  workspace
} from "./leaseBuilders.ts"

const asked = {
  provider: "fake-plugin",
  image: "template-b",
  timeoutMs: 300_000,
  reuseLease: true
}
const fingerprint = { category: "lease", fingerprint: `v1:sha256:${"a".repeat(64)}` } as const

const request = {
  tenant,
  environment,
  agent,
  adapterType: undefined,
  executionWorkspace: null,
  task
}
const ownerOf = (change: Partial<Parameters<typeof reuseOwnerOf>[0]> = {}): ReuseOwner =>
  Option.getOrThrow(reuseOwnerOf({ ...request, ...change }))

/** A marker that cannot be read is a marker all the same. */
const stopOnly = { nativeWorkspaceExportResume: null }

const inWorkspace = ownerOf({ executionWorkspace: workspace })

describe("environments/reuseMatch", () => {
  it("RL-REUSE-01 picks the lease with equal provider config", () => {
    const leases = [
      { providerLeaseId: "lease-a", metadata: { ...asked, image: "template-a" } },
      { providerLeaseId: "lease-b", metadata: { ...asked } }
    ]
    assert.strictEqual(findReusableSandboxLeaseId({ config: asked, leases }), "lease-b")
    assert.isNull(findReusableSandboxLeaseId({ config: { ...asked, image: "c" }, leases }))
    assert.isNull(findReusableSandboxLeaseId({ config: asked, leases: [] }))
  })

  it("RL-REUSE-02 host-only and unspecified keys do not take part", () => {
    const config = { ...asked, streamRunLogs: true, runnerLifecycleMode: "warm", target: null }
    const leases = [
      { providerLeaseId: "lease-b", metadata: { ...asked, runnerLifecycleMode: "warm", target: "us" } }
    ]
    assert.strictEqual(findReusableSandboxLeaseId({ config, leases }), "lease-b")
  })

  it("RL-REUSE-03 the built-in sandbox needs the same image", () => {
    const config = { provider: "fake", image: "ubuntu:24.04", reuseLease: true }
    const leases = [
      { providerLeaseId: "sandbox-debian", metadata: { ...config, image: "debian:12" } },
      { providerLeaseId: "sandbox-ubuntu", metadata: { ...config } }
    ]
    assert.strictEqual(findReusableSandboxLeaseId({ config, leases }), "sandbox-ubuntu")
  })

  it("RL-REUSE-05 the stamp of a lease without a workspace names task and agent", () => {
    const stamp = reuseStamp(ownerOf(), "fake-plugin", fingerprint)
    assert.deepInclude(stamp, {
      version: 1,
      projectlessTaskId: task,
      executionWorkspaceId: null,
      agentId: agent,
      adapterType: null
    })
    const read = reuseStampOf({ metadata: { reusableSandboxLease: stamp } })
    assert.deepStrictEqual(Option.getOrUndefined(read), stamp)
  })

  it.each<[row: string, change: Partial<Parameters<typeof reuseOwnerOf>[0]>, same: boolean]>([
    ["same task", {}, true],
    ["different task", { task: otherTask }, false],
    ["different agent", { agent: otherAgent }, false],
    ["another tenant", { tenant: otherTenant }, false],
    ["another environment", { environment: otherEnvironment }, false],
    ["another adapter", { adapterType: "native_runner" }, false],
    ["a workspace", { executionWorkspace: workspace }, false]
  ])("RL-REUSE-04 RL-REUSE-05 scope: %s", (_, change, same) => {
    const stamp = reuseStamp(ownerOf(), "fake-plugin", fingerprint)
    assert.strictEqual(isStampOf(stamp, ownerOf(change)), same)
  })

  it("RL-REUSE-04 within a workspace the task does not matter", () => {
    const stamp = reuseStamp(inWorkspace, "fake-plugin", fingerprint)
    const other = ownerOf({ executionWorkspace: workspace, task: otherTask })
    assert.isTrue(isStampOf(stamp, other))
    assert.isFalse(isStampOf(stamp, ownerOf()))
  })

  it("RL-REUSE-05 U7 no task and no workspace, or no agent: nobody comes back", () => {
    assert.isTrue(Option.isNone(reuseOwnerOf({ ...request, task: null })))
    assert.isTrue(Option.isNone(reuseOwnerOf({ ...request, agent: undefined })))
  })

  const stamped = reuseStamp(inWorkspace, "fake-plugin", fingerprint)
  const candidateOf = (change: Parameters<typeof leaseOf>[0]): EnvironmentLease =>
    leaseOf({
      status: "released",
      cleanupStatus: "success",
      metadata: { ...pinned, reusableSandboxLease: stamped },
      ...change
    })

  const rows: ReadonlyArray<
    readonly [row: string, lease: Parameters<typeof leaseOf>[0], facts: object, decision: CandidateDecision]
  > = [
    ["handed back, same config", {}, {}, "Resume"],
    ["handed back, another config", {}, { fits: () => false }, "Drifted"],
    ["handed back while its run still lives", {}, { isHolderLive: true }, "Resume"],
    ["active, held by the same run", { status: "active", run }, { isHolderLive: true }, "Resume"],
    [
      "active, same run, another config",
      { status: "active", run },
      { isHolderLive: true, fits: () => false },
      "Held"
    ],
    ["active, held by a live run", { status: "active", run: otherRun }, { isHolderLive: true }, "Held"],
    ["U12 active, its run is over", { status: "active", run: otherRun }, {}, "Unusable"],
    ["kept running", { status: "retained" }, {}, "Resume"],
    ["kept running, another config", { status: "retained" }, { fits: () => false }, "Unusable"],
    ["retained since its release failed", { status: "retained", cleanupStatus: "failed" }, {}, "Unusable"],
    [
      "RL 6.1-1 kept running, and only a stop may be sent for it",
      { status: "retained", metadata: { ...pinned, reusableSandboxLease: stamped, ...stopOnly } },
      {},
      "Unusable"
    ],
    [
      "RL 6.1-1 handed back, another config, and only a stop may be sent for it",
      { metadata: { ...pinned, reusableSandboxLease: stamped, ...stopOnly } },
      { fits: () => false },
      "Unusable"
    ],
    ["failed", { status: "failed" }, {}, "Unusable"],
    ["owed", { status: "pending_cleanup" }, {}, "Unusable"],
    ["over", { status: "expired" }, {}, "Unusable"],
    ["ephemeral", { policy: "ephemeral" }, {}, "Unusable"],
    ["no resource", { providerLeaseId: null }, {}, "Unusable"],
    ["no stamp", { metadata: pinned }, {}, "OutOfScope"],
    [
      "a stamp that cannot be read",
      { metadata: { ...pinned, reusableSandboxLease: { ...stamped, version: 2 } } },
      {},
      "OutOfScope"
    ],
    ["another owner and another config", {}, { owner: ownerOf(), fits: () => false }, "OutOfScope"],
    ["another provider", {}, { provider: "secure-plugin" }, "OutOfScope"]
  ]

  it.each(rows)("RL 6.1-9 %s", (_, lease, facts, decision) => {
    const candidate = {
      lease: candidateOf(lease),
      owner: inWorkspace,
      provider: "fake-plugin",
      run,
      isHolderLive: false,
      fits: () => true,
      ...facts
    }
    assert.strictEqual(decideCandidate(candidate), decision)
  })
})
