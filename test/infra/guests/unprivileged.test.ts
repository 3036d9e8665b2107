/** Guests of a daemon without privileges: weaker, told so, and still ended and proved gone. */
import { spawnSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { expect, it } from "vitest"
import type { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { describeWith, makeStateDirectory } from "../../suites/guestHarness.ts"

const fixture = Path.join(import.meta.dirname, "unprivileged.fixture.ts")
const isRoot = process.getuid?.() === 0
const unprivileged = 65_534

/** Words before a program that runs without privileges; nothing where this process has none. */
const asNobody = isRoot
  ? ["setpriv", "--reuid", String(unprivileged), "--regid", String(unprivileged), "--clear-groups"]
  : []

const runAsNobody = (argv: ReadonlyArray<string>) => {
  const [program = "", ...rest] = [...asNobody, ...argv]
  return spawnSync(program, rest, { encoding: "utf8", timeout: 60_000 })
}

/** A checkout below a private home cannot be read by another user. */
const canReach =
  runAsNobody([process.execPath, "-e", `require("fs").readFileSync(${JSON.stringify(fixture)})`]).status === 0

const declareCases = (kind: SupervisorKind): void => {
  it.runIf(canReach)(
    "a daemon without privileges carries a guest, takes it up again, and proves its end by processes",
    () => {
      const stateDirectory = makeStateDirectory()
      try {
        if (isRoot) Files.chownSync(stateDirectory, unprivileged, unprivileged)
        const { stderr, stdout } = runAsNobody([process.execPath, fixture, stateDirectory, kind])
        expect(stderr).toBe("")
        const { afterCrash, life } = JSON.parse(stdout)
        expect(life.capabilities).toMatchObject({
          limits: "none",
          pause: false,
          privateUser: false,
          proof: "process"
        })
        expect(life.identity.groups).toEqual([])
        expect(life.said).toMatchObject({ stdout: "it's\n", exitCode: 0 })
        expect(life.slow).toMatchObject({ ended: "timeout", exitCode: 137 })
        expect(life.left).not.toMatch(/sleep 1000.*sleep 1000/)
        expect(life.sample).toMatchObject({ cpuMicros: null, memoryPeakBytes: null })
        expect(life.sample.processes).toBeGreaterThanOrEqual(3)
        expect(life.pause).toBe("GuestCallUnsupported")
        expect(life.port).toBe("GuestCallUnsupported")
        expect(afterCrash).toMatchObject({
          running: "Running",
          adopted: 0,
          inFlight: "Unsettled",
          again: "invalid_guest_state",
          evidence: "InitGone",
          entries: ["owner.lock", "tombstone.json"],
          left: 0
        })
        expect(afterCrash.witnesses).toBeGreaterThanOrEqual(3)
      } finally {
        Files.rmSync(stateDirectory, { recursive: true, force: true })
      }
    }
  )
}

if (!canReach) console.log("guests of an unprivileged daemon are left out: it cannot read this checkout")
await describeWith("bubblewrap", () => declareCases("bubblewrap"))
await describeWith("unshare", () => declareCases("unshare"))
