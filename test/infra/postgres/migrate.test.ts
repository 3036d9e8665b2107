/** The migration runner on real databases: all or nothing, each once, in the schema that the host supplies. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { coreMigrations } from "../../../src/infra/postgres/migrations/0001_core.ts"
import { pluginMigrations } from "../../../src/infra/postgres/migrations/0021_baseline.ts"
import {
  type Migration,
  MigrationFailed,
  runMigrations,
  SchemaTooNew
} from "../../../src/infra/postgres/migrate.ts"
import { Clone, emptyClone } from "../../support/clone.ts"
import { everyStep } from "../../support/everyStep.ts"
import { withFaults } from "../../support/faults.ts"
import { coreSchema, pluginSchema } from "../../support/schemas.ts"

const baseline: Migration = {
  version: 21,
  name: "baseline",
  statements: ({ schema }) => [
    `create type ${schema}.color as enum ('red', 'green')`,
    "create table things (id bigint generated always as identity primary key, color color)",
    "create index things_by_color on things (color)",
    "create function one() returns int language sql as 'select 1'"
  ]
}
const second: Migration = {
  version: 22,
  name: "second",
  statements: () => ["create table applied (version int)", "insert into applied values (22)"]
}
const third: Migration = { version: 23, name: "third", statements: () => ["insert into applied values (23)"] }
const all = [baseline, second, third]

const broken = (text: string): Migration => ({ version: 22, name: "broken", statements: () => [text] })

const migrate = (schema: string, migrations: ReadonlyArray<Migration>) =>
  Effect.gen(function* () {
    const { openDb } = yield* Clone
    const db = yield* openDb({ schema, connectionsMax: 2 })
    return yield* runMigrations({ migrations }).pipe(Effect.provideService(PluginDb, db))
  }).pipe(Effect.scoped)

/** Every object of the database that PostgreSQL did not bring, with its schema. */
const objects = Effect.flatMap(Clone, ({ admin }) =>
  admin(`with owned as (
      select relnamespace as schema, relkind::text as kind, relname::text as name from pg_class
      union all select pronamespace, 'function', proname from pg_proc
      union all select typnamespace, 'type', typname from pg_type
    )
    select n.nspname::text as schema, o.kind, o.name from owned o join pg_namespace n on n.oid = o.schema
      where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') order by 1, 2, 3`)
)

const record = (schema: string) =>
  Effect.flatMap(Clone, ({ admin }) =>
    Effect.map(admin(`select version from "${schema}".schema_migrations order by version`), (rows) =>
      rows.map((row) => row["version"])
    )
  )

const onEmpty = <A, E>(effect: Effect.Effect<A, E, Clone | PluginDb>) =>
  effect.pipe(Effect.provide(emptyClone()))

