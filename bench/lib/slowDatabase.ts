/**
 * The benchmarks' database on a slower disk: initialized by the product, then served with a library before libc that
 * makes every flush of the server longer. Left out where there is no C compiler.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Path from "node:path"
import { clusterPort, dataDirectory } from "../../src/infra/postgres/clusterHome.ts"
import { databaseUser } from "../../src/infra/postgres/databaseUser.ts"
import { start } from "../../src/infra/postgres/EmbeddedCluster.ts"
import { locate, runnableBy } from "../../src/infra/postgres/postgresBinaries.ts"
import { awaitReady, startServer } from "../../src/infra/postgres/postmaster.ts"
import { compile } from "./compile.ts"
import { type BenchDatabase, requireFlushes } from "./database.ts"
import { diskDirectory, flushMillis } from "./disk.ts"
import { runPlainly } from "./plainPg.ts"

const serverSettings = (home: string): ReadonlyArray<string> =>
  Object.entries({
    listen_addresses: "",
    port: String(clusterPort),
    unix_socket_directories: home,
    fsync: "on",
    synchronous_commit: "on",
    full_page_writes: "on",
    max_connections: "100",
    shared_buffers: "512MB",
    max_wal_size: "4GB",
    checkpoint_timeout: "30min"
  }).flatMap(([name, value]) => ["-c", `${name}=${value}`])

/** Fails with a sentence where the machine cannot compile the library. */
export const openSlowDatabase = (moreMicros: number): Effect.Effect<BenchDatabase, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const directory = yield* diskDirectory
    const home = Path.join(directory, "postgres")
    const source = Path.join(import.meta.dirname, "../native/slowFlush.c")
    const library = compile(source, directory, ["-shared", "-fPIC"])
    if ("why" in library) return yield* Effect.fail(new Error(library.why))
    const { user: superuser } = yield* Effect.scoped(start({ kind: "persistent", home }))
    const user = yield* databaseUser(home)
    const { postgres } = yield* runnableBy(yield* locate, user, home)
    const server = yield* startServer({
      program: "/usr/bin/env",
      arguments: [
        `LD_PRELOAD=${library.program}`,
        `SLOW_FLUSH_MICROS=${moreMicros}`,
        postgres,
        ...serverSettings(home),
        "-D",
        dataDirectory(home)
      ],
      user,
      home,
      stop: ["SIGINT", "SIGQUIT"]
    })
    yield* awaitReady(server, home)
    const at = { host: home, port: clusterPort, user: superuser }
    const durability = yield* requireFlushes({ ...at, database: "postgres" })
    yield* runPlainly({ ...at, database: "postgres" }, ["create database bench"])
    const flush = `one flush takes ${flushMillis(directory).toFixed(3)} ms and ${moreMicros / 1000} ms more`
    return { settings: { ...at, database: "bench" }, setting: { database: durability, disk: flush } }
  })
