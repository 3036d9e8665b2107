/**
 * Ending, freezing and measuring processes through their cgroups. Version 2 does it in one write; version 1 freezes
 * first, so that no fork escapes, then kills each, then thaws. Which group belongs to whom is not decided here.
 */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import type { OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import { controlGroup, isPopulated, membersOf, subgroups, tryRemove } from "./cgroups.ts"
import { readIfThere } from "./kernel.ts"
import { waitUntil } from "./waiting.ts"

const isGone = (error: unknown): boolean =>
  ["ENOENT", "ENODEV", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")

/** Writes to a file of the kernel; whether its group was still there. */
const writeIfThere = (path: string, value: string): boolean => {
  try {
    // Without O_CREAT: a write must never make a plain file where a group is gone.
    const file = Files.openSync(path, Files.constants.O_WRONLY)
    try {
      Files.writeSync(file, value)
    } finally {
      Files.closeSync(file)
    }
    return true
  } catch (error) {
    if (isGone(error)) return false
    throw error
  }
}

const hasFile = (path: string, file: string): boolean => Files.existsSync(Path.join(path, file))

const tree = (path: string): ReadonlyArray<string> => [path, ...subgroups(path).flatMap(tree)]

const killEach = (path: string): void => {
  for (const pid of membersOf(path)) {
    try {
      process.kill(pid, "SIGKILL")
    } catch (error) {
      if (!isGone(error)) throw error
    }
  }
}

/**
 * Kills everything in the group and below it, once. On version 1 a process that forks meanwhile may be missed in a
 * group without freezer: repeat until it is empty.
 */
export const killOnce = (path: string): void => {
  if (hasFile(path, "cgroup.kill")) {
    writeIfThere(Path.join(path, "cgroup.kill"), "1")
    return
  }
  const frozen = hasFile(path, "freezer.state")
  if (frozen) writeIfThere(Path.join(path, "freezer.state"), "FROZEN")
  killEach(path)
  // A frozen process of version 1 takes its signal only when it is thawed; so are the groups below it.
  if (frozen) for (const each of tree(path)) writeIfThere(Path.join(each, "freezer.state"), "THAWED")
}

const eventsOf = (path: string): string | null =>
  hasFile(path, "cgroup.events") ? Path.join(path, "cgroup.events") : null

/** Kills until the group is empty; answers whether it is. */
export const killUntilEmpty = (path: string, millisMax: number): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    killOnce(path)
    const fact = () => {
      if (!isPopulated(path)) return true
      if (!hasFile(path, "cgroup.kill")) killOnce(path)
      return false
    }
    return waitUntil(fact, { watch: eventsOf(path), pollMillis: 10, millisMax })
  })

/** Kills everything of a guest, wherever a root process may have moved it. */
export const killGroups = (groups: ReadonlyArray<OwnedGroup>): void => {
  const control = controlGroup(groups)
  if (control !== null) killOnce(control)
  for (const group of groups) if (group.path !== control && isPopulated(group.path)) killEach(group.path)
}

/** File whose change tells that the guest's groups may be empty. */
export const emptyEvents = (groups: ReadonlyArray<OwnedGroup>): string | null => {
  const control = controlGroup(groups)
  return control === null ? null : eventsOf(control)
}

/**
 * Whether the kernel was told to keep the group still. Whether every process of it stands at this moment is another
 * question, which can be answered with no for an instant long after: a process in the midst of a vfork counts as
 * standing and goes on to its stop later.
 */
export const isHeldStill = (path: string): boolean => {
  const asked = readIfThere(Path.join(path, "cgroup.freeze"))
  if (asked !== undefined) return asked.trim() === "1"
  const state = readIfThere(Path.join(path, "freezer.state"))
  return state !== undefined && state.trim() !== "THAWED"
}

/** Whether the group stands still. Of a group without a freezer it is false. */
export const isFrozen = (path: string): boolean => {
  const events = readIfThere(Path.join(path, "cgroup.events"))
  return events === undefined
    ? readIfThere(Path.join(path, "freezer.state"))?.trim() === "FROZEN"
    : /^frozen 1$/m.test(events)
}

/** Freezes or thaws; answers whether the group got there in time. */
export const setFrozen = (path: string, frozen: boolean): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    const version2 = hasFile(path, "cgroup.freeze")
    const write = () =>
      version2
        ? writeIfThere(Path.join(path, "cgroup.freeze"), frozen ? "1" : "0")
        : writeIfThere(Path.join(path, "freezer.state"), frozen ? "FROZEN" : "THAWED")
    write()
    const fact = () => {
      if (isFrozen(path) === frozen) return true
      // Version 1 stays at FREEZING when a process forked meanwhile, until it is told again.
      if (!version2 && frozen) write()
      return false
    }
    return waitUntil(fact, {
      watch: eventsOf(path),
      pollMillis: Bounds.cgroupRemovalPauseMillis,
      millisMax: Bounds.guestFreezeMillisMax
    })
  })

/** Removes a group that is empty or about to be; answers whether it is gone. Absent counts as removed. */
export const removeGroup = (path: string): Effect.Effect<boolean> =>
  waitUntil(() => tryRemove(path), {
    watch: null,
    pollMillis: Bounds.cgroupRemovalPauseMillis,
    millisMax: Bounds.cgroupRemovalTriesMax * Bounds.cgroupRemovalPauseMillis
  })

const figure = (text: string | undefined): number | null => {
  const value = Number(text?.trim())
  return text === undefined || text.trim() === "" || !Number.isSafeInteger(value) ? null : value
}

const field = (text: string | undefined, name: string): number | null =>
  figure(new RegExp(`^${name} (\\d+)$`, "m").exec(text ?? "")?.[1])

const sum = (text: string | undefined, name: string): number | null => {
  if (text === undefined) return null
  return [...text.matchAll(new RegExp(`\\b${name}=(\\d+)`, "g"))].reduce(
    (total, match) => total + Number(match[1]),
    0
  )
}

export interface GroupFigures {
  readonly cpuMicros: number | null
  readonly memoryBytes: number | null
  readonly memoryPeakBytes: number | null
  readonly ioReadBytes: number | null
  readonly ioWriteBytes: number | null
  readonly processes: number | null
}

/** Figures of the groups; null where none of them has the file. Block traffic is known to version 2 alone. */
export const readFigures = (groups: ReadonlyArray<OwnedGroup>): GroupFigures => {
  const read = (file: string): string | undefined => {
    for (const group of groups) {
      const text = readIfThere(Path.join(group.path, file))
      if (text !== undefined) return text
    }
    return undefined
  }
  const nanos = figure(read("cpuacct.usage"))
  const traffic = read("io.stat")
  return {
    cpuMicros: field(read("cpu.stat"), "usage_usec") ?? (nanos === null ? null : Math.floor(nanos / 1_000)),
    memoryBytes: figure(read("memory.current") ?? read("memory.usage_in_bytes")),
    memoryPeakBytes: figure(read("memory.peak") ?? read("memory.max_usage_in_bytes")),
    ioReadBytes: sum(traffic, "rbytes"),
    ioWriteBytes: sum(traffic, "wbytes"),
    processes: figure(read("pids.current"))
  }
}

/** How often the kernel killed in these groups for want of memory; null where it does not count. */
export const readMemoryKills = (groups: ReadonlyArray<OwnedGroup>): number | null => {
  for (const group of groups) {
    const text =
      readIfThere(Path.join(group.path, "memory.events")) ??
      readIfThere(Path.join(group.path, "memory.oom_control"))
    if (text !== undefined) return field(text, "oom_kill")
  }
  return null
}
