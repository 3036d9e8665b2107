/** The command lines of both supervisors: what is in the process list, what goes over the descriptor. */
import { spawnSync } from "node:child_process"
import { describe, expect, it } from "vitest"
import { accountFiles, commandScript, environmentScript } from "../../../src/infra/guests/agentScript.ts"
import { bubblewrapPlan } from "../../../src/infra/guests/bubblewrap.ts"
import type { GuestRoot } from "../../../src/infra/guests/guestRoot.ts"
import { entering, joining, joinRefused } from "../../../src/infra/guests/launcher.ts"
import { unsharePlan } from "../../../src/infra/guests/unshare.ts"

const root: GuestRoot = {
  entries: [
    { kind: "view", source: "/usr", target: "/usr", isDirectory: true },
    { kind: "link", to: "usr/bin", target: "/bin" },
    { kind: "view", source: "/etc/ld.so.cache", target: "/etc/ld.so.cache", isDirectory: false }
  ],
  accounts: { passwd: "/state/agent/passwd", group: "/state/agent/group" },
  agent: "/state/agent",
  workspace: "/state/with space/work#1",
  scratch: "/state/scratch",
  hostname: "sb-1"
}
const command = ["/bin/sh", "/run/holdfast/init"]
const bubblewrap = (changes: { readonly disables?: boolean; readonly hasFilter?: boolean } = {}) =>
  bubblewrapPlan({
    root,
    command,
    features: { disablesUserNamespaces: changes.disables ?? true },
    hasFilter: changes.hasFilter ?? true
  })
const words = (options: string) => options.split("\0").slice(0, -1)

describe("bubblewrap's command line", () => {
  it("shows descriptors and the agent only, and sends its options ended by NUL", () => {
    const plan = bubblewrap()
    expect(plan.argv).toEqual([
      "bwrap",
      "--args",
      "4",
      "--json-status-fd",
      "3",
      "--block-fd",
      "5",
      "--seccomp",
      "6",
      "--",
      ...command
    ])
    expect(plan.options.endsWith("\0")).toBe(true)
  })
  it("asks for the filter and for closed user namespaces only where they work", () => {
    expect(bubblewrap({ hasFilter: false }).argv).not.toContain("--seccomp")
    expect(words(bubblewrap().options)).toContain("--disable-userns")
    expect(words(bubblewrap({ disables: false }).options)).not.toContain("--disable-userns")
  })
  it("leaves every namespace of the host, makes init process 1 and the root read-only behind all mounts", () => {
    const options = words(bubblewrap().options)
    for (const name of ["user", "pid", "net", "ipc", "uts"]) expect(options).toContain(`--unshare-${name}`)
    expect(options).toContain("--as-pid-1")
    expect(options).toContain("--new-session")
    expect(options.lastIndexOf("--bind")).toBeLessThan(options.lastIndexOf("--remount-ro"))
  })
  it("binds nothing writable but the workspace", () => {
    const options = words(bubblewrap().options)
    const binds = options.flatMap((word, at) => (word === "--bind" ? [options.slice(at + 1, at + 3)] : []))
    expect(binds).toEqual([[root.workspace, "/workspace"]])
    expect(options.filter((word) => word === "--dev-bind" || word === "--bind-try")).toEqual([])
  })
})

describe("the words that lead into the cgroups", () => {
  const status = (mark: string | null, groups: ReadonlyArray<string> = []) => {
    const [program, ...words] = joining(mark, groups, ["/bin/sh", "-c", "exit 42"])
    return spawnSync(program, words).status
  }

  it("lead on only while the launch's mark is there", () => {
    expect(status(null)).toBe(42)
    expect(status(import.meta.filename)).toBe(42)
    expect(status(`${import.meta.filename}.gone`)).toBe(96)
  })
  it("lead nowhere when a group cannot be joined", () => {
    expect(status(null, ["/nonexistent"])).toBe(joinRefused)
  })
  it("are done by the shell's own process, but the look at the mark where only the launch's variable shows it", () => {
    const grouped = entering("/mark", ["/it's"], ["bwrap"])
    expect(grouped.argv).toEqual(["bwrap"])
    expect(grouped.first).toMatch(
      /^echo 0 >'\/it'\\''s\/cgroup\.procs' \|\| exit 97; \[ -e '\/mark' \] \|\| exit 96;$/
    )
    const alone = entering("/mark", [], ["bwrap"])
    expect(alone.first).toBe("")
    expect(alone.argv).toEqual(joining("/mark", [], ["bwrap"]))
  })
})

describe("the fallback's command line", () => {
  const plan = unsharePlan({ root, command })
  const table = plan.options
    .trimEnd()
    .split("\n")
    .map((line) => line.split(" "))

  it("keeps a monitor that writes the status, and kills init with unshare", () => {
    expect(plan.argv.slice(0, 2)).toEqual(["/bin/sh", "-c"])
    expect(plan.argv).toContain("--kill-child=KILL")
    expect(plan.argv.slice(-2)).toEqual(command)
  })
  it("writes blanks and signs of the table by their numbers", () => {
    expect(table.every((fields) => fields.length === 6)).toBe(true)
    expect(table.at(-1)?.[0]).toBe("/state/with\\040space/work\\0431")
  })
  it("makes every view read-only and without devices and privileges", () => {
    for (const target of ["/usr", "/etc/ld.so.cache", "/etc/passwd", "/run/holdfast"]) {
      const options = table.find((fields) => fields[1] === `/state/scratch${target}`)?.[3]?.split(",")
      expect(options).toEqual(expect.arrayContaining(["ro", "nosuid", "nodev"]))
    }
  })
})

describe("scripts for the agent", () => {
  it("quote every byte and set PATH last", () => {
    expect(environmentScript({ PATH: "/x", A: "it's" })).toBe("export A='it'\\''s'\nexport PATH='/x'\n")
  })
  it("change the directory, then become the command", () => {
    const script = commandScript({ argv: ["a=b", "c"], environment: {}, workingDirectory: "/w d" })
    expect(script).toBe("cd '/w d' || exit 126\nexec 'a=b' 'c'\n")
  })
  it("name the guest's own user", () => {
    expect(accountFiles(1_000).passwd).toContain("guest:x:1000:1000:")
  })
})
