import { assert, describe, it } from "vitest"
import { decideVerb } from "../../../src/domain/environments/verb.ts"
import { makeSeededRandom } from "../../support/seededRandom.ts"
import {
  environment,
  leaseId,
  leaseOf,
  otherPlugin,
  otherRun,
  pinned,
  plugin,
  providerLeaseId,
  run,
  tenant,
  uuidOf
} from "./leaseBuilders.ts"

const { pluginId: _, ...unpinned } = pinned
const stop = { pluginId: plugin, runId: run, providerLeaseId }
const exported = {
  schema: "holdfast.workspace-export-resume.v1",
  requestId: uuidOf(50),
  tenantId: tenant,
  pluginId: plugin,
  runId: run,
  leaseId,
  provider: "fake-plugin",
  providerLeaseId,
  resultId: "result-1"
}
const placeholder = `holdfast-create-${uuidOf(60)}`
const evidence = {
  providerLeaseId: placeholder,
  attemptId: uuidOf(61),
  tenantId: tenant,
  environmentId: environment,
  runId: run,
  accountFingerprint: "b".repeat(64),
  labels: { "holdfast-provider": "fake-plugin" }
}

const wordOf = (given: Parameters<typeof leaseOf>[0]): string => {
  const verb = decideVerb(leaseOf(given))
  return verb._tag === "Hold" ? `Hold ${verb.reason}` : verb._tag
}
const marked = (metadata: object, base: object = pinned) => ({ metadata: { ...base, ...metadata } })

const rows: ReadonlyArray<readonly [row: string, lease: Parameters<typeof leaseOf>[0], verb: string]> = [
  ["no marker", {}, "Destroy"],
  ["no marker and no pin (a plain orphan)", { metadata: { provider: "fake-plugin" } }, "Destroy"],
  ["no marker, no metadata at all", { metadata: {} }, "Destroy"],
  ["a stop marker", marked({ sandboxStopAndRetain: stop }), "Stop"],
  ["an export marker", marked({ nativeWorkspaceExportResume: exported }), "Stop"],
  ["both", marked({ sandboxStopAndRetain: stop, nativeWorkspaceExportResume: exported }), "Stop"],
  [
    "foreign marker",
    marked({ nativeWorkspaceExportResume: { ...exported, runId: otherRun } }),
    "Hold marker_foreign"
  ],
  [
    "foreign plugin pin",
    marked({ nativeWorkspaceExportResume: { ...exported, pluginId: otherPlugin } }),
    "Hold marker_foreign"
  ],
  [
    "v2 missing pin",
    marked({
      nativeWorkspaceExportResume: {
        ...exported,
        schema: "holdfast.workspace-export-resume.v2",
        pluginId: undefined
      }
    }),
    "Hold marker_unreadable"
  ],
  ["missing pin", marked({ sandboxStopAndRetain: stop }, unpinned), "Hold marker_unpinned"],
  [
    "changed binding",
    { ...marked({ sandboxStopAndRetain: stop }), providerLeaseId: "sandbox://fake/replacement" },
    "Hold marker_foreign"
  ],
  ["a marker that is a bare number", marked({ sandboxStopAndRetain: 1e300 }), "Hold marker_unreadable"],
  ["a marker that is null", marked({ nativeWorkspaceExportResume: null }), "Hold marker_unreadable"],
  [
    "creation evidence",
    { providerLeaseId: placeholder, ...marked({ failedCreateCleanup: evidence }) },
    "DestroyUncertain"
  ],
  ["evidence of another resource", marked({ failedCreateCleanup: evidence }), "Hold evidence_unusable"],
  ["evidence that cannot be read", marked({ failedCreateCleanup: [] }), "Hold evidence_unusable"],
  [
    "a marker and evidence",
    {
      providerLeaseId: placeholder,
      ...marked({
        failedCreateCleanup: evidence,
        sandboxStopAndRetain: { ...stop, providerLeaseId: placeholder }
      })
    },
    "Hold two_minds"
  ],
  ["no resource", { providerLeaseId: null }, "Hold no_resource"],
  ["over", { status: "expired" }, "Hold over"]
]

describe("environments/verb", () => {
  it.each(rows)("RL-SWEEP-04 %s", (_row, lease, verb) => {
    assert.strictEqual(wordOf(lease), verb)
  })

  it("RL 6.2 property: whatever stands in a marker or in the evidence, nothing of it is destroyed", () => {
    const seed = 20_260_504
    const random = makeSeededRandom(seed)
    const junk = [null, undefined, 1e300, "", "stop", [], {}, stop, exported, evidence, true]
    const keys = ["sandboxStopAndRetain", "nativeWorkspaceExportResume", "failedCreateCleanup"]
    for (let round = 0; round < 1_000; round += 1) {
      const chosen = keys.filter(() => random.percent(60))
      const metadata = Object.fromEntries(chosen.map((key) => [key, random.pick(junk)]))
      const base = random.pick([pinned, unpinned, {}])
      const verb = decideVerb(leaseOf({ metadata: { ...base, ...metadata } }))
      const seen = `seed ${seed}, round ${round}: ${JSON.stringify(metadata)}`
      assert.strictEqual(verb._tag === "Destroy", chosen.length === 0, seen)
    }
  })
})
