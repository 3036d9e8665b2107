/** The host's Projects for the host itself: names, visibility, order, and the notes that people read. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { alertRowsMax, auditRowsMax, projectListMax } from "../../../src/domain/Bounds.ts"
import { nameFault, ProjectStore } from "../../../src/domain/host/ProjectStore.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { fixture, live, newAccount, newProject, newStranger } from "../../domain/host/hostFixture.ts"

const refusedNames = [
  "",
  "-a",
  "a-",
  "A",
  "a_b",
  "a.b",
  "ä",
  "7",
  "12345",
  "1-2",
  " a",
  "a\n",
  "a".repeat(64)
]
const acceptedNames = ["a", "7a", "a7", "a--b", "1-b-2", "b".repeat(63)]

const asked = (text: string, parameters: ReadonlyArray<unknown> = []) =>
  Effect.flatMap(Clone, ({ admin }) => admin(text, parameters))

describe("postgres/ProjectStore", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "the local operator is made once, however many daemons ask at once, and is an administrator",
      () =>
        Effect.gen(function* () {
          const { bootstrap } = yield* ProjectStore
          const callers = yield* Effect.all(
            Array.from({ length: 8 }, () => bootstrap),
            { concurrency: "unbounded" }
          )
          assert.strictEqual(new Set(callers.map(({ account, tenant }) => `${account} ${tenant}`)).size, 1)
          assert.deepInclude({ ...callers[0] }, { name: "operator", administrator: true, initiator: "user" })
          const rows = yield* asked(
            `select t.name as tenant, a.name, administrator, disabled from core.accounts a
            join core.tenants t on t.id = a.tenant_id where t.name = 'local' and a.name = 'operator'`
          )
          assert.deepStrictEqual(rows, [
            { tenant: "local", name: "operator", administrator: true, disabled: false }
          ])
        })
    )

    it.effect("whoever creates a Project owns it", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const caller = yield* newAccount()
        const project = yield* projects.create(caller, "owned")
        assert.deepInclude({ ...project }, { name: "owned", lifecycle: "active" })
        const members = yield* asked(
          "select account_id, role from core.memberships where project_id = $1::bigint",
          [project.id]
        )
        assert.deepStrictEqual(members, [{ account_id: caller.account, role: "owner" }])
        assert.deepStrictEqual(yield* projects.find(caller, "owned"), Option.some(project))
      })
    )

    it.effect("a name is taken within its tenant and free in another one", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const caller = yield* newAccount()
        yield* projects.create(caller, "twice")
        const refusal = yield* Effect.flip(projects.create(yield* newAccount(), "twice"))
        assert.deepInclude(
          { ...refusal },
          { _tag: "ProjectNameTaken", code: "project_name_taken", name: "twice" }
        )
        yield* projects.create(yield* newStranger, "twice")
      })
    )

    it.effect("a name that is no host name, or could be an id, is refused before any row is written", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const caller = yield* newAccount()
        for (const name of refusedNames) {
          const refusal = yield* Effect.flip(projects.create(caller, name))
          assert.deepInclude({ ...refusal }, { _tag: "ProjectNameRefused" }, JSON.stringify(name))
        }
        assert.deepStrictEqual(yield* projects.list(caller, 0), [])
        for (const name of acceptedNames) {
          assert.isNull(nameFault(name))
          assert.strictEqual((yield* projects.create(caller, name)).name, name)
        }
      })
    )

    it.effect("a disabled account, or one that is said to be of another tenant, creates nothing", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const stranger = yield* newStranger
        const disabled = yield* newAccount()
        yield* asked("update core.accounts set disabled = true where id = $1::uuid", [disabled.account])
        for (const caller of [disabled, { ...disabled, account: stranger.account }]) {
          const refusal = yield* Effect.flip(projects.create(caller, "never"))
          assert.deepInclude({ ...refusal }, { _tag: "AccessRefused", project: null })
        }
        const rows = yield* asked("select 1 from core.projects where name = 'never'")
        assert.deepStrictEqual(rows, [])
      })
    )

    it.effect(
      "members see their Projects by id and by name, administrators all of their tenant, strangers none",
      () =>
        Effect.gen(function* () {
          const projects = yield* ProjectStore
          const { caller, name, project } = yield* newProject
          const viewer = yield* newAccount({ project, role: "viewer" })
          const sees = (asker: typeof caller) =>
            Effect.gen(function* () {
              const found = [yield* projects.find(asker, name), yield* projects.find(asker, String(project))]
              const listed = yield* projects.list(asker, project - 1)
              return [...found.map(Option.isSome), listed.some(({ id }) => id === project)]
            })
          assert.deepStrictEqual(yield* sees(caller), [true, true, true])
          assert.deepStrictEqual(yield* sees(viewer), [true, true, true])
          assert.deepStrictEqual(yield* sees(yield* newAccount()), [false, false, false])
          assert.deepStrictEqual(yield* sees(yield* newStranger), [false, false, false])
          yield* asked("update core.accounts set disabled = true where id = $1::uuid", [viewer.account])
          assert.deepStrictEqual(yield* sees(viewer), [false, false, false])
        })
    )

    it.effect("an id is found only in its canonical form", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const { caller, project } = yield* newProject
        for (const reference of [
          `0${project}`,
          `+${project}`,
          `${project}.0`,
          ` ${project}`,
          "9007199254740993"
        ])
          assert.isTrue(Option.isNone(yield* projects.find(caller, reference)), reference)
      })
    )

    it.effect("a listing goes on after an id, in the order of ids, and answers a bounded number", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const caller = yield* newStranger
        const made = yield* asked(
          `insert into core.projects (tenant_id, name)
            select $1::uuid, 'p' || n from generate_series(1, $2::int) n returning id::int as id`,
          [caller.tenant, projectListMax + 2]
        )
        const ids = made.map((row) => Number(row["id"])).toSorted((left, right) => left - right)
        const first = yield* projects.list(caller, 0)
        assert.deepStrictEqual(
          first.map(({ id }) => Number(id)),
          ids.slice(0, projectListMax)
        )
        const rest = yield* projects.list(caller, first.at(-1)?.id ?? 0)
        assert.deepStrictEqual(
          rest.map(({ id }) => Number(id)),
          ids.slice(projectListMax)
        )
      })
    )

    it.effect("an alert carries the Project's label as it was, also of a Project that is gone", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const { name, project } = yield* newProject
        const gone = ProjectId.make(Number.MAX_SAFE_INTEGER)
        yield* projects.raiseAlert({ project, kind: "start_refused", message: "it was refused" })
        yield* projects.raiseAlert({ project: gone, kind: "start_refused", message: "it was refused" })
        const rows = yield* asked(
          "select project_id, project_label, kind, message from core.alerts order by id desc limit 2"
        )
        assert.deepStrictEqual(
          rows.map((row) => [Number(row["project_id"]), row["project_label"], row["kind"], row["message"]]),
          [
            [gone, null, "start_refused", "it was refused"],
            [project, name, "start_refused", "it was refused"]
          ]
        )
      })
    )

    it.effect("an alert is never raised inside a transaction, so no rollback takes it", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const db = yield* PluginDb
        const { project } = yield* newProject
        const alert = { project, kind: "inside", message: "it was refused" }
        const exit = yield* Effect.exit(db.transaction("test.inside", projects.raiseAlert(alert)))
        assert.isTrue(Exit.hasDies(exit))
        assert.deepStrictEqual(yield* asked("select 1 from core.alerts where kind = 'inside'"), [])
      })
    )

    it.effect("alerts and audit lines keep their newest rows and no more", () =>
      Effect.gen(function* () {
        const projects = yield* ProjectStore
        const { caller, project } = yield* newProject
        yield* asked(
          "insert into core.alerts (kind, message) select 'old', 'old' from generate_series(1, $1::int)",
          [alertRowsMax]
        )
        yield* asked(
          `insert into core.audit_log (actor, action, outcome)
            select 'old', 'old', 'old' from generate_series(1, $1::int)`,
          [auditRowsMax]
        )
        for (const outcome of ["admitted", "completed"]) {
          yield* projects.raiseAlert({ project, kind: "new", message: outcome })
          yield* projects.audit({
            account: caller.account,
            actor: caller.name,
            action: "delete project",
            project,
            outcome
          })
        }
        const count = (table: string) =>
          Effect.map(asked(`select count(*)::int as count from ${table}`), ([row]) => row?.["count"])
        assert.strictEqual(yield* count("core.alerts"), alertRowsMax)
        assert.strictEqual(yield* count("core.audit_log"), auditRowsMax)
        const newest = yield* asked(
          "select actor, action, outcome, account_id from core.audit_log order by id desc limit 2"
        )
        assert.deepStrictEqual(
          newest,
          ["completed", "admitted"].map((outcome) => ({
            actor: "operator",
            action: "delete project",
            outcome,
            account_id: caller.account
          }))
        )
      })
    )
  })
})
