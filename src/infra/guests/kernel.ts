/**
 * What /proc tells about this boot and about processes. Plain synchronous reads, a fraction of a millisecond each;
 * what they mean is decided in the domain. A file that is gone reads as undefined; any other error is thrown.
 */
import * as Files from "node:fs"
import type { ObservedProcess } from "../../domain/guests/AbsenceProof.ts"

const goneCodes = new Set(["ENOENT", "ESRCH", "ENODEV"])

/** The text of a small file of the kernel, or undefined when its subject is gone. */
export const readIfThere = (path: string): string | undefined => {
  try {
    return Files.readFileSync(path, "utf8")
  } catch (error) {
    if (goneCodes.has((error as NodeJS.ErrnoException).code ?? "")) return undefined
    throw error
  }
}

/** A uuid drawn at every boot of the machine. */
export const readBootId = (): string => Files.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()

export interface SeenProcess {
  /** One letter; Z and X run nothing any more. */
  readonly state: string
  readonly parent: number
  readonly startTicks: string
}

/** Fields are counted behind the last parenthesis: a command's name may hold spaces and parentheses. */
export const parseStat = (stat: string): SeenProcess | undefined => {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  const [state, parent] = fields
  const startTicks = fields[19]
  return state === undefined || parent === undefined || startTicks === undefined || !/^\d+$/.test(startTicks)
    ? undefined
    : { state, parent: Number(parent), startTicks }
}

export const readProcess = (pid: number): SeenProcess | undefined => {
  const stat = readIfThere(`/proc/${pid}/stat`)
  return stat === undefined ? undefined : parseStat(stat)
}

/** The process with its start time, or undefined when there is none or it is a zombie. */
export const observeProcess = (pid: number): ObservedProcess | undefined => {
  const seen = readProcess(pid)
  return seen === undefined || seen.state === "Z" || seen.state === "X"
    ? undefined
    : { pid, startTicks: seen.startTicks }
}

/** Whether this very process still runs: same pid, same start time, no zombie. Source: RG-RUN-04. */
export const isAlive = (process: ObservedProcess): boolean =>
  observeProcess(process.pid)?.startTicks === process.startTicks

export const childrenOf = (pid: number): ReadonlyArray<number> =>
  (readIfThere(`/proc/${pid}/task/${pid}/children`) ?? "").split(" ").filter(Boolean).map(Number)

/** The pid that a process has in the innermost pid namespace, or undefined when it is gone. */
export const innerPid = (pid: number): number | undefined => {
  const line = /^NSpid:\s+(.*)$/m.exec(readIfThere(`/proc/${pid}/status`) ?? "")?.[1]
  const last = line?.split(/\s+/).at(-1)
  return last === undefined ? undefined : Number(last)
}

/** Every pid of this machine's pid namespace. */
export const allProcesses = (): ReadonlyArray<number> =>
  Files.readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)

export interface SeenMount {
  /** Path of the mounted directory within its file system. */
  readonly root: string
  readonly at: string
  readonly type: string
  readonly options: string
}

const unescape = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))

/** Reads a mountinfo file; a line of another form is left out. */
export const parseMountinfo = (text: string): ReadonlyArray<SeenMount> =>
  text.split("\n").flatMap((line) => {
    const [left, right] = line.split(" - ")
    const fields = (left ?? "").split(" ")
    const [type, , options] = (right ?? "").split(" ")
    const [, , , root, at] = fields
    return root === undefined || at === undefined || type === undefined
      ? []
      : [{ root: unescape(root), at: unescape(at), type, options: options ?? "" }]
  })

/** Sends a signal to a process that is still the observed one; whether it was sent. */
export const signalIfAlive = (target: ObservedProcess, signal: NodeJS.Signals): boolean => {
  if (!isAlive(target)) return false
  try {
    return process.kill(target.pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false
    throw error
  }
}
