/**
 * Global set-up of the suite: one ephemeral socket-only cluster, and in it a template database named by the hash of
 * the migrations. The template is built under another name and renamed when it is whole, so that a broken build is
 * never cloned. HOLDFAST_TEST_POSTGRES names the folder of another server's `initdb` and `postgres`. Source: SP-TEST-01.
 */
import { createHash } from "node:crypto"
import { existsSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { TestProject } from "vitest/node"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import * as EmbeddedCluster from "../../src/infra/postgres/EmbeddedCluster.ts"
import { type Migration, runMigrations } from "../../src/infra/postgres/migrate.ts"
import { coreMigrations } from "../../src/infra/postgres/migrations/0001_core.ts"
import { pluginMigrations } from "../../src/infra/postgres/migrations/0021_baseline.ts"
import * as Db from "../../src/infra/postgres/PluginDb.ts"
import { coreSchema, pluginSchema } from "./schemas.ts"

declare module "vitest" {
  export interface ProvidedContext {
    readonly cluster: { readonly host: string; readonly username: string; readonly template: string }
  }
}

const nodeMajorMin = 24

const textOf = (migrations: ReadonlyArray<Migration>): string =>
  migrations.flatMap((migration) => migration.statements({ schema: "schema" })).join("\n")

const migrateInto = (address: Db.Options["address"], schema: string, migrations: ReadonlyArray<Migration>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const db = yield* Db.make({ address, schema, connectionsMax: 1 })
      yield* runMigrations({ migrations }).pipe(Effect.provideService(PluginDb, db))
    })
  )

const buildTemplate = Effect.fnUntraced(function* (cluster: EmbeddedCluster.Cluster, template: string) {
  const server = { host: cluster.socketDirectory, username: cluster.user }
  const admin = yield* PgConnection.make({ ...server, database: "postgres" })
  const unfinished = `tmp_${template}`
  yield* admin.query(`create database ${unfinished}`, [], false)
  yield* migrateInto({ ...server, database: unfinished }, coreSchema, coreMigrations)
  yield* migrateInto({ ...server, database: unfinished }, pluginSchema, pluginMigrations)
  yield* admin.query(`alter database ${unfinished} rename to ${template}`, [], false)
  yield* admin.query(`alter database ${template} with is_template true allow_connections false`, [], false)
}, Effect.scoped)

const homes = "holdfast-test-"

/** Homes carry the id of the process that made them; those of a run that was killed are removed by the next. */
const sweepStaleHomes = (under: string): void => {
  for (const name of readdirSync(under)) {
    const owner = name.startsWith(homes) ? /^(\d+)-/.exec(name.slice(homes.length))?.[1] : undefined
    if (owner !== undefined && !existsSync(`/proc/${owner}`)) {
      rmSync(join(under, name), { recursive: true, force: true })
    }
  }
}

/** Starts the cluster and hands its address to the workers; the answered function stops it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (Number(process.versions.node.split(".")[0]) < nodeMajorMin) {
    throw new Error(
      `the tests run on Node ${nodeMajorMin}, not ${process.version}: start them through npm, after scripts/setup`
    )
  }
  const scope = Effect.runSync(Scope.make())
  const program = Effect.gen(function* () {
    const under = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()
    yield* Effect.sync(() => sweepStaleHomes(under))
    const prefix = `${homes}${process.pid}-`
    const binaries = process.env["HOLDFAST_TEST_POSTGRES"]
    const cluster = yield* EmbeddedCluster.start({
      kind: "ephemeral",
      under,
      prefix,
      ...(binaries === undefined ? {} : { binaries })
    })
    const hash = createHash("sha256")
      .update(textOf([...coreMigrations, ...pluginMigrations]))
      .digest("hex")
    const template = `tpl_${hash.slice(0, 16)}`
    yield* buildTemplate(cluster, template)
    project.provide("cluster", { host: cluster.socketDirectory, username: cluster.user, template })
  })
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  // Vitest calls no teardown when the set-up throws.
  await Effect.runPromise(
    program.pipe(
      Scope.provide(scope),
      Effect.onError(() => Effect.promise(close))
    )
  )
  return close
}
