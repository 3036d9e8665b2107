/**
 * Cgroups of guests, in the legacy, hybrid and unified layouts: where they lie, how they are made with their limits,
 * what they show, how they are removed. One group a guest in each needed hierarchy, `<hierarchy>/holdfast/<sandbox>`.
 * Ending, freezing and sampling through them is in cgroupControl.ts; what emptiness proves is decided in the domain.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import type { OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import { SeenGroup } from "../../domain/guests/GuestFacts.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { parseMountinfo, readIfThere } from "./kernel.ts"

/** Controllers of version 1 that a guest may need a group in. */
const controllers = ["cpu", "cpuacct", "memory", "pids", "freezer"] as const
export type Controller = (typeof controllers)[number]

/** Where the hierarchies are mounted. `hybrid`: version 2 is there and the controllers are in version 1. */
export interface CgroupLayout {
  readonly mode: "unified" | "hybrid" | "legacy" | "none"
  readonly version2: string | null
  readonly version1: Readonly<Partial<Record<Controller, string>>>
}

export const noCgroups: CgroupLayout = { mode: "none", version2: null, version1: {} }

/** Reads the layout from a mountinfo text; `controllersAt` tells which controllers a version 2 mount offers. */
export const layoutOf = (
  mountinfo: string,
  controllersAt: (version2: string) => ReadonlyArray<string>
): CgroupLayout => {
  const mounts = parseMountinfo(mountinfo)
  const version1: Partial<Record<Controller, string>> = {}
  for (const mount of mounts.filter((each) => each.type === "cgroup")) {
    const offered = mount.options.split(",")
    for (const controller of controllers) if (offered.includes(controller)) version1[controller] ??= mount.at
  }
  const version2 = mounts.find((mount) => mount.type === "cgroup2")?.at ?? null
  if (version2 !== null && version1.memory === undefined && controllersAt(version2).includes("memory")) {
    return { mode: "unified", version2, version1: {} }
  }
  if (version1.memory === undefined || version1.pids === undefined || version1.cpu === undefined) {
    return noCgroups
  }
  return { mode: version2 === null ? "legacy" : "hybrid", version2, version1 }
}

const controllersAt = (version2: string): ReadonlyArray<string> =>
  (readIfThere(Path.join(version2, "cgroup.controllers")) ?? "").trim().split(/\s+/)

export const detectLayout = (): CgroupLayout =>
  layoutOf(Files.readFileSync("/proc/self/mountinfo", "utf8"), controllersAt)

/** Mounts that a guest gets a group in. With version 2 freezing and accounting need no group of version 1. */
export const hierarchies = (layout: CgroupLayout): ReadonlyArray<string> => {
  const needed: ReadonlyArray<Controller> = layout.version2 === null ? controllers : ["cpu", "memory", "pids"]
  const version1 = needed.flatMap((controller) => layout.version1[controller] ?? [])
  return [...new Set([...(layout.version2 === null ? [] : [layout.version2]), ...version1])]
}

const folderName = "holdfast"

export const groupPaths = (layout: CgroupLayout, sandbox: SandboxId): ReadonlyArray<string> =>
  hierarchies(layout).map((mount) => Path.join(mount, folderName, sandbox))

/** Makes the common parents and hands the controllers down to them. Throws where this user may not. */
export const ensureParents = (layout: CgroupLayout): void => {
  for (const mount of hierarchies(layout)) {
    const parent = Path.join(mount, folderName)
    Files.mkdirSync(parent, { recursive: true, mode: 0o755 })
    if (layout.mode !== "unified") continue
    for (const folder of [mount, parent]) {
      Files.writeFileSync(Path.join(folder, "cgroup.subtree_control"), "+cpu +memory +pids")
      // Accounting of disk traffic is a gift: not every kernel has the controller.
      if (controllersAt(folder).includes("io")) {
        Files.writeFileSync(Path.join(folder, "cgroup.subtree_control"), "+io")
      }
    }
  }
}

/**
 * The group of version 2 that this process is in, as its own mount shows it; null where there is none.
 * `memberships`: text of /proc/self/cgroup.
 */
export const ownGroup = (layout: CgroupLayout, memberships: string): string | null => {
  const path = /^0::(\/.*)$/m.exec(memberships)?.[1]
  return layout.version2 === null || path === undefined ? null : Path.resolve(layout.version2, `.${path}`)
}

export interface GuestLimits {
  readonly cpuMillis: number
  readonly memoryBytes: number
  readonly processesMax: number
}

const periodMicros = 100_000

