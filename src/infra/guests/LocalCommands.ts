/**
 * Adapter: commands on the machine itself. Each runs in a process group of its own; where the daemon may make cgroups, in
 * one of its lease's, which holds whatever it starts and is killed when the command has ended. Without cgroups a lease's processes are known by a variable in
 * their environment, which they inherit; one that cleared it, and left the group, is not found: that is why cgroups are
 * used wherever there are any.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { executionOutputBytesMax, guestStopGraceMillis, localPipesMillisMax } from "../../domain/Bounds.ts"
import type { EnvironmentLeaseId } from "../../domain/Identity.ts"
import type { CommandResult } from "../../domain/providers/BuiltInProviders.ts"
import {
  type LocalCommand,
  LocalCommandRefused,
  LocalCommands,
  LocalProcessesRemain
} from "../../domain/runLeases/LocalCommands.ts"
import { killOnce, killUntilEmpty, removeGroup } from "./cgroupControl.ts"
import { type CgroupLayout, detectLayout, membersOf } from "./cgroups.ts"
import { allProcesses, readIfThere, readProcess } from "./kernel.ts"
import { waitUntil } from "./waiting.ts"

const markName = "HOLDFAST_ENVIRONMENT_LEASE"

/** The hierarchy in which groups of leases are made, or null where the daemon may not. */
const parentOf = (layout: CgroupLayout): string | null => {
  const mount = layout.version2 ?? layout.version1.freezer
  if (mount === undefined || mount === null) return null
  const parent = Path.join(mount, "holdfast")
  try {
    Files.mkdirSync(parent, { recursive: true, mode: 0o755 })
    Files.accessSync(parent, Files.constants.W_OK)
    return parent
  } catch {
    return null
  }
}

const groupOf = (parent: string | null, lease: EnvironmentLeaseId): string | null =>
  parent === null ? null : Path.join(parent, `lease-${lease}`)

const isDead = (pid: number): boolean => {
  const seen = readProcess(pid)
  return seen === undefined || seen.state === "Z" || seen.state === "X"
}

/** Processes whose environment names the lease. A process of another user shows none. */
const markedBy = (lease: EnvironmentLeaseId): ReadonlyArray<number> => {
  const mark = `${markName}=${lease}`
  return allProcesses().filter((pid) => {
    try {
      return !isDead(pid) && (readIfThere(`/proc/${pid}/environ`) ?? "").split("\0").includes(mark)
    } catch {
      return false
    }
  })
}

const kill = (pid: number): void => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // It has ended by itself.
  }
}

/** Kills what the lease still has, and answers how many live on. */
const endProcesses = Effect.fnUntraced(function* (group: string | null, lease: EnvironmentLeaseId) {
  if (group !== null && Files.existsSync(group)) {
    if (!(yield* killUntilEmpty(group, guestStopGraceMillis))) return membersOf(group).length
    yield* removeGroup(group)
  }
  const isEmpty = () => {
    const left = markedBy(lease)
    left.forEach(kill)
    return left.length === 0
  }
  const isOver = yield* waitUntil(isEmpty, { watch: null, pollMillis: 10, millisMax: guestStopGraceMillis })
  return isOver ? 0 : markedBy(lease).length
})

/** The shell enters the group and becomes the program, so nothing of it is ever outside. */
const entering = 'echo $$ >"$0/cgroup.procs" && exec "$@"'

const start = (group: string | null, lease: EnvironmentLeaseId, command: LocalCommand): ChildProcess => {
  const [program, ...args] =
    group === null ? command.argv : ["/bin/sh", "-c", entering, group, ...command.argv]
  return spawn(program!, args, {
    cwd: command.workingDirectory,
    detached: true,
    env: {
      PATH: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
      ...command.environment,
      [markName]: lease
    },
    stdio: ["pipe", "pipe", "pipe"]
  })
}

