import { assert, describe, it } from "@effect/vitest"
import { findInvalidParameter, removalRequestKey } from "../../../src/domain/operations/parameters.ts"
import type { OperationParameters } from "../../../src/domain/operations/Operation.ts"
import { SnapshotId } from "../../../src/domain/Identity.ts"
import { request } from "./builders.ts"

const faultOf = (parameters: OperationParameters) =>
  findInvalidParameter(request({ action: "provision", parameters }))?.field ?? null

describe("findInvalidParameter", () => {
  it.each([
    ["cpuMillis", 100, 64_000],
    ["memoryMebibytes", 128, 65_536],
    ["processesMax", 32, 8_192]
  ] as const)("%s is accepted from %d to %d and refused outside and between", (field, minimum, maximum) => {
    for (const value of [minimum, maximum]) assert.isNull(faultOf({ [field]: value }))
    for (const value of [minimum - 1, maximum + 1, 0, -1, Number.NaN, Infinity, minimum + 0.5, 2 ** 60]) {
      assert.strictEqual(faultOf({ [field]: value }), field, String(value))
    }
  })

  it("an image is `host` or an absolute path in its shortest form", () => {
    for (const image of ["host", "/images/debian", "/i/.hidden/..name"])
      assert.isNull(faultOf({ image }), image)
    const long = `/${"é".repeat(1_024)}`
    for (const image of [
      "",
      "/",
      "debian",
      "/a//b",
      "/a/",
      "/a/../b",
      "/a/./b",
      "../a",
      "/a\0b",
      "/a\nb",
      long
    ]) {
      assert.strictEqual(faultOf({ image }), "image", JSON.stringify(image))
    }
  })

  it("only the named supervisors can be asked for", () => {
    for (const supervisor of ["auto", "bubblewrap", "unshare"]) assert.isNull(faultOf({ supervisor }))
    for (const supervisor of ["scripted", "", "Auto", "qemu"])
      assert.strictEqual(faultOf({ supervisor }), "supervisor")
  })

  it("a snapshot is named by those who make or restore one, and by nobody else", () => {
    const snapshot = SnapshotId.make("..")
    const found = (given: Parameters<typeof request>[0]) =>
      findInvalidParameter(request(given))?.field ?? null
    for (const action of ["snapshot", "restore"] as const) {
      assert.isNull(found({ action, parameters: { snapshot } }))
      assert.strictEqual(found({ action, parameters: {} }), "snapshot")
      assert.strictEqual(found({ action, parameters: { snapshot, cpuMillis: 500 } }), "parameters")
    }
    for (const action of ["provision", "rebuild", "start", "recover"] as const) {
      assert.strictEqual(found({ action, parameters: { snapshot } }), "snapshot", action)
    }
  })

  it("SP-DEL-07 a directory is adopted by provision alone, and by a plain absolute path", () => {
    for (const adoptDisk of ["/srv/site", "/srv/.hidden"]) assert.isNull(faultOf({ adoptDisk }), adoptDisk)
    for (const adoptDisk of ["", "/", "srv", "/a//b", "/a/", "/a/../b", "/a\nb", `/${"é".repeat(4_096)}`]) {
      assert.strictEqual(faultOf({ adoptDisk }), "adoptDisk", JSON.stringify(adoptDisk))
    }
    for (const action of ["rebuild", "start", "restore"] as const) {
      const asked = request({
        action,
        parameters: {
          adoptDisk: "/srv/site",
          ...(action === "restore" ? { snapshot: SnapshotId.make("s") } : {})
        }
      })
      assert.strictEqual(findInvalidParameter(asked)?.field, "adoptDisk", action)
    }
  })

  it("parameters belong to provision, and the key of project removal to nobody", () => {
    const stop = request({ action: "stop", parameters: { cpuMillis: 500 } })
    assert.strictEqual(findInvalidParameter(stop)?.code, "invalid_parameters")
    assert.isNull(findInvalidParameter(request({ action: "stop" })))
    assert.strictEqual(findInvalidParameter(request({ requestKey: removalRequestKey }))?.field, "requestKey")
  })
})
