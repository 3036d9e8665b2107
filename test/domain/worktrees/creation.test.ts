/** Making worktrees over scripted guests, on a clone: what is durable while git works, and what refuses it. */
import { assert, describe, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { randomUUID } from "node:crypto"
import { GuestFailure } from "../../../src/domain/guests/GuestSupervisor.ts"
import { SandboxId } from "../../../src/domain/Identity.ts"
import { RepositoryClaims } from "../../../src/domain/leases/RepositoryClaims.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { sweepWorktrees } from "../../../src/domain/worktrees/sweep.ts"
import { Clone } from "../../support/clone.ts"
import { withFaults } from "../../support/faults.ts"
import { sideBySide } from "../../support/sideBySide.ts"
import { holdingAfter, withFaultyStores } from "../host/hostFixture.ts"
import { admitDeletion, ask, fixture, provisioned, type Scene, settled } from "../removal/fixture.ts"
import { BranchName } from "../../../src/domain/worktrees/Worktree.ts"
import { base, create, live, logged, remove, scriptGit, stored, task } from "./scene.ts"

/** Between the claim of the repository, which is had, and the intent. */
const betweenClaimAndIntent =
  <M, ME, MR>(meanwhile: Effect.Effect<M, ME, MR>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const claims = yield* RepositoryClaims
      const context = yield* Effect.context<MR>()
      // What the test does meanwhile must not fail.
      const done = meanwhile.pipe(Effect.provideContext(context), Effect.orDie)
      return yield* Effect.provideService(effect, RepositoryClaims, {
        ...claims,
        claim: (asked) => Effect.tap(claims.claim(asked), () => done)
      })
    })

const holdingIntent = (held: Effect.Effect<void>) =>
  Effect.updateService(PluginDb, (db) => withFaults(db, holdingAfter("WorktreeRows.insert", held)))

const deleting = (scene: Scene) =>
  Effect.flatMap(describeProjectRemoval(scene.project), ({ paths }) => admitDeletion(scene, paths))

