/**
 * The migration runner: brings one schema to the version that the code knows, in one transaction under an advisory
 * lock, so that two daemons starting at once on an empty database both succeed and each migration runs once.
 * Which migrations there are is told by the lists in migrations/. Source: SP-DB-02 to SP-DB-06.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { migrationLockWaitMillisMax } from "../../domain/Bounds.ts"
import {
  PluginDb,
  PluginTx,
  type StorageError,
  type StorageFailure
} from "../../domain/persistence/PluginDb.ts"
import { quoted } from "./connection.ts"
import { migrationLock } from "./locks.ts"

/** One step of a schema. `statements` may name the schema, quoted; the search path already holds it alone. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly statements: (names: { readonly schema: string }) => ReadonlyArray<string>
}

/** The installation records a version that this code does not know. Nothing was changed. Source: SP-DB-05. */
export class SchemaTooNew extends Schema.TaggedError<SchemaTooNew>()("SchemaTooNew", {
  schema: Schema.String,
  recorded: Schema.Int,
  known: Schema.Int
}) {
  readonly code = "schema_too_new"
  override get message(): string {
    return `schema ${this.schema} has version ${this.recorded} and this holdfast knows ${this.known}: run the newer holdfast that migrated it`
  }
}

/** A migration failed; schema and recorded version are as they were before. Source: SP-DB-02. */
export class MigrationFailed extends Schema.TaggedError<MigrationFailed>()("MigrationFailed", {
  schema: Schema.String,
  version: Schema.Int,
  name: Schema.String,
  state: Schema.NullOr(Schema.String)
}) {
  readonly code = "migration_failed"
  override get message(): string {
    return `migration ${this.version} (${this.name}) of schema ${this.schema} failed${this.state === null ? "" : ` with SQLSTATE ${this.state}`}: nothing was changed`
  }
}

const execute = (operation: string, text: string, parameters: ReadonlyArray<unknown> = []) =>
  Effect.flatMap(PluginTx, (tx) => tx.query({ operation, text, parameters })).pipe(
    Effect.catchTag("TransactionEnded", (ended) => Effect.die(ended))
  )

/** A list that is empty, out of order, or has a version twice or none between two is our mistake. */
const lastVersion = (migrations: ReadonlyArray<Migration>): Effect.Effect<number> => {
  const versions = migrations.map((migration) => migration.version)
  const rising = versions.every((version, index) => index === 0 || version === (versions[index - 1] ?? 0) + 1)
  const last = versions.at(-1)
  return rising && last !== undefined
    ? Effect.succeed(last)
    : Effect.die(new Error("the versions of a migration list must follow one another without a gap"))
}

const apply = (schema: string, migration: Migration): Effect.Effect<void, MigrationFailed, PluginTx> =>
  Effect.gen(function* () {
    for (const text of migration.statements({ schema: quoted(schema) })) {
      yield* execute("migrate.statement", text)
    }
    yield* execute("migrate.record", "insert into schema_migrations (version, name) values ($1, $2)", [
      migration.version,
      migration.name
    ])
  }).pipe(
    Effect.mapError(
      ({ state }: StorageFailure) =>
        new MigrationFailed({ schema, version: migration.version, name: migration.name, state })
    )
  )

/** A migration may take its time, and a second daemon waits for the first one; neither without a bound. */
const patience = `select set_config('statement_timeout', '0', true),
  set_config('lock_timeout', $1, true)`

/** Makes the schema and its record where they are missing; answers the newest version that is recorded, or 0. */
const recordedVersion = Effect.fnUntraced(function* (schema: string) {
  yield* execute("migrate.schema", `create schema if not exists ${quoted(schema)}`)
  yield* execute(
    "migrate.table",
    `create table if not exists ${quoted(schema)}.schema_migrations (
      version int primary key,
      name text not null,
      applied_at timestamptz(3) not null default now()
    )`
  )
  const rows = yield* execute(
    "migrate.read",
    "select coalesce(max(version), 0)::int as version from schema_migrations"
  )
  return Number(rows[0]?.["version"])
})

/**
 * Runs what is missing, in order, each once; answers the versions that ran. Refused with `SchemaTooNew`; fails with
 * `MigrationFailed`, and then nothing has changed. Bound: `migrationLockWaitMillisMax`.
 */
export const runMigrations: (options: {
  readonly migrations: ReadonlyArray<Migration>
}) => Effect.Effect<ReadonlyArray<number>, SchemaTooNew | MigrationFailed | StorageError, PluginDb> =
  Effect.fn("migrate.run")(function* (options: { readonly migrations: ReadonlyArray<Migration> }) {
    const db = yield* PluginDb
    const known = yield* lastVersion(options.migrations)
    const { schema } = db
    const body = Effect.gen(function* () {
      yield* execute("migrate.patience", patience, [String(migrationLockWaitMillisMax)])
      yield* execute("migrate.lock", "select pg_advisory_xact_lock($1::bigint)", [migrationLock(schema)])
      const recorded = yield* recordedVersion(schema)
      if (recorded > known) return yield* new SchemaTooNew({ schema, recorded, known })
      const missing = options.migrations.filter((migration) => migration.version > recorded)
      yield* Effect.forEach(missing, (migration) => apply(schema, migration), { discard: true })
      return missing.map((migration) => migration.version)
    })
    return yield* db.transaction("migrate.run", body)
  })
