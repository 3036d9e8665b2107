import { assert, describe, it } from "vitest"
import {
  hasTerminalExport,
  isStopOnly,
  type MarkerReading,
  readStopMarker,
  stopAndRetainMarker
} from "../../../src/domain/environments/markers.ts"
import {
  leaseId,
  leaseOf,
  otherPlugin,
  otherRun,
  otherTenant,
  pinned,
  plugin,
  providerLeaseId,
  run,
  tenant,
  uuidOf
} from "./leaseBuilders.ts"

const exportV1 = {
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
const exportV2 = { ...exportV1, schema: "holdfast.workspace-export-resume.v2" }
const { pluginId: _, ...unpinnedV1 } = exportV1
const unpinnedV2 = { ...unpinnedV1, schema: exportV2.schema }
const { pluginId: _pin, ...unpinnedMetadata } = pinned
const stop = { pluginId: plugin, runId: run, providerLeaseId }

const usable = (cancelActiveWork: boolean): MarkerReading => ({
  _tag: "Usable",
  marker: { owner: { _tag: "Plugin", plugin }, run, providerLeaseId, cancelActiveWork }
})
const unusable = (why: "unreadable" | "foreign" | "unpinned"): MarkerReading => ({ _tag: "Unusable", why })
const readingOf = (metadata: object, base: object = pinned): MarkerReading =>
  readStopMarker(leaseOf({ metadata: { ...base, ...metadata } }))

const exports: ReadonlyArray<readonly [row: string, marker: unknown, reading: MarkerReading]> = [
  ["v1", exportV1, usable(true)],
  ["v1 without pluginId: the lease's own pin", unpinnedV1, usable(true)],
  ["v2", exportV2, usable(true)],
  ["v2 with purpose terminal_export", { ...exportV2, purpose: "terminal_export" }, usable(true)],
  ["v2 without pluginId", unpinnedV2, unusable("unreadable")],
  ["v1 with a purpose", { ...exportV1, purpose: "terminal_export" }, unusable("unreadable")],
  ["another run", { ...exportV1, runId: otherRun }, unusable("foreign")],
  ["another pin", { ...exportV1, pluginId: otherPlugin }, unusable("foreign")],
  ["another tenant", { ...exportV1, tenantId: otherTenant }, unusable("foreign")],
  ["another lease", { ...exportV1, leaseId: uuidOf(51) }, unusable("foreign")],
  ["another provider", { ...exportV1, provider: "secure-plugin" }, unusable("foreign")],
  ["another resource", { ...exportV1, providerLeaseId: "other" }, unusable("foreign")],
  ["an unknown schema", { ...exportV1, schema: "v3" }, unusable("unreadable")],
  ["a bare number", 1e300, unusable("unreadable")],
  ["null", null, unusable("unreadable")]
]

const stops: ReadonlyArray<readonly [row: string, marker: unknown, reading: MarkerReading]> = [
  ["the pin, the run and the resource", stop, usable(false)],
  ["with the cancel flag", { ...stop, cancelActiveWork: true }, usable(true)],
  ["without a pin", { runId: run, providerLeaseId }, unusable("unpinned")],
  ["a built-in provider of a plugin's lease", { ...stop, pluginId: undefined }, unusable("unreadable")],
  ["another pin", { ...stop, pluginId: otherPlugin }, unusable("foreign")],
  ["another run", { ...stop, runId: otherRun }, unusable("foreign")],
  ["another resource", { ...stop, providerLeaseId: "other" }, unusable("foreign")],
  ["a word", "stop", unusable("unreadable")]
]

describe("environments/markers", () => {
  it.each(exports)("RL-EXPORT-01 an export marker: %s", (_row, marker, reading) => {
    assert.deepStrictEqual(readingOf({ nativeWorkspaceExportResume: marker }), reading)
  })

  it.each(stops)("RL-STOP-04 a stop marker: %s", (_row, marker, reading) => {
    assert.deepStrictEqual(readingOf({ sandboxStopAndRetain: marker }), reading)
  })

  it("RL-STOP-06 a lease without a pin: no marker is usable, and it stays stop-only", () => {
    for (const key of ["nativeWorkspaceExportResume", "sandboxStopAndRetain"]) {
      const marker = key === "sandboxStopAndRetain" ? stop : exportV1
      assert.deepStrictEqual(readingOf({ [key]: marker }, unpinnedMetadata), unusable("unpinned"))
      assert.isTrue(isStopOnly({ metadata: { [key]: undefined } }))
    }
    assert.isFalse(isStopOnly({ metadata: pinned }))
  })

  it("RL 6.1-2 of two markers an unusable one decides, and of two usable ones the stronger", () => {
    const both = { nativeWorkspaceExportResume: exportV1, sandboxStopAndRetain: stop }
    assert.deepStrictEqual(readingOf(both), usable(true))
    assert.deepStrictEqual(readingOf({ ...both, sandboxStopAndRetain: 7 }), unusable("unreadable"))
    assert.deepStrictEqual(readingOf({ ...both, nativeWorkspaceExportResume: 7 }), unusable("unreadable"))
    assert.deepStrictEqual(readingOf({}), { _tag: "Absent" })
  })

  it("RL-STOP-04 the marker that is written reads back", () => {
    const lease = leaseOf()
    const marker = stopAndRetainMarker(lease, true)
    assert.deepStrictEqual(marker, { sandboxStopAndRetain: { ...stop, cancelActiveWork: true } })
    assert.deepStrictEqual(readingOf(marker), usable(true))
  })

  it("RL-STOP-06 without a pin a marker is written that nothing is sent for", () => {
    const lease = leaseOf({ metadata: unpinnedMetadata })
    const marker = stopAndRetainMarker(lease, false)
    assert.deepStrictEqual(marker, {
      sandboxStopAndRetain: { runId: run, providerLeaseId, cancelActiveWork: false }
    })
    assert.deepStrictEqual(readingOf(marker, unpinnedMetadata), unusable("unpinned"))
    // A pin that appears later does not make it usable.
    assert.deepStrictEqual(readingOf(marker), unusable("unpinned"))
  })

  it("RL-STOP-09 a built-in provider stands in the place of the pin", () => {
    const builtIn = { metadata: { driver: "sandbox" }, provider: "fake" }
    const marker = stopAndRetainMarker(leaseOf(builtIn), false)
    const lease = leaseOf({ ...builtIn, metadata: { ...builtIn.metadata, ...marker } })
    const reading = readStopMarker(lease)
    assert.deepStrictEqual(reading, {
      _tag: "Usable",
      marker: { owner: { _tag: "BuiltIn", provider: "fake" }, run, providerLeaseId, cancelActiveWork: false }
    })
    const moved = leaseOf({ ...lease, providerLeaseId: "sandbox://fake/replacement" })
    assert.deepStrictEqual(readStopMarker(moved), unusable("foreign"))
  })

  it.each([
    ["v2 with the purpose", { ...exportV2, purpose: "terminal_export" }, true],
    ["v2 without", exportV2, false],
    ["v1", exportV1, false],
    ["unreadable", { purpose: "terminal_export" }, false]
  ])("RL-EXPORT-05 a terminal export: %s", (_row, marker, holds) => {
    assert.strictEqual(hasTerminalExport({ metadata: { nativeWorkspaceExportResume: marker } }), holds)
  })
})
