/** Deletions that were cut off, met another run, or wait in a long queue, on a clone with scripted participants. */
import { assert, describe, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import {
  deletionOperatorRetrySeconds,
  deletionPassMillisMax,
  deletionsPageMax,
  deletionUnattendedTriesMax
} from "../../../src/domain/Bounds.ts"
import { DeletionStore, needsOperator } from "../../../src/domain/host/DeletionStore.ts"
import type { Participant } from "../../../src/domain/host/Participants.ts"
import {
  admitDeletion,
  continueDeletions,
  deleteProject,
  previewDeletion,
  runDeletion
} from "../../../src/domain/host/projectDeletion.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { Clone } from "../../support/clone.ts"
import { everyStep } from "../../support/everyStep.ts"
import type { Faults } from "../../support/faults.ts"
import { makeBarrier } from "../../support/sideBySide.ts"
import {
  fixture,
  lifecycleOf,
  live,
  makeOwner,
  newProject,
  type Owner,
  twoOwners,
  withFaultyStores,
  withOwners
} from "./hostFixture.ts"

const recordOf = (project: ProjectId) => DeletionStore.use((store) => store.byProject(project))

const previewAndDelete = ({ caller, project }: Effect.Success<typeof newProject>) =>
  Effect.flatMap(previewDeletion(project), ({ paths }) => deleteProject(caller, project, paths))

/** The owner, asked for its removal as a step of the program. */
const stepping = (owner: Owner, faults: Faults): Participant => ({
  ...owner,
  remove: (project) =>
    faults.step(owner.name, owner.remove(project), () => ({
      _tag: "Scripted",
      code: "guest_failure",
      message: "it was told to fail"
    }))
})

/** Deletions that need an operator, as the metrics tell it. */
const gauge = Effect.map(Metric.snapshot, (metrics) => {
  const found = metrics.find(({ id }) => id === "holdfast_deletions_need_operator")
  return found !== undefined && "value" in found.state ? Number(found.state.value) : undefined
})

describe("host/projectDeletion, continued", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-DEL-11 a host that fails or dies at any statement or removal is followed by one that finishes",
      () =>
        Effect.gen(function* () {
          const steps = yield* everyStep({
            kinds: ["failAt", "crashAfter"],
            program: (faults) =>
              Effect.gen(function* () {
                const scene = yield* newProject
                const { service, storage } = twoOwners()
                const owners = [stepping(service, faults), stepping(storage, faults)]
                const exit = yield* Effect.exit(
                  withFaultyStores(faults, withOwners(owners, previewAndDelete(scene)))
                )
                return { ...scene, service, storage, exit }
              }),
            check: ({ exit, fault }) =>
              Effect.gen(function* () {
                if (Exit.isFailure(exit)) return yield* exit
                const { project, service, storage } = exit.value
                const at = fault === null ? "no fault" : `${fault.kind} ${fault.step} (${fault.occurrence})`
                if (Option.isNone(yield* recordOf(project))) {
                  assert.strictEqual(yield* lifecycleOf(project), "active", at)
                  return assert.deepStrictEqual([service.calls, storage.calls], [[], []], at)
                }
                yield* withOwners([service, storage], continueDeletions())
                const record = Option.getOrThrow(yield* recordOf(project))
                assert.strictEqual(record.state, "completed", at)
                assert.deepStrictEqual(record.completedSteps, ["plugin:sites", "plugin:sandbox"], at)
                assert.deepStrictEqual(record.proofs, ["plugin:sites is gone", "plugin:sandbox is gone"], at)
                assert.isNull(yield* lifecycleOf(project), at)
              })
          })
          assert.includeMembers(steps, ["DeletionStore.admit", "plugin:sites", "DeletionStore.project"])
        }),
      60_000
    )

    it.effect("a run whose step fails because another one has finished the deletion answers its record", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        const barrier = yield* makeBarrier("the slow run's removal")
        const { storage } = twoOwners()
        const slow = makeOwner("plugin:sandbox", "storage", storage.paths, "removal_not_admitted")
        slow.fails = "remove"
        const held = { ...slow, remove: (id: ProjectId) => Effect.andThen(barrier.arrive, slow.remove(id)) }
        const { paths } = yield* withOwners([storage], previewDeletion(scene.project))
        const record = yield* withOwners([storage], admitDeletion(scene.caller, scene.project, paths))
        const late = yield* Effect.forkChild(withOwners([held], runDeletion(record)))
        yield* barrier.reached
        yield* withOwners([storage], runDeletion(record))
        yield* barrier.open
        const learned = yield* Fiber.join(late)
        assert.deepInclude({ ...learned }, { state: "completed", proofs: ["plugin:sandbox is gone"] })
        assert.deepStrictEqual(slow.calls, ["plugin:sandbox"])
      })
    )

    it.effect(
      "every pending deletion is gone on with, the oldest first, past one that fails and past a page",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* Clone
          yield* admin("update core.project_deletions set participants = '{}' where state = 'pending'")
          const count = deletionsPageMax + 2
          const made = yield* admin(
            `with project as (insert into core.projects (tenant_id, name, lifecycle)
              select id, 'many-' || n, 'deleting' from core.tenants, generate_series(1, $1::int) n
              where core.tenants.name = 'local' returning id, tenant_id, name)
            insert into core.project_deletions
              (project_id, tenant_id, project_name, state, participants, confirmed_paths, requested_at)
            select id, tenant_id, name, 'pending', '{plugin:sandbox}', '{}', now() - id * interval '1 second'
            from project returning project_id::int as id`,
            [count]
          )
          const expected = made.map((row) => Number(row["id"])).toSorted((left, right) => right - left)
          const asked: Array<number> = []
          const owner: Participant = {
            ...twoOwners().storage,
            remove: (project) =>
              Effect.suspend(() => {
                asked.push(project)
                return project === expected[0]
                  ? Effect.fail({ _tag: "Scripted", code: "guest_failure", message: "it was told to fail" })
                  : Effect.succeed({ paths: [], proofs: [] })
              })
          }
          const counted = yield* withOwners([owner], continueDeletions())
          assert.deepStrictEqual(counted, { attempted: count, done: count - 1, failed: 1 })
          assert.deepStrictEqual(asked, expected)
          const left = yield* admin(
            "select project_id::int as id, failure_code from core.project_deletions where state = 'pending'"
          )
          assert.deepStrictEqual(left, [{ id: expected[0], failure_code: "guest_failure" }])
        })
    )

    it.effect(
      "FC-09 a deletion that stops five times raises one alert and is tried on, each half hour, until it is asked for",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* Clone
          yield* admin("update core.project_deletions set participants = '{}' where state = 'pending'")
          yield* withOwners([twoOwners().storage], continueDeletions())
          const scene = yield* newProject
          const { storage } = twoOwners()
          storage.fails = "remove"
          const due = DeletionStore.use((store) =>
            Effect.map(store.due(null), (page) => page.map((record) => record.project))
          )
          const alerts = Effect.map(
            admin(
              "select message from core.alerts where kind = 'deletion_needs_operator' and project_id = $1::bigint",
              [scene.project]
            ),
            (rows) => rows.map((row) => String(row["message"]))
          )
          const pass = withOwners([storage], continueDeletions())
          const asked = withOwners([storage], Effect.exit(previewAndDelete(scene)))
          assert.isTrue(Exit.isFailure(yield* asked))
          for (let tried = 1; tried < deletionUnattendedTriesMax; tried++) {
            assert.deepStrictEqual([yield* due, yield* alerts], [[scene.project], []], `after ${tried}`)
            yield* pass
          }
          const stuck = Option.getOrThrow(yield* recordOf(scene.project))
          assert.isTrue(needsOperator(stuck))
          assert.match((yield* alerts)[0] ?? "", /stopped 5 times.+plugin:sandbox \(guest_failure\)/)
          yield* pass
          assert.lengthOf(storage.calls, deletionUnattendedTriesMax)
          assert.strictEqual(yield* gauge, 1)

          const pastBy = (seconds: number) =>
            admin(
              "update core.project_deletions set failed_at = now() - make_interval(secs => $2::int) where project_id = $1::bigint",
              [scene.project, seconds]
            )
          yield* pastBy(deletionOperatorRetrySeconds - 60)
          assert.deepStrictEqual(yield* due, [])
          // A second more: the column rounds to a millisecond.
          yield* pastBy(deletionOperatorRetrySeconds + 1)
          yield* pass
          assert.lengthOf(storage.calls, deletionUnattendedTriesMax + 1)
          assert.deepStrictEqual([yield* due, (yield* alerts).length], [[], 1])

          yield* asked
          assert.lengthOf(storage.calls, deletionUnattendedTriesMax + 2)
          assert.strictEqual(Option.getOrThrow(yield* recordOf(scene.project)).attempts, 1)
          storage.fails = null
          yield* pass
          assert.isNull(yield* lifecycleOf(scene.project))
          assert.strictEqual(yield* gauge, 0)
          assert.isFalse(needsOperator(Option.getOrThrow(yield* recordOf(scene.project))))
        })
    )

    it.effect("FC-09 a pass leaves a deletion that does not come to an end, and goes on with the next", () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        yield* admin("update core.project_deletions set participants = '{}' where state = 'pending'")
        yield* withOwners([twoOwners().storage], continueDeletions())
        const [first, second] = [yield* newProject, yield* newProject]
        const { storage } = twoOwners()
        for (const scene of [first, second]) {
          yield* withOwners([storage], admitDeletion(scene.caller, scene.project, storage.paths))
        }
        const barrier = yield* makeBarrier("the endless removal")
        const endless: Participant = {
          ...storage,
          remove: (project) =>
            project === first.project ? Effect.andThen(barrier.arrive, Effect.never) : storage.remove(project)
        }
        const clock = yield* TestClock.make()
        const pass = yield* Effect.forkChild(
          withOwners([endless], continueDeletions()).pipe(Effect.provideService(Clock.Clock, clock))
        )
        yield* barrier.reached
        yield* barrier.open
        yield* clock.adjust(deletionPassMillisMax - 1)
        assert.strictEqual(yield* lifecycleOf(second.project), "deleting")
        yield* clock.adjust(1)
        assert.deepStrictEqual(yield* Fiber.join(pass), { attempted: 1, done: 1, failed: 0 })
        assert.strictEqual(yield* lifecycleOf(first.project), "deleting")
        assert.isNull(yield* lifecycleOf(second.project))
      })
    )
  })
})
