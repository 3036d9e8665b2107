/** Loading a plugin on a real clone: the migration first, then registration, then what is offered, in its order. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { InstalledPlugins } from "../../../src/domain/host/InstalledPlugins.ts"
import { Participants } from "../../../src/domain/host/Participants.ts"
import {
  type Offers,
  type Plugin,
  type PluginError,
  PluginManifest
} from "../../../src/domain/host/PluginManifest.ts"
import { disagreement, loadPlugin } from "../../../src/domain/host/pluginLoading.ts"
import { Routes } from "../../../src/domain/host/Routes.ts"
import { CommitUnknown, PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import * as InstalledPluginsAdapter from "../../../src/infra/postgres/InstalledPlugins.ts"
import { type Migration, runMigrations } from "../../../src/infra/postgres/migrate.ts"
import { clone, Clone } from "../../support/clone.ts"

const schema = 'Other "quoted" Schema'

const manifest = new PluginManifest({
  name: "probe",
  version: "1.2.3",
  schema,
  provides: { projectRemoval: "storage" },
  routes: [{ method: "GET", pattern: "projects/:id/probe" }]
})

const migrations = (second: string): ReadonlyArray<Migration> => [
  { version: 21, name: "first", statements: () => ["create table first (id int)", second] }
]

const participant = {
  name: "plugin:probe",
  phase: "storage",
  describe: () => Effect.succeed({ paths: [], labels: [] }),
  remove: () => Effect.succeed({ paths: [], proofs: [] })
} as const

const route = {
  method: "GET",
  pattern: "projects/:id/probe",
  handler: () => Effect.succeed(null)
} as const

const path = "/plugins/probe/api/projects/7/probe"

interface Scripted {
  readonly second?: string
  readonly offers?: Partial<Offers>
  readonly refusal?: PluginError
}

/** A plugin that writes down what is asked of it; its registration reads the table that its migration makes. */
const makePlugin = (
  order: Array<string>,
  { offers, refusal, second = "create table second (id int)" }: Scripted = {}
): Plugin<Effect.Error<ReturnType<typeof runMigrations>>, PluginError, never> => {
  const note = (what: string) => Effect.sync(() => void order.push(what))
  return {
    manifest,
    migrate: Effect.andThen(note("migrate"), runMigrations({ migrations: migrations(second) })),
    register: Effect.gen(function* () {
      const db = yield* PluginDb
      // A plugin registers or refuses in its own words: a table that is not there is the test's defect.
      yield* Effect.orDie(db.query({ operation: "test", text: "select * from second" }))
      yield* note("register")
      if (refusal !== undefined) return yield* Effect.fail(refusal)
      return {
        controls: [{ name: "control", install: note("control") }],
        routes: [route],
        removal: participant,
        startReconciliation: note("reconciliation"),
        ...offers
      }
    })
  }
}

type Host = Participants | Routes | InstalledPlugins | Clone

const loading = <A, E>(body: (db: PluginDb["Service"]) => Effect.Effect<A, E, Host>) =>
  Effect.gen(function* () {
    const { openDb } = yield* Clone
    return yield* body(yield* openDb({ schema }))
  }).pipe(
    Effect.scoped,
    Effect.provide(
      Layer.mergeAll(
        InstalledPluginsAdapter.layer.pipe(Layer.provideMerge(clone())),
        Participants.layer,
        Routes.layer
      )
    )
  )

/** How much of the plugin the host has: participants, routes, and its row. */
const installed = Effect.gen(function* () {
  const { admin } = yield* Clone
  const rows = yield* admin("select name, version, schema_name, provides from core.plugins")
  const participants = yield* (yield* Participants).inOrder
  const matched = (yield* Routes).match("GET", path)
  return { rows, participants: participants.length, routed: Option.isSome(matched) }
})

const nothing = { rows: [], participants: 0, routed: false }