describe("runMigrations", () => {
  it.live("SP-DB-03 a fresh installation runs the baseline and what follows in order, each once", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      assert.deepStrictEqual(yield* migrate("plugin", [baseline]), [21])
      assert.deepStrictEqual(yield* migrate("plugin", all), [22, 23])
      assert.deepStrictEqual(yield* migrate("plugin", all), [])
      assert.deepStrictEqual(yield* admin("select version from plugin.applied"), [
        { version: 22 },
        { version: 23 }
      ])
      assert.deepStrictEqual(yield* record("plugin"), [21, 22, 23])
    }).pipe(onEmpty)
  )

  it.live(
    "SP-DB-03 the product's baseline is version 21: fresh it runs, and where 21 is recorded it is skipped",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        yield* migrate(coreSchema, coreMigrations)
        assert.deepStrictEqual((yield* migrate("fresh", pluginMigrations)).slice(0, 1), [21])
        assert.deepStrictEqual(yield* migrate("fresh", pluginMigrations), [])
        // The record decides, whatever else is there: an installation of before has it, and this one has nothing more.
        yield* admin("create schema recorded")
        yield* admin(`create table recorded.schema_migrations
        (version int primary key, name text not null, applied_at timestamptz(3) not null default now())`)
        yield* admin("insert into recorded.schema_migrations (version, name) values (21, 'baseline')")
        const [skipped] = pluginMigrations.filter(({ version }) => version <= 21)
        assert.strictEqual(skipped?.name, "baseline")
        assert.deepStrictEqual(yield* migrate("recorded", [skipped!]), [])
        const left = (yield* objects).filter(({ kind, schema }) => schema === "recorded" && kind === "r")
        assert.deepStrictEqual(left, [{ schema: "recorded", kind: "r", name: "schema_migrations" }])
      }).pipe(onEmpty)
  )

  it.live("SP-DB-02 a failing statement leaves schema and recorded version as they were, and is named", () =>
    Effect.gen(function* () {
      yield* migrate("plugin", [baseline])
      const before = yield* objects
      const failure = yield* Effect.flip(migrate("plugin", [baseline, broken("select 1 / 0"), third]))
      assert.deepStrictEqual(
        failure,
        new MigrationFailed({ schema: "plugin", version: 22, name: "broken", state: "22012" })
      )
      assert.deepStrictEqual([yield* objects, yield* record("plugin")], [before, [21]])
    }).pipe(onEmpty)
  )

  it.live(
    "SP-DB-02 a failure at any statement of the run leaves an empty database empty",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        const root = yield* PluginDb
        const steps = yield* everyStep({
          kinds: ["failAt", "crashAfter"],
          program: (faults) =>
            Effect.andThen(
              admin(`drop schema if exists ${pluginSchema} cascade`),
              runMigrations({ migrations: all }).pipe(
                Effect.provideService(PluginDb, withFaults(root, faults))
              )
            ),
          check: ({ exit, fault }) =>
            Effect.gen(function* () {
              assert.strictEqual(Exit.isSuccess(exit), fault === null)
              if (fault !== null) assert.deepStrictEqual(yield* objects, [], JSON.stringify(fault))
            })
        })
        assert.strictEqual(steps.filter((step) => step === "migrate.statement").length, 7)
        assert.strictEqual(steps.filter((step) => step === "migrate.record").length, 3)
      }).pipe(onEmpty),
    60_000
  )

  it.live(
    "SP-DB-04 daemons that start at once on an empty database all succeed, and each migration ran once",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        const daemons = Array.from({ length: 4 }, () => migrate("plugin", all))
        const ran = yield* Effect.all(daemons, { concurrency: "unbounded" })
        assert.deepStrictEqual(ran.map((versions) => versions.length).toSorted(), [0, 0, 0, 3])
        assert.deepStrictEqual(yield* admin("select version from plugin.applied"), [
          { version: 22 },
          { version: 23 }
        ])
      }).pipe(onEmpty)
  )

  it.live("SP-DB-05 an installation of a newer version is refused and nothing is changed", () =>
    Effect.gen(function* () {
      yield* migrate("plugin", all)
      const before = yield* objects
      const refusal = yield* Effect.flip(migrate("plugin", [baseline]))
      assert.deepStrictEqual(refusal, new SchemaTooNew({ schema: "plugin", recorded: 23, known: 21 }))
      assert.strictEqual(refusal.code, "schema_too_new")
      assert.deepStrictEqual([yield* objects, yield* record("plugin")], [before, [21, 22, 23]])
    }).pipe(onEmpty)
  )

  it.live("SP-DB-06 every object lies in the supplied schema, whatever its name holds", () =>
    Effect.gen(function* () {
      for (const schema of [`Quo"ted`, "two words", "UPPER", `it's; drop`]) {
        yield* migrate(schema, all)
        const found = yield* objects
        assert.includeDeepMembers(
          [...found],
          [
            { schema, kind: "r", name: "things" },
            { schema, kind: "i", name: "things_by_color" },
            { schema, kind: "S", name: "things_id_seq" },
            { schema, kind: "function", name: "one" },
            { schema, kind: "type", name: "color" },
            { schema, kind: "r", name: "schema_migrations" }
          ]
        )
      }
      const schemas = new Set((yield* objects).map((each) => each["schema"]))
      assert.deepStrictEqual(
        [...schemas].toSorted(),
        [`Quo"ted`, "UPPER", `it's; drop`, "two words"].toSorted()
      )
    }).pipe(onEmpty)
  )

  it.live("SP-DB-06 the product's own migrations create nothing outside core and the supplied schema", () =>
    Effect.gen(function* () {
      yield* migrate(coreSchema, coreMigrations)
      yield* migrate(`My "${pluginSchema}"`, pluginMigrations)
      const schemas = new Set((yield* objects).map((each) => each["schema"]))
      assert.deepStrictEqual([...schemas].toSorted(), [`My "${pluginSchema}"`, coreSchema].toSorted())
    }).pipe(onEmpty)
  )

  for (const [name, list] of [
    ["empty", []],
    ["with a gap", [baseline, third]],
    ["with a version twice", [baseline, baseline]],
    ["out of order", [second, baseline]]
  ] as const) {
    it.live(`a list that is ${name} is a defect, and nothing is changed`, () =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(migrate("plugin", list))
        assert.isTrue(Exit.hasDies(exit))
        assert.deepStrictEqual(yield* objects, [])
      }).pipe(onEmpty)
    )
  }
})
