/** The host's deletion records: what admission and finalization lock, keep and refuse, on a clone. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { deletionRecordsMax } from "../../../src/domain/Bounds.ts"
import type { Caller } from "../../../src/domain/host/Accounts.ts"
import { DeletionStore } from "../../../src/domain/host/DeletionStore.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { Clone } from "../../support/clone.ts"
import { sideBySide } from "../../support/sideBySide.ts"
import {
  fixture,
  holdingAfter,
  lifecycleOf,
  live,
  newAccount,
  newProject,
  newStranger,
  withFaultyStores
} from "../../domain/host/hostFixture.ts"

interface Scene {
  readonly caller: Caller
  readonly project: ProjectId
}

const admit = ({ caller, project }: Scene, confirmedPaths: ReadonlyArray<string> = ["/disks/1"]) =>
  DeletionStore.use((store) =>
    store.admit({ caller, project, participants: ["plugin:sandbox"], confirmedPaths })
  )

const removed = (project: ProjectId) =>
  DeletionStore.use((store) =>
    store.completeStep(project, { participant: "plugin:sandbox", proofs: ["sb-1 is gone"] })
  )

const finalize = (project: ProjectId) => DeletionStore.use((store) => store.finalize(project))

const stored = (project: ProjectId) =>
  Effect.map(
    DeletionStore.use((store) => store.byProject(project)),
    Option.getOrThrow
  )

describe("postgres/DeletionStore", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("admission closes the Project and keeps what was confirmed, all at once", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        const record = yield* admit(scene)
        assert.deepStrictEqual(
          { ...record },
          {
            project: scene.project,
            name: scene.name,
            state: "pending",
            participants: ["plugin:sandbox"],
            completedSteps: [],
            confirmedPaths: ["/disks/1"],
            proofs: [],
            failureCode: null,
            attempts: 0
          }
        )
        assert.deepStrictEqual(yield* stored(scene.project), record)
        assert.strictEqual(yield* lifecycleOf(scene.project), "deleting")
      })
    )

    it.effect(
      "a second admission joins the first: its steps stay, its paths are confirmed beside the others",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const store = yield* DeletionStore
          yield* admit(scene, ["/disks/2"])
          yield* removed(scene.project)
          yield* store.noteFailure(scene.project, "guest_failure")
          const joined = yield* admit(scene, ["/disks/1", "/disks/2"])
          assert.deepInclude(
            { ...joined },
            {
              completedSteps: ["plugin:sandbox"],
              confirmedPaths: ["/disks/1", "/disks/2"],
              proofs: ["sb-1 is gone"],
              failureCode: null,
              attempts: 0
            }
          )
        })
    )

    it.effect(
      "FC-09 each stop counts until a step is done or somebody asks, and none counts afterwards",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const store = yield* DeletionStore
          const stop = store.noteFailure(scene.project, "guest_failure")
          yield* admit(scene)
          assert.deepStrictEqual([yield* stop, yield* stop], [1, 2])
          assert.deepInclude(
            { ...(yield* stored(scene.project)) },
            { attempts: 2, failureCode: "guest_failure" }
          )
          yield* removed(scene.project)
          assert.strictEqual((yield* stored(scene.project)).attempts, 0)
          assert.strictEqual(yield* stop, 1)
          assert.strictEqual((yield* admit(scene)).attempts, 0)
          yield* stop
          assert.strictEqual((yield* finalize(scene.project)).attempts, 0)
          assert.strictEqual(yield* stop, 0)
          assert.deepInclude({ ...(yield* stored(scene.project)) }, { attempts: 0, failureCode: null })
        })
    )

    it.effect("only an administrator or an owner of the Project may delete it", () =>
      Effect.gen(function* () {
        const store = yield* DeletionStore
        const { project } = yield* newProject
        for (const refused of [
          yield* newAccount({ project, role: "member" }),
          yield* newAccount({ project, role: "viewer" }),
          yield* newAccount(),
          yield* newStranger
        ]) {
          assert.strictEqual((yield* Effect.flip(admit({ caller: refused, project })))._tag, "AccessRefused")
          assert.strictEqual((yield* Effect.flip(store.requireOwner(refused, project)))._tag, "AccessRefused")
        }
        assert.strictEqual(yield* lifecycleOf(project), "active")
        const owner = yield* newAccount({ project, role: "owner" })
        yield* store.requireOwner(owner, project)
        yield* admit({ caller: owner, project })
      })
    )

    it.effect("SP-ADM-04 an owner whose membership is revoked before the admission is refused in it", () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        const { admin } = yield* Clone
        const store = yield* DeletionStore
        const caller = yield* newAccount({ project, role: "owner" })
        yield* store.requireOwner(caller, project)
        yield* admin("delete from core.memberships where account_id = $1::uuid", [caller.account])
        assert.strictEqual((yield* Effect.flip(admit({ caller, project })))._tag, "AccessRefused")
        assert.strictEqual(yield* lifecycleOf(project), "active")
      })
    )

    it.effect("a step is completed once, with its proofs once", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        yield* admit(scene)
        yield* removed(scene.project)
        yield* removed(scene.project)
        assert.deepInclude(
          { ...(yield* stored(scene.project)) },
          { completedSteps: ["plugin:sandbox"], proofs: ["sb-1 is gone"] }
        )
      })
    )

    it.effect(
      "SP-DEL-11 a deletion is not finalized before its last participant has verified its success",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          yield* admit(scene)
          assert.isTrue(Exit.hasDies(yield* Effect.exit(finalize(scene.project))))
          assert.strictEqual(yield* lifecycleOf(scene.project), "deleting")
          yield* removed(scene.project)
          assert.strictEqual((yield* finalize(scene.project)).state, "completed")
          assert.isNull(yield* lifecycleOf(scene.project))
        })
    )

    it.effect(
      "FC-14 a deletion is not finalized while a machine is owed: the schema keeps Project and record",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const { admin } = yield* Clone
          yield* admin("insert into plugin_sandbox.runtimes (project_id) values ($1::bigint)", [
            scene.project
          ])
          yield* admit(scene)
          yield* removed(scene.project)
          const refusal = yield* Effect.flip(finalize(scene.project))
          assert.deepInclude({ ...refusal }, { fault: "constraint", constraint: "runtimes_project_id_fkey" })
          assert.strictEqual(yield* lifecycleOf(scene.project), "deleting")
          assert.strictEqual((yield* stored(scene.project)).state, "pending")
        })
    )

    it.effect("a renewed admission and a finalization do not cross: the second waits, whichever it is", () =>
      Effect.gen(function* () {
        const renewed = yield* newProject
        yield* Effect.andThen(admit(renewed), removed(renewed.project))
        const first = yield* sideBySide(
          (held) => withFaultyStores(holdingAfter("DeletionStore.lock", held), admit(renewed, ["/disks/2"])),
          finalize(renewed.project)
        )
        assert.isTrue(first.waited)
        assert.deepStrictEqual([Exit.isSuccess(first.holder), Exit.isSuccess(first.contender)], [true, true])
        assert.deepStrictEqual((yield* stored(renewed.project)).confirmedPaths, ["/disks/1", "/disks/2"])

        const finished = yield* newProject
        yield* Effect.andThen(admit(finished), removed(finished.project))
        const second = yield* sideBySide(
          (held) => withFaultyStores(holdingAfter("DeletionStore.project", held), finalize(finished.project)),
          Effect.flip(admit(finished, ["/disks/2"]))
        )
        assert.isTrue(second.waited)
        assert.isTrue(Exit.isSuccess(second.holder))
        assert.isTrue(Exit.isSuccess(second.contender))
        if (Exit.isSuccess(second.contender)) assert.strictEqual(second.contender.value._tag, "AccessRefused")
      })
    )

    it.effect("a deletion that is finalized twice answers the same completed record", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        yield* Effect.andThen(admit(scene), removed(scene.project))
        const once = yield* finalize(scene.project)
        assert.deepStrictEqual(yield* finalize(scene.project), once)
      })
    )

    it.effect("completed records beyond the bound go, the oldest first, and pending ones stay", () =>
      Effect.gen(function* () {
        const pending = yield* newProject
        yield* admit(pending)
        const scene = yield* newProject
        yield* Effect.andThen(admit(scene), removed(scene.project))
        const { admin } = yield* Clone
        yield* admin(
          `insert into core.project_deletions
              (project_id, tenant_id, project_name, state, participants, confirmed_paths, completed_at)
            select 1000000 + n, $1::uuid, 'old', 'completed', '{}', '{}', now() - interval '1 day' + n * interval '1 ms'
            from generate_series(1, $2::int) n`,
          [scene.caller.tenant, deletionRecordsMax]
        )
        yield* admin("delete from core.project_deletions where state = 'completed' and project_id < 1000000")
        yield* finalize(scene.project)
        const [kept] = yield* admin(
          `select count(*)::int as count, min(project_id) filter (where project_id > 1000000)::int as oldest
            from core.project_deletions where state = 'completed'`
        )
        assert.deepStrictEqual(kept, { count: deletionRecordsMax, oldest: 1_000_002 })
        assert.strictEqual((yield* stored(scene.project)).state, "completed")
        assert.strictEqual((yield* stored(pending.project)).state, "pending")
      })
    )
  })
})