/** A limit that only some kernels know; the others are right without it. */
const writeIfThere = (path: string, value: string): void => {
  try {
    if (Files.existsSync(path)) Files.writeFileSync(path, value)
  } catch {
    // Swap accounting may be compiled in and switched off: the memory limit alone holds then.
  }
}

const applyLimits = (layout: CgroupLayout, sandbox: SandboxId, limits: GuestLimits): void => {
  const quotaMicros = Math.round((limits.cpuMillis * periodMicros) / 1_000)
  const processesMax = String(limits.processesMax + Bounds.guestOwnProcessesMax)
  const at = (controller: Controller, file: string) =>
    Path.join(layout.version1[controller] ?? layout.version2 ?? "", folderName, sandbox, file)
  Files.writeFileSync(at("pids", "pids.max"), processesMax)
  if (layout.mode === "unified") {
    Files.writeFileSync(at("memory", "memory.max"), String(limits.memoryBytes))
    Files.writeFileSync(at("memory", "memory.oom.group"), "1")
    writeIfThere(at("memory", "memory.swap.max"), "0")
    Files.writeFileSync(at("cpu", "cpu.max"), `${quotaMicros} ${periodMicros}`)
    return
  }
  Files.writeFileSync(at("memory", "memory.limit_in_bytes"), String(limits.memoryBytes))
  writeIfThere(at("memory", "memory.memsw.limit_in_bytes"), String(limits.memoryBytes))
  Files.writeFileSync(at("cpu", "cpu.cfs_period_us"), String(periodMicros))
  Files.writeFileSync(at("cpu", "cpu.cfs_quota_us"), String(quotaMicros))
}

const inodeOf = (path: string): string | undefined =>
  Files.statSync(path, { bigint: true, throwIfNoEntry: false })?.ino.toString()

/** Groups directly below a group. */
export const subgroups = (path: string): ReadonlyArray<string> => {
  try {
    return Files.readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => Path.join(path, entry.name))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return []
    throw error
  }
}

/** Pids in the group and below it. Zombies are not listed. */
export const membersOf = (path: string): ReadonlyArray<number> => [
  ...(readIfThere(Path.join(path, "cgroup.procs")) ?? "").split("\n").filter(Boolean).map(Number),
  ...subgroups(path).flatMap(membersOf)
]

/** Whether any process is in the group or below it. */
export const isPopulated = (path: string): boolean => {
  const events = readIfThere(Path.join(path, "cgroup.events"))
  return events === undefined ? membersOf(path).length > 0 : /^populated 1$/m.test(events)
}

/** Compares the folder with what was recorded; only the recorded one says anything about the guest. */
export const seeGroup = (group: OwnedGroup): SeenGroup => {
  const inode = inodeOf(group.path)
  if (inode === undefined) return SeenGroup.Missing()
  return inode === group.inode ? SeenGroup.Same({ populated: isPopulated(group.path) }) : SeenGroup.Replaced()
}

export const isMemberOfEach = (pid: number, groups: ReadonlyArray<OwnedGroup>): boolean =>
  groups.every((group) => membersOf(group.path).includes(pid))

/** Removes an empty group with the groups below it; answers whether nothing is left. A busy one is left as it is. */
export const tryRemove = (path: string): boolean => {
  for (const below of subgroups(path)) if (!tryRemove(below)) return false
  try {
    Files.rmdirSync(path)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "ENOENT") return true
    if (code === "EBUSY" || code === "ENOTEMPTY") return false
    throw error
  }
}

/**
 * Makes the guest's groups with their limits. A left-over of the same name must be empty and is replaced, so that
 * its inode cannot be taken for the former one's.
 */
export const createGroups = (
  layout: CgroupLayout,
  sandbox: SandboxId,
  limits: GuestLimits
): ReadonlyArray<OwnedGroup> => {
  const paths = groupPaths(layout, sandbox)
  for (const path of paths) {
    if (Files.existsSync(path) && !tryRemove(path)) {
      throw new Error("a left-over cgroup of the sandbox still holds processes")
    }
    Files.mkdirSync(path, { mode: 0o755 })
  }
  if (paths.length > 0) applyLimits(layout, sandbox, limits)
  return paths.map((path) => ({ path, inode: inodeOf(path) ?? "" }))
}

/** The group in whose tree executions get groups of their own: version 2, else the freezer; null without cgroups. */
export const controlGroup = (groups: ReadonlyArray<OwnedGroup>): string | null => {
  const has = (file: string) => groups.find((group) => Files.existsSync(Path.join(group.path, file)))
  return (has("cgroup.kill") ?? has("freezer.state"))?.path ?? null
}
