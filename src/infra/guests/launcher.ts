/**
 * Starts a supervisor's program for one guest: first into every cgroup of the guest, then to the guest's user, then
 * the program itself, so that nothing of a guest ever runs outside its cgroups. The program holds before the guest's
 * first instruction until it is released; when the daemon dies it is released too, which is why a launch is durable
 * before this is called.
 */
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as Files from "node:fs"
import type { Writable } from "node:stream"
import type { ObservedProcess, OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { childrenOf, innerPid, observeProcess, readIfThere } from "./kernel.ts"
import { descriptors, type LaunchPlan } from "./launchPlan.ts"
import { readStatus, type SandboxFolder } from "./folders.ts"
import { programEnvironment } from "./programs.ts"
import { launchMark } from "./witnesses.ts"

/** Status of a launch that could not join a cgroup. */
export const joinRefused = 97
/** Status of a launch that was given up before it had joined. */
const launchAbandoned = 96

/** The look at the mark comes behind the joins: whoever takes the mark away and then looks at the groups misses nobody. */
const joinScript = `mark=$1 count=$2
shift 2
while [ "$count" -gt 0 ]; do
  echo $$ >"$1/cgroup.procs" || exit ${joinRefused}
  shift
  count=$((count - 1))
done
[ -z "$mark" ] || [ -e "$mark" ] || exit ${launchAbandoned}
exec "$@"`

/** Words that put a program into the groups before it runs, unless the mark is gone by then; null: no mark. */
export const joining = (
  mark: string | null,
  groups: ReadonlyArray<string>,
  argv: ReadonlyArray<string>
): ReadonlyArray<string> => [
  "-c",
  joinScript,
  "holdfast-launch",
  mark ?? "",
  String(groups.length),
  ...groups,
  ...argv
]

export interface StartedLaunch {
  readonly monitor: ObservedProcess
  /** Lets the guest's first instruction run. */
  readonly release: () => void
  /** Status of the monitor's end; undefined while it runs. */
  readonly monitorStatus: () => number | undefined
}

export interface LaunchOptions {
  readonly sandbox: SandboxId
  readonly folder: SandboxFolder
  readonly groups: ReadonlyArray<OwnedGroup>
  /** File that has to be there when the groups are joined; null: none. */
  readonly mark: string | null
  /** Words that lead to the guest's user; empty where the daemon's own is used. */
  readonly enter: ReadonlyArray<string>
  readonly plan: LaunchPlan
  readonly filter: Uint8Array | null
  /** Descriptors that must not be handed on. */
  readonly strays: ReadonlyArray<number>
}

/** Our end of a descriptor that was opened as a pipe. */
const pipeOf = (child: ChildProcess, descriptor: number): Writable => {
  const ends: ReadonlyArray<unknown> = child.stdio
  const pipe = ends[descriptor] as Writable
  // A program that has ended does not read: its status tells the story.
  pipe.on("error", () => undefined)
  return pipe
}

const closeOnExec = 0o2000000

/**
 * Descriptors that this process was given by whoever started it and would hand on to its children. Node opens its own
 * so that they are closed there; a stranger's pipe must not reach a guest.
 */
export const findStrayDescriptors = (): ReadonlyArray<number> =>
  Files.readdirSync("/proc/self/fd")
    .map(Number)
    .filter((descriptor) => {
      if (descriptor <= descriptors.filter) return false
      const flags = /^flags:\s+(\d+)$/m.exec(readIfThere(`/proc/self/fdinfo/${descriptor}`) ?? "")?.[1]
      return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0
    })

/** The started program finds nothing behind a stray descriptor. */
const strayStdio = (strays: ReadonlyArray<number>, nothing: number): ReadonlyArray<"ignore" | number> => {
  const first = descriptors.filter + 1
  const length = Math.max(first, ...strays.map((stray) => stray + 1)) - first
  return Array.from({ length }, (_, at) => (strays.includes(first + at) ? nothing : "ignore"))
}

const spawnLaunch = (options: LaunchOptions): ChildProcess => {
  const nothing = Files.openSync("/dev/null", "r")
  const log = Files.openSync(options.folder.log, "w", 0o600)
  const status = Files.openSync(options.folder.status, "w", 0o600)
  try {
    return spawn(
      "/bin/sh",
      joining(
        options.mark,
        options.groups.map((group) => group.path),
        [...options.enter, ...options.plan.argv]
      ),
      {
        detached: true,
        cwd: "/",
        stdio: [
          ...(["ignore", log, log, status, "pipe", "pipe"] as const),
          options.filter === null ? nothing : "pipe",
          ...strayStdio(options.strays, nothing)
        ],
        env: { ...programEnvironment, [launchMark]: options.sandbox }
      }
    )
  } finally {
    Files.closeSync(nothing)
    Files.closeSync(log)
    Files.closeSync(status)
  }
}

/** Spawns the launch; `undefined` when the shell itself could not be started or ended at once. */
export const startLaunch = (options: LaunchOptions): Effect.Effect<StartedLaunch | undefined> =>
  Effect.callback<StartedLaunch | undefined>((resume) => {
    const child = spawnLaunch(options)
    let status: number | undefined
    child.once("exit", (code) => {
      status = code ?? 128
    })
    child.once("error", () => resume(Effect.succeed(undefined)))
    child.once("spawn", () => {
      const monitor = observeProcess(child.pid ?? 0)
      child.unref()
      pipeOf(child, descriptors.options).end(options.plan.options)
      if (options.filter !== null) pipeOf(child, descriptors.filter).end(options.filter)
      if (monitor === undefined) return resume(Effect.succeed(undefined))
      const block = pipeOf(child, descriptors.block)
      resume(
        Effect.succeed({
          monitor,
          release: () => void block.end("\n"),
          monitorStatus: () => status
        })
      )
    })
  })

const isInit = (pid: number): boolean => innerPid(pid) === 1

/** Init of a started launch, once it is there and its root is built; undefined before. */
export const findInit = (
  folder: SandboxFolder,
  plan: LaunchPlan,
  monitor: ObservedProcess
): ObservedProcess | undefined => {
  const status = readStatus(folder)
  if (plan.initIs === "reported") {
    return status.childPid === null ? undefined : observeProcess(status.childPid)
  }
  if (!status.isSetUp) return undefined
  const init = childrenOf(monitor.pid).flatMap(childrenOf).find(isInit)
  return init === undefined ? undefined : observeProcess(init)
}
