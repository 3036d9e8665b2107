/**
 * One reading of a guest's figures: from its cgroups where it has some, else from what /proc shows of its processes.
 * What cannot be measured is null.
 */
import * as Effect from "effect/Effect"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { GuestSample } from "../../domain/guests/GuestSpec.ts"
import type { GuestFailure } from "../../domain/guests/GuestSupervisor.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { readPrivateFile } from "../filesystem/privateFiles.ts"
import { type GroupFigures, readFigures } from "./cgroupControl.ts"
import type { SandboxFolder } from "./folders.ts"
import { attempt, folderIn, type Ground, observe } from "./ground.ts"
import { readIfThere } from "./kernel.ts"
import { runProgram } from "./programs.ts"
import { findWitnesses } from "./witnesses.ts"

const nothing: GroupFigures = {
  cpuMicros: null,
  memoryBytes: null,
  memoryPeakBytes: null,
  ioReadBytes: null,
  ioWriteBytes: null,
  processes: null
}

/** Proportional memory of a process; undefined where the kernel does not tell this user. */
const proportionalBytes = (pid: number): number | undefined => {
  const kibibytes = /^Pss:\s+(\d+) kB$/m.exec(readSafely(`/proc/${pid}/smaps_rollup`) ?? "")?.[1]
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1_024
}

const readSafely = (path: string): string | undefined => {
  try {
    return readIfThere(path)
  } catch {
    return undefined
  }
}

/**
 * Without cgroups the time of ended processes is lost, so cpu stays unknown; and where no process is seen, nothing was
 * measured.
 */
export const figuresOfProcesses = (sandbox: SandboxId): GroupFigures => {
  const pids = findWitnesses(sandbox).map((each) => each.pid)
  if (pids.length === 0) return nothing
  const memory = pids.map(proportionalBytes)
  return {
    ...nothing,
    processes: pids.length,
    memoryBytes: memory.some((each) => each === undefined)
      ? null
      : memory.reduce<number>((total, each) => total + (each ?? 0), 0)
  }
}

const workspaceOf = (folder: SandboxFolder): string => {
  const text = readPrivateFile(Path.join(folder.directory, "spec.json"), Bounds.runStateFileBytesMax)
  const spec: unknown = text === undefined ? {} : JSON.parse(text)
  const disk = typeof spec === "object" && spec !== null && "disk" in spec ? spec.disk : null
  return typeof disk === "string" ? disk : folder.workspace
}

/** Allocated bytes of the workspace, on its own file system; null when it takes too long to count. */
const diskBytesOf = (workspace: string): Effect.Effect<number | null> =>
  runProgram({ argv: ["du", "-skx", "--", workspace] }).pipe(
    Effect.map(({ output, status }) => {
      const kibibytes = Number(/^(\d+)\t/.exec(output)?.[1] ?? Number.NaN)
      return status === 0 && Number.isSafeInteger(kibibytes) ? kibibytes * 1_024 : null
    }),
    Effect.timeoutOrElse({
      duration: Bounds.sampleDiskMillisMax,
      orElse: () => Effect.succeed(null)
    })
  )

export const sampleGuest = (ground: Ground, sandbox: SandboxId): Effect.Effect<GuestSample, GuestFailure> =>
  Effect.gen(function* () {
    const observation = yield* observe(ground, sandbox)
    const isThere = observation._tag === "Running" || observation._tag === "Paused"
    const figures = yield* attempt(sandbox, "sample", () => {
      if (!isThere) return nothing
      const { identity } = observation
      return identity.groups.length > 0 ? readFigures(identity.groups) : figuresOfProcesses(sandbox)
    })
    const folder = folderIn(ground, sandbox)
    const workspace = yield* attempt(sandbox, "sample the disk", () => workspaceOf(folder))
    return new GuestSample({ ...figures, diskBytes: yield* diskBytesOf(workspace) })
  })
