/**
 * The command line of the fallback for one guest: util-linux's unshare around our own set-up script, with the mounts
 * of the guest's root as a table. Pure.
 */
import * as Bounds from "../../domain/Bounds.ts"
import { agentMount } from "./agentScript.ts"
import type { GuestRoot, RootEntry } from "./guestRoot.ts"
import type { LaunchPlan } from "./launchPlan.ts"
import { monitorScript, setUpScript } from "./unshareScript.ts"

/** The guest's user inside; it has no capability. */
export const unshareUserId = 0

const namespaceOptions = [
  "--user",
  "--map-root-user",
  "--mount",
  "--pid",
  "--fork",
  "--kill-child=KILL",
  "--net",
  "--ipc",
  "--uts",
  "--cgroup"
]

interface Mount {
  readonly source: string
  /** Absolute inside the guest. */
  readonly target: string
  readonly type: string
  readonly options: string
}

const bind = (source: string, target: string, options: string): Mount => ({
  source,
  target,
  type: "none",
  options
})

const tmpfs = (target: string, mode: string, bytesMax: number): Mount => ({
  source: "tmpfs",
  target,
  type: "tmpfs",
  options: `nosuid,nodev,mode=${mode},size=${bytesMax}${withDirectory}`
})

const devices = ["null", "zero", "full", "random", "urandom", "tty"]

const viewOptions = "rbind,ro,nosuid,nodev"
/** The program that mounts makes the directory too. */
const withDirectory = ",X-mount.mkdir"

const mountsOf = (root: GuestRoot, views: ReadonlyArray<RootEntry>): ReadonlyArray<Mount> => [
  ...views.flatMap((entry) =>
    entry.kind === "view"
      ? [bind(entry.source, entry.target, entry.isDirectory ? viewOptions + withDirectory : viewOptions)]
      : []
  ),
  ...devices.map((name) => bind(`/dev/${name}`, `/dev/${name}`, "bind")),
  {
    source: "devpts",
    target: "/dev/pts",
    type: "devpts",
    options: `nosuid,noexec,newinstance,ptmxmode=0666,mode=620${withDirectory}`
  },
  tmpfs("/dev/shm", "1777", Bounds.guestTmpBytesMax),
  { source: "proc", target: "/proc", type: "proc", options: `nosuid,nodev,noexec${withDirectory}` },
  tmpfs("/tmp", "1777", Bounds.guestTmpBytesMax),
  tmpfs("/run", "755", Bounds.guestRunBytesMax),
  bind(root.agent, agentMount, `bind,ro,nosuid,nodev${withDirectory}`),
  bind(root.workspace, "/workspace", `bind,nosuid,nodev${withDirectory}`)
]

/** A field of the table: blanks, line ends and backslashes are written by their numbers. */
const field = (text: string): string =>
  text.replace(/[\s\\#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, "0")}`)

/** The table, as mount reads it; targets below the place of the new root. */
const mountTable = (root: GuestRoot, mounts: ReadonlyArray<Mount>): string =>
  mounts
    .map(
      ({ options, source, target, type }) =>
        `${field(source)} ${field(root.scratch + target)} ${type} ${options} 0 0\n`
    )
    .join("")

const ownPlaces = [
  ...devices.flatMap((name) => ["file", `/dev/${name}`]),
  ...[
    ["/proc/self/fd", "/dev/fd"],
    ["/proc/self/fd/0", "/dev/stdin"],
    ["/proc/self/fd/1", "/dev/stdout"],
    ["/proc/self/fd/2", "/dev/stderr"],
    ["pts/ptmx", "/dev/ptmx"]
  ].flatMap((words) => ["link", ...words])
]

const parentOf = (target: string): string => target.slice(0, target.lastIndexOf("/"))

/** Links, and files on which files are mounted with the directories above them. */
const entryPlaces = (entries: ReadonlyArray<RootEntry>): ReadonlyArray<string> => {
  const files = entries.filter((entry) => entry.kind === "view" && !entry.isDirectory)
  const parents = new Set(files.map((entry) => parentOf(entry.target)).filter((parent) => parent !== ""))
  return [
    ...[...parents].flatMap((parent) => ["dir", parent]),
    ...files.flatMap((entry) => ["file", entry.target]),
    ...entries.flatMap((entry) => (entry.kind === "link" ? ["link", entry.to, entry.target] : []))
  ]
}

/** The plan: a shell that stays as the monitor, unshare as its child, and init as unshare's child. */
export const unsharePlan = (options: {
  readonly root: GuestRoot
  readonly command: ReadonlyArray<string>
}): LaunchPlan => {
  const { root } = options
  const accounts: ReadonlyArray<RootEntry> =
    root.accounts === null
      ? []
      : [
          { kind: "view", source: root.accounts.passwd, target: "/etc/passwd", isDirectory: false },
          { kind: "view", source: root.accounts.group, target: "/etc/group", isDirectory: false }
        ]
  const entries = [...root.entries, ...accounts]
  return {
    argv: [
      "/bin/sh",
      "-c",
      monitorScript,
      "holdfast-monitor",
      "unshare",
      ...namespaceOptions,
      "--",
      "/bin/sh",
      "-c",
      setUpScript,
      "holdfast-set-up",
      root.scratch,
      root.hostname,
      ...ownPlaces,
      ...entryPlaces(entries),
      "--",
      ...options.command
    ],
    options: mountTable(root, mountsOf(root, entries)),
    initIs: "grandchild"
  }
}
