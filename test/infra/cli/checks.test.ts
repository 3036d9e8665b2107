import { assert, describe, it } from "@effect/vitest"
import {
  daemonCheck,
  databaseCheck,
  desktopCheck,
  groupsCheck,
  isAtLeast,
  isUsable,
  nodeCheck,
  nodeVersionMin,
  supervisorChecks
} from "../../../src/infra/cli/checks.ts"

const works = (kind: "bubblewrap" | "unshare", usable: boolean) => ({ kind, usable, detail: "seen" })

describe("checks", () => {
  it("versions are compared as numbers, part by part", () => {
    const older = ["20.20.2", "22.9.0", "22.18.99", "22", "0.0.0"]
    const newer = ["22.19.0", "22.19", "22.100.0", "24.0.0", "100.0.0"]
    for (const version of older) assert.isFalse(isAtLeast(version, nodeVersionMin), version)
    for (const version of newer) assert.isTrue(isAtLeast(version, nodeVersionMin), version)
    assert.strictEqual(nodeCheck("20.20.2").state, "failed")
  })

  it("one working supervisor is enough, and the other is a warning with what to install", () => {
    const [bubblewrap, unshare] = supervisorChecks([works("bubblewrap", false), works("unshare", true)])
    assert.deepStrictEqual([bubblewrap?.state, unshare?.state], ["warning", "ok"])
    assert.include(bubblewrap?.advice, "apt-get install bubblewrap")
    assert.isTrue(isUsable([bubblewrap!, unshare!]))
  })

  it("without any working supervisor the machine is not usable", () => {
    const checks = supervisorChecks([works("bubblewrap", false), works("unshare", false)])
    assert.deepStrictEqual(
      checks.map(({ state }) => state),
      ["failed", "failed"]
    )
    assert.isFalse(isUsable(checks))
  })

  it("without cgroups guests still run, so it warns and says what to do", () => {
    assert.strictEqual(groupsCheck("none").state, "warning")
    assert.isNotNull(groupsCheck("none").advice)
    for (const mode of ["unified", "hybrid", "legacy"] as const)
      assert.strictEqual(groupsCheck(mode).state, "ok")
  })

  it("SP-DESK-05 a machine without a display carries guests all the same, and is told what to install", () => {
    assert.strictEqual(desktopCheck({ hasDisplay: true, hasTerminal: true }).state, "ok")
    for (const hasTerminal of [true, false]) {
      const missing = desktopCheck({ hasDisplay: false, hasTerminal })
      assert.isTrue(isUsable([missing]))
      assert.include(missing.advice, "apt-get install tigervnc-standalone-server xterm")
    }
    assert.include(desktopCheck({ hasDisplay: true, hasTerminal: false }).detail, ".xsession")
  })

  it("a database by URL needs no embedded one; without both the machine is not usable", () => {
    const none = { major: undefined, trouble: "no binaries" }
    assert.strictEqual(databaseCheck({ ...none, externalUrl: true }).state, "ok")
    const failed = databaseCheck({ ...none, externalUrl: false })
    assert.deepStrictEqual([failed.state, failed.detail], ["failed", "no binaries"])
    assert.strictEqual(databaseCheck({ major: "", trouble: undefined, externalUrl: false }).state, "failed")
    assert.strictEqual(databaseCheck({ major: "18", trouble: undefined, externalUrl: false }).state, "ok")
  })

  it("a daemon that is away or degraded warns, and every check that is not ok says what to do", () => {
    const away = daemonCheck("/s", { trouble: "nobody" })
    const degraded = daemonCheck("/s", { version: "1", status: "degraded" })
    for (const check of [away, degraded]) {
      assert.strictEqual(check.state, "warning")
      assert.isNotNull(check.advice)
    }
    assert.strictEqual(daemonCheck("/s", { version: "1", status: "ok" }).state, "ok")
  })
})
