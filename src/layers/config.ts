/**
 * All settings of a daemon, read once at its start: flags first, then the environment, then the defaults. Nothing
 * else reads the environment. The layout below the home directory:
 *
 *     HOME/               0711   for a root daemon /var/lib/holdfast, else ~/.local/share/holdfast
 *       state/            0700   the node registry, run state and disks (domain/registry/RegistryFiles.ts)
 *       secrets.key       0600   the keys of stored secrets, unless HOLDFAST_SECRET_KEY is given; made at the first start
 *       orphans/          0700   resources that the database could not be told of (infra/filesystem/OrphanSpool.ts)
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
import * as Redacted from "effect/Redacted"
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
  /** Keys of the stored secrets; the one of the environment takes their place. */
  readonly secretKeysPath: string
  readonly secretKey: Redacted.Redacted | null
  /** Where HOLDFAST_ORPHAN_CLEANUP_SPOOL_DIR names nothing else. */
  readonly orphanSpoolDirectory: string
  /** Offers the provider `fake` to environments: for tests against a daemon. */
  readonly hasFakeProvider: boolean
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

/** A setting that nobody may read by mistake; empty is none. */
const given = (environment: Environment, name: string): Redacted.Redacted | null => {
  const text = environment[name]
  return text === undefined || text === "" ? null : Redacted.make(text)
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
    sampleIntervalMillis: count(environment, "HOLDFAST_SAMPLE_INTERVAL_MILLIS", sampleIntervalMillis),
    secretKeysPath: Path.join(home, "secrets.key"),
    secretKey: given(environment, "HOLDFAST_SECRET_KEY"),
    orphanSpoolDirectory: Path.join(home, "orphans"),
    hasFakeProvider: environment["HOLDFAST_FAKE_PROVIDER"] === "1"
  }
}
