/**
 * The command line of bubblewrap for one guest. Pure. Its options go over a descriptor, each
 * ended by a NUL byte, so that the process list shows none of them. Which descriptors are whose is told by launcher.ts.
 */
import * as Bounds from "../../domain/Bounds.ts"
import { agentMount } from "./agentScript.ts"
import { basicEnvironment, type GuestRoot, type RootEntry } from "./guestRoot.ts"
import { descriptors, type LaunchPlan } from "./launchPlan.ts"

export const bubblewrapUserId = 1_000

const entryOptions = (entry: RootEntry): ReadonlyArray<string> =>
  entry.kind === "link" ? ["--symlink", entry.to, entry.target] : ["--ro-bind", entry.source, entry.target]

/** Directories above the views; bubblewrap would make them for their owner only. */
const parentOptions = (entries: ReadonlyArray<RootEntry>): ReadonlyArray<string> => {
  const parents = entries.flatMap(({ target }) => {
    const parts = target.split("/").slice(1, -1)
    return parts.map((_, at) => `/${parts.slice(0, at + 1).join("/")}`)
  })
  return [...new Set(parents)].flatMap((parent) => ["--perms", "0755", "--dir", parent])
}

const namespaceOptions = (hostname: string): ReadonlyArray<string> => [
  "--unshare-user",
  "--unshare-pid",
  "--unshare-net",
  "--unshare-ipc",
  "--unshare-uts",
  "--unshare-cgroup-try",
  "--uid",
  String(bubblewrapUserId),
  "--gid",
  String(bubblewrapUserId),
  "--hostname",
  hostname
]

const boundedTmpfs = (target: string, mode: string, bytesMax: number): ReadonlyArray<string> => [
  "--perms",
  mode,
  "--size",
  String(bytesMax),
  "--tmpfs",
  target
]

const mountOptions = (root: GuestRoot): ReadonlyArray<string> => [
  ...parentOptions(root.entries),
  ...root.entries.flatMap(entryOptions),
  "--proc",
  "/proc",
  "--dev",
  "/dev",
  ...boundedTmpfs("/dev/shm", "1777", Bounds.guestTmpBytesMax),
  "--remount-ro",
  "/dev",
  ...boundedTmpfs("/tmp", "1777", Bounds.guestTmpBytesMax),
  ...boundedTmpfs("/run", "0755", Bounds.guestRunBytesMax),
  "--ro-bind",
  root.agent,
  agentMount,
  ...(root.accounts === null
    ? []
    : ["--ro-bind", root.accounts.passwd, "/etc/passwd", "--ro-bind", root.accounts.group, "/etc/group"]),
  "--bind",
  root.workspace,
  "/workspace",
  "--chdir",
  "/workspace",
  "--remount-ro",
  "/"
]

const environmentOptions: ReadonlyArray<string> = [
  "--clearenv",
  ...Object.entries(basicEnvironment).flatMap(([name, value]) => ["--setenv", name, value])
]

export interface BubblewrapFeatures {
  /** `--disable-userns`, since 0.8.0: no namespaces of users inside. */
  readonly disablesUserNamespaces: boolean
}

/** The plan whose program becomes init of a guest, process 1 of its namespace; init's end is the guest's end. */
export const bubblewrapPlan = (options: {
  readonly root: GuestRoot
  readonly command: ReadonlyArray<string>
  readonly features: BubblewrapFeatures
  readonly hasFilter: boolean
}): LaunchPlan => ({
  argv: [
    "bwrap",
    "--args",
    String(descriptors.options),
    "--json-status-fd",
    String(descriptors.status),
    "--block-fd",
    String(descriptors.block),
    ...(options.hasFilter ? ["--seccomp", String(descriptors.filter)] : []),
    "--",
    ...options.command
  ],
  options: [
    ...namespaceOptions(options.root.hostname),
    ...(options.features.disablesUserNamespaces ? ["--disable-userns"] : []),
    "--as-pid-1",
    "--new-session",
    ...mountOptions(options.root),
    ...environmentOptions
  ]
    .map((word) => `${word}\0`)
    .join(""),
  initIs: "reported"
})
