/**
 * The private directory of an embedded cluster: made, checked, claimed and, where it is ephemeral, removed.
 *
 *     <home>/             0700, of the user that runs the server
 *       data/             the PostgreSQL data directory; appears by rename when it is complete
 *       data.tmp/         an initialization that has not ended
 *       native/           copy of the binaries, only where that user cannot reach the installed ones
 *       postgres.log      what the server says; set aside as postgres.log.1 when it is too long
 *       .s.PGSQL.5432     the socket, 0700
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Files from "node:fs"
import * as Path from "node:path"
import { databaseLogBytesMax, databaseSocketPathBytesMax } from "../../domain/Bounds.ts"
import { drawnSuffix } from "../filesystem/privateFiles.ts"
import { ClusterFailed, ClusterRefused } from "./clusterErrors.ts"
import { type DatabaseUser, obstacleAbove } from "./databaseUser.ts"

/** PostgreSQL's usual port: with sockets it is no more than the ending of the socket's name. */
export const clusterPort = 5432

export const dataDirectory = (home: string): string => Path.join(home, "data")
export const logFile = (home: string): string => Path.join(home, "postgres.log")
export const socketPath = (home: string): string => Path.join(home, `.s.PGSQL.${clusterPort}`)

const tooLong = (home: string): boolean => Buffer.byteLength(socketPath(home)) > databaseSocketPathBytesMax

const give = (path: string, user: DatabaseUser | null): void => {
  if (user !== null) Files.chownSync(path, user.userId, user.groupId)
}

const couldNotMake = () =>
  new ClusterFailed({ step: "home", detail: "its directory could not be made or made private" })

/**
 * Makes a persistent home, or takes one that exists. Refused before anything is written: a socket path that is
 * too long, a parent that the user cannot pass through, a home that is somebody else's.
 */
export const persistentHome = (
  home: string,
  user: DatabaseUser | null
): Effect.Effect<string, ClusterFailed | ClusterRefused> =>
  Effect.gen(function* () {
    const refuse = (code: ClusterRefused["code"]) => new ClusterRefused({ code, path: home })
    if (!Path.isAbsolute(home)) {
      return yield* new ClusterFailed({ step: "home", detail: "its path must be absolute" })
    }
    if (tooLong(home)) return yield* refuse("cluster_socket_path_too_long")
    if (user !== null && obstacleAbove(home, user) !== null) return yield* refuse("cluster_home_unreachable")
    const existing = Files.lstatSync(home, { throwIfNoEntry: false })
    const ours = process.getuid?.() ?? -1
    const owners = user === null ? [ours] : [ours, user.userId]
    if (existing !== undefined && !(existing.isDirectory() && owners.includes(existing.uid))) {
      return yield* refuse("cluster_home_foreign")
    }
    return yield* Effect.try({
      try: () => {
        Files.mkdirSync(home, { recursive: true, mode: 0o700 })
        Files.chmodSync(home, 0o700)
        give(home, user)
        return home
      },
      catch: couldNotMake
    })
  })

/** Makes a home of its own below `under`, named `<prefix><random>`, and removes it when the scope closes. */
export const ephemeralHome = (
  options: { readonly under: string; readonly prefix: string },
  user: DatabaseUser | null
): Effect.Effect<string, ClusterFailed | ClusterRefused, Scope.Scope> =>
  Effect.gen(function* () {
    const shape = Path.join(options.under, `${options.prefix}${drawnSuffix}`)
    if (tooLong(shape)) {
      return yield* new ClusterRefused({ code: "cluster_socket_path_too_long", path: shape })
    }
    if (user !== null && obstacleAbove(shape, user) !== null) {
      return yield* new ClusterRefused({ code: "cluster_home_unreachable", path: shape })
    }
    const make = Effect.try({
      try: () => {
        const home = Files.mkdtempSync(Path.join(options.under, options.prefix))
        give(home, user)
        return home
      },
      catch: couldNotMake
    })
    return yield* Effect.acquireRelease(make, (home) =>
      Effect.sync(() => Files.rmSync(home, { recursive: true, force: true, maxRetries: 3 }))
    )
  })

/** Opens the server's log for appending, set aside first when it is too long. Follows no link. */
export const openLog = (home: string): number => {
  const path = logFile(home)
  const existing = Files.lstatSync(path, { throwIfNoEntry: false })
  if (existing !== undefined && existing.size > databaseLogBytesMax) Files.renameSync(path, `${path}.1`)
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = Files.constants
  return Files.openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
}
