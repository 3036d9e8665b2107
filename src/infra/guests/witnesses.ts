/**
 * Finds a guest's processes where it has no cgroup: those whose mounts show the sandbox's private directory, and those
 * of its launch, which carry its mark in their environment. A pid and a name are never evidence here.
 */
import * as Files from "node:fs"
import type { ObservedProcess } from "../../domain/guests/AbsenceProof.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { allProcesses, observeProcess, parseMountinfo } from "./kernel.ts"

/** Name of the variable that marks the processes of one launch until they run the guest's own program. */
export const launchMark = "HOLDFAST_LAUNCH"

const unreadable = new Set(["ENOENT", "ESRCH", "EINVAL"])

/** Undefined: the process is gone, or belongs to another user and so to no guest of ours. */
const readOf = (pid: number, file: string): string | undefined => {
  try {
    return Files.readFileSync(`/proc/${pid}/${file}`, "utf8")
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ""
    if (unreadable.has(code) || code === "EACCES" || code === "EPERM") return undefined
    throw error
  }
}

const seesPrivateMounts = (pid: number, sandbox: SandboxId): boolean => {
  const text = readOf(pid, "mountinfo")
  return (
    text !== undefined &&
    text.includes(sandbox) &&
    parseMountinfo(text).some((mount) => mount.root.includes(`/runtime/${sandbox}/`))
  )
}

const carriesMark = (pid: number, mark: string): boolean =>
  (readOf(pid, "environ") ?? "").split("\0").includes(mark)

/** Whether the process belongs to the sandbox, whichever attempt. */
export const isWitness = (pid: number, sandbox: SandboxId): boolean =>
  seesPrivateMounts(pid, sandbox) || carriesMark(pid, `${launchMark}=${sandbox}`)

/** The living processes that belong to the sandbox, whichever attempt. */
export const findWitnesses = (sandbox: SandboxId): ReadonlyArray<ObservedProcess> =>
  allProcesses().flatMap((pid) => {
    if (pid === process.pid) return []
    const observed = observeProcess(pid)
    if (observed === undefined) return []
    return isWitness(pid, sandbox) ? [observed] : []
  })