describe("createWorktree", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-ADM-01 SP-ADM-05 SP-TX-08 claim, lease and intent are durable while git works, and no transaction is open",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const during: Array<ReadonlyArray<string>> = []
          const seen = Effect.as(
            Effect.tap(stored(scene), (words) => Effect.sync(() => void during.push(words))),
            0
          ).pipe(Effect.provideContext(yield* Effect.context<Clone>()))
          const git = yield* scriptGit({ look: seen, add: seen })
          const made = yield* create(scene)
          assert.deepStrictEqual(
            [made.name, made.branch, made.state, made.branchBase],
            [task, BranchName.make(task), "ready", null]
          )
          const meanwhile = ["claim app", "lease git", "task creating"]
          assert.deepStrictEqual(during, [meanwhile, meanwhile])
          assert.deepStrictEqual(git.ran, ["look", `add ${base}`])
          assert.deepStrictEqual(yield* stored(scene), ["task ready"])
        })
    )

    it.effect(
      "SP-ADM-02 a deletion that is admitted between the claim and the intent refuses it, and nothing is begun",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const git = yield* scriptGit()
          const refused = yield* Effect.flip(create(scene).pipe(betweenClaimAndIntent(deleting(scene))))
          assert.deepInclude({ ...refused }, { _tag: "ProjectNotActive", project: scene.project })
          assert.deepStrictEqual([git.ran, yield* stored(scene)], [[], []])
        })
    )

    it.effect("SP-ADM-02 a deletion that locks the Project first makes the intent wait, and refuses it", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const git = yield* scriptGit()
        const { paths } = yield* describeProjectRemoval(scene.project)
        const { contender, holder, waited } = yield* sideBySide(
          (held) => withFaultyStores(holdingAfter("DeletionStore.admit", held), admitDeletion(scene, paths)),
          Effect.flip(create(scene))
        )
        assert.deepStrictEqual([waited, Exit.isSuccess(holder)], [true, true])
        if (Exit.isSuccess(contender))
          assert.deepInclude({ ...contender.value }, { _tag: "ProjectNotActive" })
        assert.deepStrictEqual([git.ran, yield* stored(scene)], [[], []])
      })
    )

    it.effect(
      "SP-ADM-02 SP-DEL-10 an intent that is written first makes the deletion wait, which then clears the worktree",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          yield* scriptGit()
          const { contender, holder, waited } = yield* sideBySide(
            (held) => create(scene).pipe(holdingIntent(held)),
            deleting(scene)
          )
          assert.deepStrictEqual(
            [waited, Exit.isSuccess(holder), Exit.isSuccess(contender)],
            [true, true, true]
          )
          assert.deepStrictEqual(yield* stored(scene), ["task ready"])
          yield* removeProject(scene.project)
          assert.deepStrictEqual(yield* stored(scene), [])
        })
    )

    it.effect("SP-ADM-04 a membership that is revoked between the claim and the intent refuses it", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const git = yield* scriptGit()
        const { admin } = yield* Clone
        const revoked = admin("update core.accounts set disabled = true where id = $1::uuid", [
          scene.caller.account
        ])
        const refused = yield* Effect.flip(create(scene).pipe(betweenClaimAndIntent(revoked)))
        yield* admin("update core.accounts set disabled = false where id = $1::uuid", [scene.caller.account])
        assert.deepInclude({ ...refused }, { _tag: "AccessRefused" })
        assert.deepStrictEqual([git.ran, yield* stored(scene)], [[], []])
      })
    )

    it.effect("SP-LEASE-07 a machine that is replaced between the claim and the intent refuses it", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const git = yield* scriptGit()
        const { admin } = yield* Clone
        const replaced = admin(
          "update plugin_sandbox.runtimes set generation = 2, sandbox_id = $2 where project_id = $1::bigint",
          [BigInt(scene.project), SandboxId.make(`sb-${randomUUID()}`)]
        )
        const refused = yield* Effect.flip(create(scene).pipe(betweenClaimAndIntent(replaced)))
        assert.deepInclude({ ...refused }, { _tag: "LeaseLost", reason: "generation" })
        assert.deepStrictEqual(git.ran, [])
        assert.deepStrictEqual([yield* stored(scene), yield* logged(scene)], [[], []], "nothing was intended")
      })
    )

    it.effect("SP-LEASE-07 nothing more is begun once the claim is a successor's", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { admin } = yield* Clone
        const succeeded = admin(
          "update plugin_sandbox.repository_claims set process = 'somebody/else' where project_id = $1::bigint",
          [BigInt(scene.project)]
        )
        const git = yield* scriptGit({ look: Effect.as(succeeded, 0) })
        const refused = yield* Effect.flip(create(scene))
        assert.deepInclude({ ...refused }, { _tag: "LeaseLost", reason: "successor" })
        assert.deepStrictEqual(git.ran, ["look"])
        yield* admin("delete from plugin_sandbox.repository_claims where project_id = $1::bigint", [
          BigInt(scene.project)
        ])
        yield* sweepWorktrees()
      })
    )

    it.effect(
      "FC-12 SP-LEASE-07 a maker whose claim is a successor's writes nothing, and takes nothing from him",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const { admin } = yield* Clone
          const [process, claim] = ["somebody/else", randomUUID()]
          const succeeded = Effect.andThen(
            admin(
              "update plugin_sandbox.repository_claims set id = $2::uuid, process = $3 where project_id = $1::bigint",
              [BigInt(scene.project), claim, process]
            ),
            admin("update plugin_sandbox.worktrees set claim_id = $2::uuid where project_id = $1::bigint", [
              BigInt(scene.project),
              claim
            ])
          )
          const git = yield* scriptGit({ add: Effect.as(succeeded, 0) })
          const refused = yield* Effect.flip(create(scene))
          assert.deepInclude({ ...refused }, { _tag: "LeaseLost", reason: "successor" })
          assert.deepStrictEqual(git.ran, ["look", `add ${base}`])
          const kept = yield* admin(
            "select claim_id::text, state from plugin_sandbox.worktrees where project_id = $1",
            [BigInt(scene.project)]
          )
          assert.deepStrictEqual(kept, [{ claim_id: claim, state: "creating" }])
          assert.deepStrictEqual(yield* stored(scene), ["claim app", "task creating"])
        })
    )

    it.effect("what git refuses is taken back at once; a place or a branch of somebody else's is not", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const table = [
          [{ look: 45 }, "branch_in_use", ["look"]],
          [{ add: 42 }, "worktree_path_taken", ["look", `add ${base}`]],
          [{ add: 48 }, "worktree_failed", ["look", `add ${base}`, "remove"]],
          [{ add: 128 }, "worktree_failed", ["look", `add ${base}`, `remove ${base}`]]
        ] as const
        for (const [exits, code, ran] of table) {
          const git = yield* scriptGit(
            Object.fromEntries(Object.entries(exits).map(([step, exit]) => [step, Effect.succeed(exit)]))
          )
          assert.strictEqual((yield* Effect.flip(create(scene))).code, code)
          assert.deepStrictEqual(git.ran, [...ran])
          assert.deepStrictEqual(yield* stored(scene), [])
        }
        assert.include(
          yield* logged(scene),
          "worktree task of app is removed: its making came to nothing (system)"
        )
      })
    )

    it.effect("who hangs up leaves a half made one to the sweep, and neither lease nor claim", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const begun = yield* Deferred.make<void>()
        const git = yield* scriptGit({
          add: Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
        })
        const making = yield* Effect.forkChild(create(scene))
        yield* Deferred.await(begun)
        yield* Fiber.interrupt(making)
        assert.deepStrictEqual(yield* stored(scene), ["task creating"])
        assert.deepInclude(yield* sweepWorktrees(), { attempted: 1, done: 1 })
        assert.deepStrictEqual(git.ran, ["look", `add ${base}`, `remove ${base}`])
        assert.deepStrictEqual(yield* stored(scene), [])
      })
    )

    it.effect(
      "SP-LEASE-06 where git is not known to have ended nothing is taken back, until its guest is proved gone",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const sandbox = SandboxId.make(`sb-${randomUUID()}`)
          const git = yield* scriptGit({
            add: Effect.fail(new GuestFailure({ sandbox, step: "execute", detail: "the answer is lost" }))
          })
          assert.strictEqual((yield* Effect.flip(create(scene))).code, "guest_failure")
          const left = ["claim app", "lease git", "task creating"]
          assert.deepStrictEqual(yield* stored(scene), left)
          assert.deepInclude(yield* sweepWorktrees(), { attempted: 0 })
          assert.deepStrictEqual(yield* stored(scene), left, "who may still write is left alone")
          yield* Effect.flatMap(ask(scene, "stop"), settled)
          assert.deepStrictEqual(yield* stored(scene), ["task creating"])
          assert.deepInclude(yield* sweepWorktrees(), { attempted: 0 })
          yield* Effect.flatMap(ask(scene, "start"), settled)
          assert.deepInclude(yield* sweepWorktrees(), { attempted: 1, done: 1 })
          assert.deepStrictEqual(yield* stored(scene), [])
          assert.deepStrictEqual(git.ran, ["look", `add ${base}`, `remove ${base}`])
          git.steps.add = Effect.succeed(0)
          yield* create(scene)
          yield* remove(scene)
        })
    )
  })
})
