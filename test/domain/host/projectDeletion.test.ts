/** The host's protocol of deleting a Project, on a clone, with scripted participants. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { DeletionStore } from "../../../src/domain/host/DeletionStore.ts"
import type { Participant } from "../../../src/domain/host/Participants.ts"
import { admitDeletion, deleteProject, previewDeletion } from "../../../src/domain/host/projectDeletion.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import {
  fixture,
  lifecycleOf,
  live,
  makeOwner,
  newAccount,
  newProject,
  newStranger,
  twoOwners,
  withOwners
} from "./hostFixture.ts"

const recordOf = (project: ProjectId) => DeletionStore.use((store) => store.byProject(project))

const previewAndDelete = ({ caller, project }: Effect.Success<typeof newProject>) =>
  Effect.flatMap(previewDeletion(project), ({ paths }) => deleteProject(caller, project, paths))

/** Tags of what each program is refused with in a host that has these owners. */
const refusedIn = <E extends { readonly _tag: string }, R>(
  owners: ReadonlyArray<Participant>,
  programs: ReadonlyArray<Effect.Effect<unknown, E, R>>
) =>
  Effect.forEach(programs, (program) =>
    Effect.map(Effect.flip(withOwners(owners, program)), ({ _tag }) => _tag)
  )

describe("host/projectDeletion", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-DEL-01 a deletion runs service owners first, storage last, and ends with proofs and no Project",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const { service, storage } = twoOwners()
          const seen: Array<string> = []
          const note = (when: string) => (_: string, step: string) =>
            Effect.sync(() => void seen.push(`${when} ${step}`))
          const done = yield* withOwners([storage, service], previewAndDelete(scene)).pipe(
            Effect.provideService(StepObserver, { before: note("before"), after: note("after") })
          )
          assert.deepInclude(
            { ...done },
            {
              state: "completed",
              participants: ["plugin:sites", "plugin:sandbox"],
              completedSteps: ["plugin:sites", "plugin:sandbox"],
              confirmedPaths: ["/disks/1", "/runtime/1", "/sites/1"],
              proofs: ["plugin:sites is gone", "plugin:sandbox is gone"]
            }
          )
          assert.isNull(yield* lifecycleOf(scene.project))
          const steps = ["plugin:sites", "plugin:sandbox", "finalize"]
          assert.deepStrictEqual(
            seen,
            steps.flatMap((step) => [`before ${step}`, `after ${step}`])
          )
        })
    )

    it.effect("SP-DEL-12 without a storage owner a Project cannot be previewed, admitted or deleted", () =>
      Effect.gen(function* () {
        const { caller, project } = yield* newProject
        const service = makeOwner("plugin:sites", "service", [])
        const attempts = [
          Effect.asVoid(previewDeletion(project)),
          Effect.asVoid(admitDeletion(caller, project, [])),
          Effect.asVoid(deleteProject(caller, project, []))
        ]
        assert.deepStrictEqual(yield* refusedIn([service], attempts), Array(3).fill("DeletionBlocked"))
        assert.strictEqual(yield* lifecycleOf(project), "active")
        assert.isTrue(Option.isNone(yield* recordOf(project)))
      })
    )

    for (const code of ["metadata_busy", "metadata_unreadable"]) {
      it.effect(
        `SP-DEL-06 an owner that answers ${code} is reported unavailable and nothing is admitted`,
        () =>
          Effect.gen(function* () {
            const { caller, project } = yield* newProject
            const owner = makeOwner("plugin:sandbox", "storage", ["/disks/1"], code)
            owner.fails = "describe"
            const refusal = yield* withOwners(
              [owner],
              Effect.flip(admitDeletion(caller, project, ["/disks/1"]))
            )
            assert.deepInclude(
              { ...refusal },
              { _tag: "DeletionOwnerUnavailable", participant: "plugin:sandbox", reason: code }
            )
            assert.strictEqual(yield* lifecycleOf(project), "active")
            assert.isTrue(Option.isNone(yield* recordOf(project)))
          })
      )
    }

    it.effect(
      "paths that were not confirmed, or are not the Project's, are refused and nothing is removed",
      () =>
        Effect.gen(function* () {
          const { caller, project } = yield* newProject
          const { storage } = twoOwners()
          const wrong = [
            { confirmed: ["/disks/1"], unconfirmed: ["/runtime/1"], unknown: [] },
            { confirmed: ["/disks/1", "/runtime/1", "/etc"], unconfirmed: [], unknown: ["/etc"] },
            { confirmed: ["/etc"], unconfirmed: ["/disks/1", "/runtime/1"], unknown: ["/etc"] }
          ]
          for (const { confirmed, ...difference } of wrong) {
            const attempt = deleteProject(caller, project, confirmed)
            const refusal = yield* withOwners([storage], Effect.flip(attempt))
            assert.deepInclude({ ...refusal }, { _tag: "ConfirmationStale", ...difference })
          }
          assert.deepStrictEqual(storage.calls, [])
          assert.strictEqual(yield* lifecycleOf(project), "active")
        })
    )

    it.effect("a path that appears after the admission is removed only once it is confirmed too", () =>
      Effect.gen(function* () {
        const { caller, project } = yield* newProject
        const { service, storage } = twoOwners()
        storage.fails = "remove"
        yield* withOwners(
          [service, storage],
          Effect.gen(function* () {
            const { paths } = yield* previewDeletion(project)
            yield* Effect.flip(deleteProject(caller, project, paths))
            storage.paths = ["/disks/1", "/disks/2"]
            const refusal = yield* Effect.flip(admitDeletion(caller, project, paths))
            assert.deepInclude({ ...refusal }, { unconfirmed: ["/disks/2"], unknown: [] })
            const joined = yield* admitDeletion(caller, project, ["/disks/1", "/disks/2"])
            assert.deepInclude(
              { ...joined },
              {
                completedSteps: ["plugin:sites"],
                confirmedPaths: ["/disks/1", "/disks/2", "/runtime/1", "/sites/1"],
                failureCode: null
              }
            )
          })
        )
      })
    )

    it.effect("who does not own the Project learns no path of it, and no owner is asked", () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        const { storage } = twoOwners()
        storage.fails = "describe"
        const callers = [yield* newAccount({ project, role: "member" }), yield* newStranger]
        const attempts = callers.map((caller) => admitDeletion(caller, project, []))
        assert.deepStrictEqual(yield* refusedIn([storage], attempts), ["AccessRefused", "AccessRefused"])
        assert.strictEqual(yield* lifecycleOf(project), "active")
      })
    )

    it.effect(
      "SP-DEL-11 a failing participant leaves the record pending, and asking again goes on there",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const { service, storage } = twoOwners()
          storage.fails = "remove"
          yield* withOwners(
            [service, storage],
            Effect.gen(function* () {
              const failure = yield* Effect.flip(previewAndDelete(scene))
              assert.deepInclude(
                { ...failure },
                { _tag: "DeletionFailed", participant: "plugin:sandbox", reason: "guest_failure" }
              )
              const record = Option.getOrThrow(yield* recordOf(scene.project))
              assert.deepInclude(
                { ...record },
                { state: "pending", failureCode: "guest_failure", completedSteps: ["plugin:sites"] }
              )
              assert.strictEqual(yield* lifecycleOf(scene.project), "deleting")
              storage.fails = null
              assert.strictEqual((yield* previewAndDelete(scene)).state, "completed")
              assert.deepStrictEqual(
                service.calls,
                ["plugin:sites"],
                "what was acknowledged is not run again"
              )
            })
          )
        })
    )
  })
})
