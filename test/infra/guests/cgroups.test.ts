/** Where cgroups lie in the three layouts, and what is done through real ones of this machine. */
import { it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn, spawnSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { describe, expect } from "vitest"
import { isFrozen, killUntilEmpty, removeGroup, setFrozen } from "../../../src/infra/guests/cgroupControl.ts"
import {
  type CgroupLayout,
  createGroups,
  detectLayout,
  ensureParents,
  hierarchies,
  layoutOf,
  membersOf,
  ownGroup,
  seeGroup
} from "../../../src/infra/guests/cgroups.ts"
import { moveInPlace } from "../../../src/infra/guests/launcher.ts"
import { drawSandbox } from "../../suites/guestHarness.ts"

const mount = (at: string, type: string, options: string) =>
  `30 20 0:25 / ${at} rw,relatime - ${type} ${type} ${options}\n`

const version1 = ["cpu,cpuacct", "memory", "pids", "freezer"]
  .map((controllers) => mount(`/cg/${controllers}`, "cgroup", `rw,${controllers}`))
  .join("")

describe("the layout of cgroups", () => {
  it("is unified where version 2 has the controllers", () => {
    const layout = layoutOf(mount("/cg", "cgroup2", "rw"), () => ["cpu", "memory", "pids"])
    expect(layout).toEqual({ mode: "unified", version2: "/cg", version1: {} })
    expect(hierarchies(layout)).toEqual(["/cg"])
  })
  it("is hybrid where version 2 stands beside the controllers of version 1", () => {
    const layout = layoutOf(version1 + mount("/cg/unified", "cgroup2", "rw"), () => ["hugetlb"])
    expect(layout.mode).toBe("hybrid")
    expect(hierarchies(layout)).toEqual(["/cg/unified", "/cg/cpu,cpuacct", "/cg/memory", "/cg/pids"])
  })
  it("is legacy without version 2, and then has the freezer and each mount once", () => {
    const layout = layoutOf(version1, () => [])
    expect(layout.mode).toBe("legacy")
    expect(hierarchies(layout)).toEqual(["/cg/cpu,cpuacct", "/cg/memory", "/cg/pids", "/cg/freezer"])
  })
  it("is none where a needed controller is nowhere", () => {
    expect(layoutOf(mount("/cg", "cgroup2", "rw"), () => ["cpu"]).mode).toBe("none")
    expect(layoutOf(mount("/cg/memory", "cgroup", "rw,memory"), () => []).mode).toBe("none")
    expect(layoutOf("", () => []).mode).toBe("none")
  })
})

describe("the group that a process is in", () => {
  const memberships = "4:memory:/service\n0::/service/it's\n"
  const hybrid: CgroupLayout = { mode: "hybrid", version2: "/cg/unified", version1: { memory: "/cg/memory" } }

  it("is that of version 2, and none without it", () => {
    expect(ownGroup(hybrid, memberships)).toBe("/cg/unified/service/it's")
    expect(ownGroup(hybrid, "0::/\n")).toBe("/cg/unified")
    expect(ownGroup(hybrid, "4:memory:/service\n")).toBeNull()
    expect(ownGroup({ ...hybrid, version2: null }, memberships)).toBeNull()
  })
  it("is the same behind a move in place", () => {
    const before = Files.readFileSync("/proc/self/cgroup", "utf8")
    const group = ownGroup(detectLayout(), before)
    const move = group === null ? "true" : moveInPlace(group)
    const { stdout } = spawnSync("/bin/sh", ["-c", `${move} 2>/dev/null; cat /proc/$$/cgroup`])
    expect(stdout.toString()).toBe(before)
  })
})

const limits = { cpuMillis: 1_000, memoryBytes: 64 * 1024 ** 2, processesMax: 64 }

/** Groups of this machine by the given layout, with a shell in them that forks children, removed in the end. */
const withGroups = <A, E, R>(
  layout: CgroupLayout,
  use: (groups: ReadonlyArray<string>) => Effect.Effect<A, E, R>
) =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      ensureParents(layout)
      const groups = createGroups(layout, drawSandbox(), limits).map((group) => group.path)
      const joins = groups.map((group) => `echo $$ >${group}/cgroup.procs`).join(" && ")
      const child = spawn(
        "/bin/sh",
        ["-c", `${joins} && for i in 1 2 3; do setsid sleep 1000 & done; wait`],
        { stdio: "ignore" }
      )
      return { groups, child }
    }),
    ({ groups }) => use(groups),
    ({ child, groups }) =>
      Effect.gen(function* () {
        child.kill("SIGKILL")
        for (const group of groups) {
          yield* killUntilEmpty(group, 5_000)
          expect(yield* removeGroup(group)).toBe(true)
        }
      })
  )

const present = detectLayout()
const mayUse = process.getuid?.() === 0 && present.mode !== "none"
/** The same machine without its version 2: what a machine of the legacy layout is like. */
const asLegacy: CgroupLayout | null =
  present.version1.freezer === undefined ? null : { ...present, mode: "legacy", version2: null }
const layouts = [present, asLegacy].flatMap((layout) => (layout === null || !mayUse ? [] : [layout]))

const declareGroupCases = (): void => {
  for (const layout of layouts) {
    const control = (groups: ReadonlyArray<string>) =>
      groups.find((group) => Files.existsSync(Path.join(group, "cgroup.kill"))) ??
      groups.find((group) => Files.existsSync(Path.join(group, "freezer.state"))) ??
      ""

    it.live(
      `in the ${layout.mode} layout they freeze, thaw, and end everything in them, also while frozen`,
      () =>
        withGroups(layout, (groups) =>
          Effect.gen(function* () {
            const group = control(groups)
            yield* Effect.gen(function* () {
              while (membersOf(group).length < 4) yield* Effect.sleep(2)
            }).pipe(Effect.timeout(5_000))
            expect(yield* setFrozen(group, true)).toBe(true)
            expect(isFrozen(group)).toBe(true)
            expect(yield* setFrozen(group, false)).toBe(true)
            expect(isFrozen(group)).toBe(false)
            yield* setFrozen(group, true)
            expect(yield* killUntilEmpty(group, 5_000)).toBe(true)
            for (const each of groups) expect(membersOf(each)).toEqual([])
          })
        )
    )
  }

  it.live("RG-DEL-06 a group made again under the same name is seen as another one", () =>
    Effect.sync(() => {
      if (!mayUse) return
      const sandbox = drawSandbox()
      const first = createGroups(present, sandbox, limits)
      expect(first.map((group) => seeGroup(group)._tag)).toEqual(first.map(() => "Same"))
      const second = createGroups(present, sandbox, limits)
      expect(first.map((group) => seeGroup(group)._tag)).toEqual(first.map(() => "Replaced"))
      for (const group of second) Files.rmdirSync(group.path)
      expect(second.map((group) => seeGroup(group)._tag)).toEqual(second.map(() => "Missing"))
    })
  )
}

describe("groups of this machine", () => {
  declareGroupCases()
})
