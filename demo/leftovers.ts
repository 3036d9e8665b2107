/**
 * Counts what a demo that has deleted everything must not have left behind. It looks at the machine and at the
 * database themselves, never at what the daemon says.
 */
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs"
import { join } from "node:path"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"

export interface Leftover {
  readonly kind: "process" | "cgroup" | "directory" | "row"
  readonly what: string
}

const readOr = (path: string): string => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return ""
  }
}

const linkOr = (path: string): string => {
  try {
    return readlinkSync(path)
  } catch {
    return ""
  }
}

const entries = (path: string): ReadonlyArray<string> => (existsSync(path) ? readdirSync(path) : [])

/** Processes that name the home directory, work in it, or see a mount of it; this process is not one of them. */
export const processesOf = (home: string): ReadonlyArray<Leftover> =>
  entries("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      const from = `/proc/${pid}`
      return (
        readOr(`${from}/cmdline`).includes(home) ||
        linkOr(`${from}/cwd`).startsWith(home) ||
        readOr(`${from}/mountinfo`).includes(home)
      )
    })
    .map((pid) => ({
      kind: "process",
      what: `${pid} ${readOr(`/proc/${pid}/cmdline`).replaceAll("\0", " ").slice(0, 80)}`
    }))

/** Cgroups of the sandboxes, in every hierarchy that is mounted. */
export const groupsOf = (sandboxes: ReadonlyArray<string>): ReadonlyArray<Leftover> => {
  const mounts = readOr("/proc/self/mountinfo")
    .split("\n")
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(" ")[4] ?? "")
  const wanted = new Set(sandboxes)
  const found: Array<Leftover> = []
  const walk = (directory: string, depth: number): void => {
    for (const entry of entries(directory)) {
      const path = join(directory, entry)
      if (wanted.has(entry)) found.push({ kind: "cgroup", what: path })
      else if (depth > 0 && existsSync(join(path, "cgroup.procs"))) walk(path, depth - 1)
    }
  }
  for (const mount of mounts) walk(mount, 4)
  return found
}

/** Disks, records, and private state beyond the fence of an id: its tombstone and its owner lock. */
export const directoriesOf = (state: string): ReadonlyArray<Leftover> => {
  const fence = new Set(["tombstone.json", "owner.lock"])
  const found: Array<Leftover> = []
  const add = (what: string): void => void found.push({ kind: "directory", what })
  for (const name of entries(join(state, "disks"))) add(join(state, "disks", name))
  for (const name of entries(join(state, "records"))) {
    if (name !== "meta.json") add(join(state, "records", name))
  }
  for (const sandbox of entries(join(state, "runtime"))) {
    if (!sandbox.startsWith("sb-")) continue
    for (const name of entries(join(state, "runtime", sandbox))) {
      if (!fence.has(name)) add(join(state, "runtime", sandbox, name))
    }
  }
  return found
}

const counted: ReadonlyArray<readonly [what: string, text: string]> = [
  ["Projects", "select count(*)::int as n from core.projects"],
  ["memberships", "select count(*)::int as n from core.memberships"],
  ["pending deletions", "select count(*)::int as n from core.project_deletions where state <> 'completed'"],
  ["runtimes", "select count(*)::int as n from plugin_sandbox.runtimes"],
  [
    "live operations",
    "select count(*)::int as n from plugin_sandbox.runtime_operations where state in ('queued', 'claimed')"
  ],
  ["execution leases", "select count(*)::int as n from plugin_sandbox.execution_leases"],
  ["runtime log lines", "select count(*)::int as n from plugin_sandbox.runtime_logs"]
]

/** Rows of deleted Projects that should not be. Receipts, deletion records and queued history deletions may stay. */
export const rowsIn = (socketDirectory: string, username: string) =>
  Effect.gen(function* () {
    const connection = yield* PgConnection.make({ host: socketDirectory, username, database: "holdfast" })
    const found: Array<Leftover> = []
    for (const [what, text] of counted) {
      const [row] = (yield* connection.query(text)).rows
      if (row?.["n"] !== 0) found.push({ kind: "row", what: `${String(row?.["n"])} ${what}` })
    }
    return found as ReadonlyArray<Leftover>
  }).pipe(Effect.scoped)
