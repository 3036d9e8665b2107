/**
 * Taking over a data directory that a server has used before: waits for one that is ending, refuses one that goes
 * on, and clears a lock file that names somebody else. Orphaned backends count: they still hold the data.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { databaseNoticeMillisMax, databaseStopMillisMax } from "../../domain/Bounds.ts"
import { ClusterRefused } from "./clusterErrors.ts"
import { dataDirectory } from "./clusterHome.ts"
import { onRealClock } from "./postmaster.ts"

const pollMillis = 20

/** Where a process runs, or null when there is none, or none that we may look at. */
const workingDirectory = (processId: string): string | null => {
  try {
    return Files.readlinkSync(`/proc/${processId}/cwd`)
  } catch {
    return null
  }
}

/** PostgreSQL's processes all work in their data directory, so that is how they are found. */
const processesIn = (directory: string): ReadonlyArray<string> =>
  Files.readdirSync("/proc").filter((name) => /^\d+$/.test(name) && workingDirectory(name) === directory)

interface LockFile {
  readonly processId: string
  /** The server's own word: starting, ready, stopping. */
  readonly status: string
}

const readLock = (path: string): LockFile | null => {
  try {
    const lines = Files.readFileSync(path, "utf8").split("\n")
    return { processId: lines[0]?.trim() ?? "", status: lines[7]?.trim() ?? "" }
  } catch {
    return null
  }
}

type Tenancy = "free" | "named-another" | "ending" | "running"

/**
 * What holds the data directory. `named-another`: the lock file's process id now belongs to another program, which
 * PostgreSQL would take for its own; its shared memory still guards against backends that we cannot see.
 */
const tenancyOf = (data: string): Tenancy => {
  const lock = readLock(Path.join(data, "postmaster.pid"))
  const here = processesIn(Files.realpathSync(data))
  if (here.length === 0) {
    return lock !== null && workingDirectory(lock.processId) !== null ? "named-another" : "free"
  }
  return lock !== null && lock.status !== "stopping" && here.includes(lock.processId) ? "running" : "ending"
}

/**
 * Answers when a server may be started on the home's data. Refused with `cluster_in_use`: a server that goes on, or
 * does not end. Bounds: `databaseNoticeMillisMax`, `databaseStopMillisMax`.
 */
export const takeOver = (home: string): Effect.Effect<void, ClusterRefused> =>
  Effect.gen(function* () {
    const data = dataDirectory(home)
    const began = yield* Clock.currentTimeMillis
    for (;;) {
      const tenancy = tenancyOf(data)
      if (tenancy === "free") return
      if (tenancy === "named-another") {
        Files.rmSync(Path.join(data, "postmaster.pid"), { force: true })
        return
      }
      const patience = tenancy === "running" ? databaseNoticeMillisMax : databaseStopMillisMax
      if ((yield* Clock.currentTimeMillis) - began > patience) {
        return yield* new ClusterRefused({ code: "cluster_in_use", path: home })
      }
      yield* Effect.sleep(pollMillis)
    }
  }).pipe(onRealClock)
