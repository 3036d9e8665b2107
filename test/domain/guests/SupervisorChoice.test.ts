/** Which supervisor is taken, and how a wish that cannot be met is refused. */
import * as Result from "effect/Result"
import { describe, expect, it } from "vitest"
import { GuestCapabilities, type SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { chooseSupervisor, ProbeResult } from "../../../src/domain/guests/SupervisorChoice.ts"

const works = (supervisor: SupervisorKind) =>
  ProbeResult.Works({
    capabilities: new GuestCapabilities({
      supervisor,
      isolation: "namespaces",
      limits: "cgroup",
      pause: true,
      survivesDaemon: true,
      privateUser: true,
      seccomp: supervisor === "bubblewrap",
      ports: false,
      proof: "cgroup"
    })
  })
const fails = (kind: SupervisorKind) => ProbeResult.Fails({ kind, why: `${kind} has trouble` })

const chosen = (asked: string, results: ReadonlyArray<ProbeResult>) =>
  Result.getOrThrow(chooseSupervisor(asked, results))
const refused = (asked: string, results: ReadonlyArray<ProbeResult>) =>
  Result.getOrThrow(Result.flip(chooseSupervisor(asked, results)))

describe("choosing a supervisor", () => {
  it("auto takes the strongest that works, whatever the order of the results", () => {
    for (const results of [
      [works("bubblewrap"), works("unshare")],
      [works("unshare"), works("bubblewrap")]
    ]) {
      expect(chosen("auto", results).capabilities.supervisor).toBe("bubblewrap")
    }
  })
  it("auto keeps why a stronger one was passed over", () => {
    expect(chosen("auto", [fails("bubblewrap"), works("unshare")])).toMatchObject({
      capabilities: { supervisor: "unshare" },
      passedOver: [{ kind: "bubblewrap", why: "bubblewrap has trouble" }]
    })
  })
  it("an asked supervisor that does not work is refused although a weaker one works", () => {
    expect(refused("bubblewrap", [fails("bubblewrap"), works("unshare")])).toMatchObject({
      code: "supervisor_unavailable",
      why: "bubblewrap: bubblewrap has trouble"
    })
  })
  it("a supervisor that was not probed counts as not working", () => {
    expect(refused("unshare", [works("bubblewrap")]).code).toBe("supervisor_unavailable")
  })
  it("auto never takes the scripted one", () => {
    expect(refused("auto", [works("scripted"), fails("bubblewrap"), fails("unshare")]).code).toBe(
      "supervisor_unavailable"
    )
  })
  it("an unknown name is refused with the names that there are", () => {
    const error = refused("docker", [works("bubblewrap")])
    expect(error.code).toBe("unknown_supervisor")
    for (const name of ["docker", "auto", "bubblewrap", "unshare"]) expect(error.message).toContain(name)
  })
})