describe("host/pluginLoading", () => {
  it.live(
    "SP-DB-01 SP-DB-07 the migration takes the handle alone and is awaited; then registration, controls, routes, the participant, reconciliation",
    () =>
      loading((db) =>
        Effect.gen(function* () {
          const order: Array<string> = []
          const context = yield* Effect.context<Participants | Routes | Clone>()
          const seeing = (what: string) =>
            Effect.map(installed, ({ participants, routed }) => {
              order.push(`${what}: ${routed ? "routes" : "no routes"}, ${participants} participants`)
            }).pipe(Effect.provideContext(context))
          const participants = yield* Participants
          const watched = {
            inOrder: participants.inOrder,
            register: (each: typeof participant) =>
              Effect.andThen(seeing("participant"), participants.register(each))
          }
          const offers = {
            controls: [{ name: "control", install: seeing("control") }],
            startReconciliation: seeing("reconciliation")
          }
          yield* loadPlugin(makePlugin(order, { offers }), db).pipe(
            Effect.provideService(Participants, watched as Participants["Service"])
          )
          assert.deepStrictEqual(order, [
            "migrate",
            "register",
            "control: no routes, 0 participants",
            "participant: routes, 0 participants",
            "reconciliation: routes, 1 participants"
          ])
        })
      )
  )

  it.live("a loaded plugin's route is matched, and its version is noted in place of an earlier one", () =>
    loading((db) =>
      Effect.gen(function* () {
        const plugin = makePlugin([])
        const older = new PluginManifest({ ...manifest, version: "1.0.0" })
        yield* (yield* InstalledPlugins).record(older)
        yield* loadPlugin(plugin, db)
        assert.deepStrictEqual(yield* installed, {
          rows: [
            { name: "probe", version: "1.2.3", schema_name: schema, provides: { projectRemoval: "storage" } }
          ],
          participants: 1,
          routed: true
        })
      })
    )
  )

  it.live(
    "SP-DB-02 a failing migration leaves the schema as it was, names plugin and version, and never registers",
    () =>
      loading((db) =>
        Effect.gen(function* () {
          const order: Array<string> = []
          const plugin = makePlugin(order, { second: "create table broken (id nonsense)" })
          const failure = yield* Effect.flip(loadPlugin(plugin, db))
          assert.deepStrictEqual(order, ["migrate"])
          assert.deepInclude(
            { ...failure },
            { plugin: "probe", version: "1.2.3", stage: "migrate", reason: "migration_failed" }
          )
          assert.include(failure.message, "plugin probe 1.2.3")
          const { admin } = yield* Clone
          const left = yield* admin("select 1 from pg_namespace where nspname = $1", [schema])
          assert.deepStrictEqual(left, [], "not even the schema is left")
          assert.deepStrictEqual(yield* installed, nothing)
        })
      )
  )

  it.live(
    "a plugin that refuses to register, or offers what it does not declare, is not installed at all",
    () =>
      loading((db) =>
        Effect.gen(function* () {
          const order: Array<string> = []
          const refusal = { _tag: "Refused", code: "no_space", message: "there is no room" }
          const refused = yield* Effect.flip(loadPlugin(makePlugin(order, { refusal }), db))
          assert.deepInclude({ ...refused }, { stage: "register", reason: "no_space" })
          const silent = yield* Effect.flip(loadPlugin(makePlugin(order, { offers: { removal: null } }), db))
          assert.deepInclude({ ...silent }, { stage: "manifest", reason: "manifest_disagrees" })
          assert.deepStrictEqual(order, ["migrate", "register", "migrate", "register"])
          assert.deepStrictEqual(yield* installed, nothing)
        })
      )
  )

  it.live("a plugin whose loading cannot be noted is not installed at all", () =>
    loading((db) =>
      Effect.gen(function* () {
        const order: Array<string> = []
        const unanswered = { record: () => Effect.fail(new CommitUnknown({ operation: "test" })) }
        const failure = yield* loadPlugin(makePlugin(order), db).pipe(
          Effect.provideService(InstalledPlugins, unanswered as InstalledPlugins["Service"]),
          Effect.flip
        )
        assert.deepInclude({ ...failure }, { stage: "record", reason: "commit_unknown" })
        assert.deepStrictEqual(order, ["migrate", "register"])
        assert.deepStrictEqual(yield* installed, nothing)
      })
    )
  )

  const silent = new PluginManifest({ ...manifest, provides: {} })
  const other = { ...route, pattern: "projects/:id/other" }
  it.each([
    ["what it declares", manifest, {}, true],
    ["no removal where none is declared", silent, { removal: null }, true],
    ["no removal where one is declared", manifest, { removal: null }, false],
    ["a removal that is not declared", silent, {}, false],
    ["a removal of another phase", manifest, { removal: { ...participant, phase: "service" } }, false],
    ["a removal under another name", manifest, { removal: { ...participant, name: "plugin:x" } }, false],
    ["no route where one is declared", manifest, { routes: [] }, false],
    ["a route that is not declared", manifest, { routes: [route, other] }, false],
    ["its route by another method", manifest, { routes: [{ ...route, method: "POST" }] }, false],
    ["its route twice", manifest, { routes: [route, route] }, false]
  ] as const)("manifest and offers agree only about what is declared: %s", (_, declared, offers, agrees) => {
    const why = disagreement(declared, { removal: participant, routes: [route], ...offers })
    assert.strictEqual(why === null, agrees, why ?? "")
  })
})
