/** The host's Projects as a plugin sees them: who waits for whom, on real connections held inside their transactions. */
import { randomUUID } from "node:crypto"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { DeletionStore } from "../../../src/domain/host/DeletionStore.ts"
import { Caller, HostAccounts } from "../../../src/domain/host/Accounts.ts"
import { HostProjects } from "../../../src/domain/host/Projects.ts"
import { AccountId, ProjectId, TenantId } from "../../../src/domain/Identity.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import * as HostAccountsAdapter from "../../../src/infra/postgres/HostAccounts.ts"
import * as HostProjectsAdapter from "../../../src/infra/postgres/HostProjects.ts"
import { clone, Clone } from "../../support/clone.ts"
import { sideBySide } from "../../support/sideBySide.ts"
import {
  fixture,
  holdingAfter,
  lifecycleOf,
  live,
  newProject,
  requireActive,
  withFaultyStores
} from "../../domain/host/hostFixture.ts"

const admit = ({ caller, project }: Effect.Success<typeof newProject>) =>
  DeletionStore.use((store) =>
    store.admit({ caller, project, participants: ["plugin:sandbox"], confirmedPaths: ["/disks/1"] })
  )

const nobody = new Caller({
  account: AccountId.make(randomUUID()),
  tenant: TenantId.make(randomUUID()),
  name: "nobody",
  administrator: false,
  initiator: "user"
})

const runtimesOf = (project: ProjectId) =>
  Effect.flatMap(Clone, ({ admin }) =>
    Effect.map(
      admin("select observed from plugin_sandbox.runtimes where project_id = $1::bigint", [project]),
      (rows) => rows.length
    )
  )

describe("postgres/HostProjects", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-ADM-02 a write that holds the Project first makes the deletion wait, and is seen by it",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const write = (held: Effect.Effect<void>) =>
            Effect.gen(function* () {
              const tx = yield* PluginTx
              yield* (yield* HostProjects).requireActive(scene.project)
              yield* tx.query({
                operation: "test.insert",
                text: "insert into runtimes (project_id) values ($1::bigint)",
                parameters: [scene.project]
              })
              yield* held
            })
          const db = yield* PluginDb
          const { contender, holder, waited } = yield* sideBySide(
            (held) => db.transaction("test.write", write(held)),
            Effect.andThen(admit(scene), runtimesOf(scene.project))
          )
          assert.isTrue(waited, "the deletion waits for the write")
          assert.isTrue(Exit.isSuccess(holder))
          assert.deepStrictEqual(contender, Exit.succeed(1))
          assert.strictEqual(yield* lifecycleOf(scene.project), "deleting")
        })
    )

    it.effect("SP-ADM-02 a deletion that locks the Project first makes the write wait, and refuses it", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        const { contender, holder, waited } = yield* sideBySide(
          (held) => withFaultyStores(holdingAfter("DeletionStore.admit", held), admit(scene)),
          Effect.flip(requireActive(scene.project))
        )
        assert.isTrue(waited, "the write waits for the deletion")
        assert.isTrue(Exit.isSuccess(holder))
        assert.isTrue(Exit.isSuccess(contender))
        if (Exit.isSuccess(contender)) {
          assert.deepInclude({ ...contender.value }, { _tag: "ProjectNotActive", project: scene.project })
        }
      })
    )

    it.effect("two writes hold the same active Project at once, and neither waits", () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        const { contender, waited } = yield* sideBySide(
          (held) => requireActive(project, held),
          requireActive(project)
        )
        assert.isFalse(waited)
        assert.isTrue(Exit.isSuccess(contender))
      })
    )

    it.effect("a Project that never was is not active", () =>
      Effect.gen(function* () {
        const refusal = yield* Effect.flip(requireActive(ProjectId.make(Number.MAX_SAFE_INTEGER)))
        assert.deepInclude({ ...refusal }, { _tag: "ProjectNotActive", code: "project_not_active" })
      })
    )

    it.effect("a plugin reads the deletion of a Project while it goes on, and none before or after", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        const db = yield* PluginDb
        const store = yield* DeletionStore
        const projects = yield* HostProjects
        const seen = db.snapshot("test.deletion", projects.deletion(scene.project))
        assert.isTrue(Option.isNone(yield* seen))
        yield* admit(scene)
        yield* store.completeStep(scene.project, { participant: "plugin:sandbox", proofs: ["gone"] })
        assert.deepStrictEqual(
          { ...Option.getOrThrow(yield* seen) },
          {
            project: scene.project,
            lifecycle: "deleting",
            state: "pending",
            participants: ["plugin:sandbox"],
            completedSteps: ["plugin:sandbox"],
            confirmedPaths: ["/disks/1"]
          }
        )
        yield* store.finalize(scene.project)
        assert.isTrue(Option.isNone(yield* seen))
      })
    )

    it.effect("FC-14 a bare DELETE of a Project that owes a machine is refused by the schema", () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        const db = yield* PluginDb
        const { admin } = yield* Clone
        yield* admin("delete from core.memberships where project_id = $1::bigint", [project])
        yield* admin("insert into plugin_sandbox.runtimes (project_id) values ($1::bigint)", [project])
        const text = "delete from core.projects where id = $1::bigint"
        const bare = db.query({ operation: "test.delete", text, parameters: [project] })
        const refusal = yield* Effect.flip(bare)
        assert.deepInclude({ ...refusal }, { fault: "constraint", constraint: "runtimes_project_id_fkey" })
        // PostgreSQL 18 tells a restriction from a missing key; the older ones do not.
        assert.include(["23001", "23503"], refusal.state)
        assert.strictEqual(yield* lifecycleOf(project), "active")
        yield* admin("delete from plugin_sandbox.runtimes where project_id = $1::bigint", [project])
        yield* bare
        assert.isNull(yield* lifecycleOf(project))
      })
    )
  })

  it.live("SP-TEST-02 a refusing host is bound without a look-up, and dies at the first one", () =>
    Effect.gen(function* () {
      const db = yield* PluginDb
      const projects = yield* HostProjects
      const accounts = yield* HostAccounts
      const project = ProjectId.make(1)
      const select = { operation: "test.select", text: "select 1 as one" }
      const unasked = Effect.flatMap(PluginTx, (tx) => tx.query(select))
      assert.deepStrictEqual(yield* db.transaction("test.sqlOnly", unasked), [{ one: 1 }])
      const lookUps: ReadonlyArray<Effect.Effect<unknown, { readonly code: string }, PluginTx>> = [
        projects.requireActive(project),
        projects.deletion(project),
        accounts.requireAccess(nobody, project, "read")
      ]
      for (const lookUp of lookUps) {
        const exit = yield* Effect.exit(db.transaction("test.lookUp", Effect.andThen(unasked, lookUp)))
        assert.isTrue(Exit.hasDies(exit))
        if (Exit.isFailure(exit)) assert.include(Cause.pretty(exit.cause), "this fixture has no host")
      }
    }).pipe(
      Effect.provide(
        Layer.mergeAll(HostProjectsAdapter.layerRefusing, HostAccountsAdapter.layerRefusing, clone())
      )
    )
  )
})
