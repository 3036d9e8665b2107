/**
 * A durable PostgreSQL for the benchmarks: the product's own embedded cluster in its persistent form, in a directory
 * on the disk. That flushes are real is read back from the server before anything is measured.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Path from "node:path"
import { start } from "../../src/infra/postgres/EmbeddedCluster.ts"
import { diskDirectory, flushMillis } from "./disk.ts"
import { type PlainSettings, runPlainly } from "./plainPg.ts"

export interface BenchDatabase {
  readonly settings: PlainSettings
  readonly setting: Readonly<Record<string, string>>
}

const mustBeOn = ["fsync", "synchronous_commit", "full_page_writes"]

/** Answers the server's settings of durability. Fails where flushes are not real. */
export const requireFlushes = (settings: PlainSettings) =>
  Effect.gen(function* () {
    const answers: Array<string> = []
    for (const name of [...mustBeOn, "server_version"]) {
      const { rows } = yield* runPlainly(settings, [`show ${name}`])
      answers.push(`${name} ${String(rows[0]?.[name])}`)
    }
    const off = mustBeOn.filter((name) => !answers.includes(`${name} on`))
    if (off.length > 0)
      return yield* Effect.fail(new Error(`${off.join(", ")} must be on: nothing was measured`))
    return answers.join(", ")
  })

/** Starts the cluster and makes an empty database named `bench`; both go with the scope. */
export const openDatabase: Effect.Effect<BenchDatabase, unknown, Scope.Scope> = Effect.gen(function* () {
  const directory = yield* diskDirectory
  const cluster = yield* start({
    kind: "persistent",
    home: Path.join(directory, "postgres"),
    settings: { shared_buffers: "512MB", max_wal_size: "4GB", checkpoint_timeout: "30min" }
  })
  const server = { host: cluster.socketDirectory, port: cluster.port, user: cluster.user }
  const admin = { ...server, database: "postgres" }
  const durability = yield* requireFlushes(admin)
  yield* runPlainly(admin, ["create database bench"])
  return {
    settings: { ...server, database: "bench" },
    setting: { database: durability, disk: `one flush takes ${flushMillis(directory).toFixed(3)} ms` }
  }
})