const listenTo = (child: ChildProcess, { logSink }: LocalCommand) => {
  const text = { stdout: "", stderr: "" }
  for (const stream of ["stdout", "stderr"] as const) {
    let bytes = 0
    child[stream]?.setEncoding("utf8").on("data", (said: string) => {
      bytes += Buffer.byteLength(said)
      if (bytes > executionOutputBytesMax) return
      text[stream] += said
      logSink?.({ stream, text: said })
    })
  }
  return text
}

/** Kills what the command has started and what is still there of it. */
const killCommand = (child: ChildProcess, group: string | null): void => {
  if (group !== null) killOnce(group)
  if (child.pid !== undefined) kill(-child.pid)
}

const refusalOf = (error: NodeJS.ErrnoException, command: LocalCommand): LocalCommandRefused => {
  if (!Files.existsSync(command.workingDirectory)) return new LocalCommandRefused({ why: "folder" })
  const isProgram = error.code === "ENOENT" || error.code === "EACCES"
  return new LocalCommandRefused({ why: isProgram ? "program" : "machine" })
}

/** Whether there is such a program: with a group in between, the shell would say so where nobody can tell. */
const isThere = ({ argv: [program], environment }: LocalCommand): boolean => {
  const isProgram = (path: string): boolean => {
    try {
      Files.accessSync(path, Files.constants.X_OK)
      return Files.statSync(path).isFile()
    } catch {
      return false
    }
  }
  if (program.includes("/")) return isProgram(program)
  const path = environment["PATH"] ?? process.env["PATH"] ?? ""
  return path.split(":").some((folder) => isProgram(Path.join(folder, program)))
}

const runChild = (group: string | null, lease: EnvironmentLeaseId, command: LocalCommand) =>
  Effect.callback<CommandResult, LocalCommandRefused>((resume) => {
    const child = start(group, lease, command)
    const text = listenTo(child, command)
    let timedOut = false
    const end = () => {
      clearTimeout(deadline)
      killCommand(child, group)
    }
    const deadline = setTimeout(() => {
      timedOut = true
      killCommand(child, group)
    }, command.timeoutMillis)
    child.stdin?.on("error", () => undefined)
    child.stdin?.end(command.standardInput ?? "")
    child.once("error", (error) => {
      clearTimeout(deadline)
      resume(Effect.fail(refusalOf(error, command)))
    })
    child.once("exit", () => {
      end()
      // What escaped from the group may hold the pipes: nobody waits for it.
      setTimeout(() => {
        child.stdout?.destroy()
        child.stderr?.destroy()
      }, localPipesMillisMax).unref()
    })
    child.once("close", (exitCode, signal) => resume(Effect.succeed({ exitCode, signal, timedOut, ...text })))
    return Effect.sync(end)
  })

/** A group for each command, below its lease's. */
const commandGroup = (parent: string | null, lease: EnvironmentLeaseId): string | null => {
  const below = groupOf(parent, lease)
  if (below === null) return null
  const group = Path.join(below, randomUUID())
  Files.mkdirSync(group, { recursive: true, mode: 0o755 })
  return group
}

const run = (parent: string | null, lease: EnvironmentLeaseId, command: LocalCommand) =>
  Effect.suspend(() => {
    if (!Files.existsSync(command.workingDirectory))
      return Effect.fail(new LocalCommandRefused({ why: "folder" }))
    if (!isThere(command)) return Effect.fail(new LocalCommandRefused({ why: "program" }))
    const group = commandGroup(parent, lease)
    return runChild(group, lease, command).pipe(
      Effect.ensuring(group === null ? Effect.void : Effect.asVoid(removeGroup(group)))
    )
  })

/** Commands of this machine; the cgroup of each lease lies beside those of guests. */
export const layer: Layer.Layer<LocalCommands> = Layer.sync(LocalCommands, () => {
  const parent = parentOf(detectLayout())
  return LocalCommands.of({
    run: (lease, command) => run(parent, lease, command),
    endAll: (lease) =>
      Effect.flatMap(endProcesses(groupOf(parent, lease), lease), (processes) =>
        processes === 0 ? Effect.void : Effect.fail(new LocalProcessesRemain({ lease, processes }))
      )
  })
})
