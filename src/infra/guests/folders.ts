/**
 * Paths of one sandbox's private state, and the small records in it. The layout is drawn in
 * domain/reclamation/RunState.ts. A record that cannot be read is an error with a sentence of ours, never "absent".
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Bounds from "../../domain/Bounds.ts"
import { PreparedLaunch } from "../../domain/guests/GuestFacts.ts"
import type { ExitReport } from "../../domain/guests/AbsenceProof.ts"
import { GuestIdentity } from "../../domain/guests/GuestSupervisor.ts"
import { Generation, type SandboxId } from "../../domain/Identity.ts"
import { Tombstone } from "../../domain/reclamation/Tombstone.ts"
import { PrivateFileRefused, readPrivateFile } from "../filesystem/privateFiles.ts"

export interface SandboxFolder {
  readonly directory: string
  readonly lock: string
  readonly status: string
  /** What the supervisor's program says before the guest runs. */
  readonly log: string
  /** Words and filter that the supervisor's program reads at its start. */
  readonly options: string
  readonly filter: string
  readonly agent: string
  /** Sockets that lead to the guest's ports, and what proves who holds them. */
  readonly ports: string
  readonly bridgeLog: string
  /** Where the next attempt's agent is made before the former one's is replaced. */
  readonly agentNew: string
  readonly run: string
  readonly workspace: string
  readonly scratch: string
}

export const runtimeDirectory = (stateDirectory: string): string => Path.join(stateDirectory, "runtime")
export const disksDirectory = (stateDirectory: string): string => Path.join(stateDirectory, "disks")

/** Whether a disk is one that the daemon has made; any other directory is the host's own. Looks at the path alone. */
export const isDiskOfOurs = (stateDirectory: string, disk: string): boolean =>
  disk.startsWith(`${disksDirectory(stateDirectory)}${Path.sep}`)

/** Directories below runtime/ that are a probe's and no sandbox's. */
export const probePrefix = ".probe-"

export const folderOf = (stateDirectory: string, sandbox: SandboxId): SandboxFolder =>
  folderAt(Path.join(runtimeDirectory(stateDirectory), sandbox))

export const folderAt = (directory: string): SandboxFolder => {
  const run = Path.join(directory, "run")
  return {
    directory,
    lock: Path.join(directory, "owner.lock"),
    status: Path.join(directory, "status.jsonl"),
    log: Path.join(directory, "launch.log"),
    options: Path.join(directory, "launch.options"),
    filter: Path.join(directory, "launch.filter"),
    agent: Path.join(directory, "agent"),
    ports: Path.join(directory, "ports"),
    bridgeLog: Path.join(directory, "bridge.log"),
    agentNew: Path.join(directory, ".agent-new"),
    run,
    workspace: Path.join(run, "workspace"),
    scratch: Path.join(run, "tmp")
  }
}

/** Content of run.json: which run of the sandbox this is, and the host user that stays its own. Source: RG-RUN. */
export const RunFile = Schema.Struct({
  version: Schema.Literal(1),
  generation: Generation,
  runId: Schema.String,
  attemptId: Schema.String,
  userId: Schema.Int
})
export type RunFile = typeof RunFile.Type

const reader = <S extends Schema.ConstraintDecoder<unknown>>(name: string, schema: S) => {
  const decode = Schema.decodeUnknownResult(Schema.fromJsonString(schema))
  return (folder: SandboxFolder): S["Type"] | undefined => {
    const path = Path.join(folder.directory, name)
    // Most looks find nothing, and an exception for each would take longer than all the rest of a look.
    if (Files.lstatSync(path, { throwIfNoEntry: false }) === undefined) return undefined
    const text = readPrivateFile(path, Bounds.runStateFileBytesMax)
    if (text === undefined) return undefined
    const decoded = decode(text, { onExcessProperty: "error" })
    if (Result.isFailure(decoded)) throw new PrivateFileRefused(`${name} has another form`)
    return decoded.success
  }
}

export const readTombstone = reader("tombstone.json", Tombstone)
export const readIdentity = reader("identity.json", GuestIdentity)
export const readPreparing = reader("preparing.json", PreparedLaunch)
export const readRun = reader("run.json", RunFile)

/** What the supervisor's monitor has written so far. */
export interface MonitorStatus {
  /** Pid of init in the daemon's pid namespace. */
  readonly childPid: number | null
  /** The guest's root is ready; only the fallback tells. */
  readonly isSetUp: boolean
  readonly exit: ExitReport | null
}

const lineValue = (text: string, key: string): number | null => {
  const found = new RegExp(`"${key}": ?(\\d+)`).exec(text)?.[1]
  return found === undefined ? null : Number(found)
}

export const readStatus = (folder: SandboxFolder): MonitorStatus => {
  const text = readPrivateFile(folder.status, Bounds.runStateFileBytesMax) ?? ""
  const exitCode = lineValue(text, "exit-code")
  return {
    childPid: lineValue(text, "child-pid"),
    isSetUp: text.includes('"set-up"'),
    exit: exitCode === null ? null : { exitCode }
  }
}
