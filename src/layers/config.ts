/**
 * All settings of a daemon, read once at its start: flags first, then the environment, then the defaults. Nothing
 * else reads the environment. The layout below the home directory:
 *
 *     HOME/               0711   for a root daemon /var/lib/holdfast, else ~/.local/share/holdfast
 *       state/            0700   the node registry, run state and disks (domain/registry/RegistryFiles.ts)
 *       postgres/         0700   the embedded cluster, owned by the database's user
 *       credentials.json  0600   what commands are handed (infra/filesystem/LaunchCredentials.ts); made by the host
 *       holdfast.sock     0600   the API
 */
import * as Os from "node:os"
import * as Path from "node:path"
import {
  nodeCpuMillisDefault,
  nodeMemoryBytesDefault,
  nodeSandboxesDefault,
  databasePoolConnectionsDefault,
  sampleIntervalMillis,
  sandboxLifeSecondsDefault,
  sandboxLifeSecondsMax,
  sandboxLifeSecondsMin,
  socketPathBytesMax
} from "../domain/Bounds.ts"
import type { SupervisorKind } from "../domain/guests/GuestSpec.ts"
import type { NodeCapacity } from "../domain/registry/Registry.ts"

export interface DaemonFlags {
  readonly home?: string | undefined
  readonly databaseUrl?: string | undefined
  readonly supervisor?: string | undefined
}

export interface DaemonSettings {
  readonly home: string
  readonly stateDirectory: string
  /** Credentials for launches, where the host has put them. */
  readonly credentialsPath: string
  readonly postgresDirectory: string
  readonly socketPath: string
  /** Null: the embedded cluster below the home directory. */
  readonly databaseUrl: string | null
  /** As asked for; whether it exists is decided by the probe. */
  readonly supervisor: SupervisorKind | "auto" | (string & {})
  readonly capacity: NodeCapacity
  /** The longest life that may be asked for a sandbox of the node. */
  readonly lifeSecondsMax: number
  readonly poolConnections: number
  readonly sampleIntervalMillis: number
}

type Environment = Readonly<Record<string, string | undefined>>

/** The home directory that a daemon, or a client looking for its socket, uses when none is named. */
export const defaultHome = (environment: Environment, userId: number): string =>
  environment["HOLDFAST_HOME"] ??
  (userId === 0
    ? "/var/lib/holdfast"
    : Path.join(environment["HOME"] ?? Os.homedir(), ".local", "share", "holdfast"))

/** Where the API of the daemon with this home listens. */
export const socketPathOf = (home: string): string => Path.join(home, "holdfast.sock")

/** A setting that cannot be used. The sentence says what to give instead. */
export class SettingRefused extends Error {
  readonly code = "setting_refused"
  readonly setting: string
  constructor(setting: string, why: string) {
    super(`${setting}: ${why}`)
    this.setting = setting
  }
}

const count = (environment: Environment, name: string, fallback: number): number => {
  const text = environment[name]
  if (text === undefined || text === "") return fallback
  const value = Number(text)
  if (!/^\d{1,15}$/.test(text) || value < 1) {
    throw new SettingRefused(name, `"${text}" is not a positive whole number`)
  }
  return value
}

/** The longest life of a sandbox: a day, or what the setting says, up to a year. Source: RG figures. */
const lifeSeconds = (environment: Environment): number => {
  const name = "HOLDFAST_NODE_LIFE_SECONDS"
  const value = count(environment, name, sandboxLifeSecondsDefault)
  if (value >= sandboxLifeSecondsMin && value <= sandboxLifeSecondsMax) return value
  throw new SettingRefused(
    name,
    `"${value}" is not from ${sandboxLifeSecondsMin} to ${sandboxLifeSecondsMax} seconds`
  )
}

/** Joins flags, environment and defaults. Throws `SettingRefused`; touches nothing. */
export const resolveSettings = (
  flags: DaemonFlags,
  environment: Environment,
  userId: number
): DaemonSettings => {
  const home = Path.resolve(flags.home ?? defaultHome(environment, userId))
  const socketPath = socketPathOf(home)
  if (Buffer.byteLength(socketPath) >= socketPathBytesMax) {
    throw new SettingRefused(
      "home",
      `${home} is too long: the path of a socket below it would reach ${socketPathBytesMax} bytes`
    )
  }
  const databaseUrl = flags.databaseUrl ?? environment["HOLDFAST_DATABASE_URL"] ?? null
  return {
    home,
    stateDirectory: Path.join(home, "state"),
    credentialsPath: Path.join(home, "credentials.json"),
    postgresDirectory: Path.join(home, "postgres"),
    socketPath,
    databaseUrl: databaseUrl === "" ? null : databaseUrl,
    supervisor: flags.supervisor ?? environment["HOLDFAST_SUPERVISOR"] ?? "auto",
    capacity: {
      sandboxes: count(environment, "HOLDFAST_NODE_SANDBOXES", nodeSandboxesDefault),
      cpuMillis: count(environment, "HOLDFAST_NODE_CPU_MILLIS", nodeCpuMillisDefault),
      memoryBytes: count(environment, "HOLDFAST_NODE_MEMORY_BYTES", nodeMemoryBytesDefault)
    },
    lifeSecondsMax: lifeSeconds(environment),
    poolConnections: count(environment, "HOLDFAST_POOL_CONNECTIONS", databasePoolConnectionsDefault),
    sampleIntervalMillis: count(environment, "HOLDFAST_SAMPLE_INTERVAL_MILLIS", sampleIntervalMillis)
  }
}
