/** Removing worktrees over scripted guests, on a clone: what is decided before anything goes, and what is kept. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { finishLeftovers } from "../../../src/domain/worktrees/removal.ts"
import { workOnRepository } from "../../../src/domain/worktrees/repositoryWork.ts"
import { Clone } from "../../support/clone.ts"
import { admitDeletion, fixture, provisioned, type Scene } from "../removal/fixture.ts"
import { create, live, logged, remove, repository, scriptGit, stored } from "./scene.ts"

/** A removal that died: the row says that the worktree goes, and perhaps that nothing in it has to be kept. */
const diedRemoving = ({ project }: Scene, isDisposable: boolean) =>
  Effect.flatMap(Clone, ({ admin }) =>
    admin(
      `update plugin_sandbox.worktrees set state = 'removing', reason = 'r', removed_by = 'b', is_disposable = $2
        where project_id = $1`,
      [BigInt(project), isDisposable]
    )
  )

const withWorktree = Effect.gen(function* () {
  const scene = yield* provisioned
  yield* scriptGit()
  yield* create(scene)
  return scene
})

const nextHolder = ({ project }: Scene) => workOnRepository({ project, repository }, finishLeftovers)

describe("removeWorktree", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("SP-ADM-05 FC-22 a clean one is looked at and goes, and its end keeps who and why", () =>
      Effect.gen(function* () {
        const scene = yield* withWorktree
        const git = yield* scriptGit()
        yield* remove(scene)
        assert.deepStrictEqual(git.ran, ["check", "remove"])
        assert.deepStrictEqual(yield* stored(scene), [])
        const line = `worktree task of app is removed: it was asked for (${scene.caller.account})`
        assert.deepStrictEqual(yield* logged(scene), [line])
        assert.strictEqual((yield* Effect.flip(remove(scene))).code, "worktree_not_found")
      })
    )

    it.effect("one that holds what is nowhere else stays, and goes by force without a look", () =>
      Effect.gen(function* () {
        const scene = yield* withWorktree
        const git = yield* scriptGit({ check: Effect.succeed(46) })
        assert.strictEqual((yield* Effect.flip(remove(scene))).code, "worktree_dirty")
        assert.deepStrictEqual(yield* stored(scene), ["task ready"])
        assert.include(
          yield* logged(scene),
          "worktree task is kept: its removal was refused (worktree_dirty)"
        )
        yield* remove(scene, true)
        assert.deepStrictEqual(git.ran, ["check", "remove"])
        assert.deepStrictEqual(yield* stored(scene), [])
      })
    )

    it.effect("a removal that died before its look keeps what is nowhere else, and behind it goes on", () =>
      Effect.gen(function* () {
        const scene = yield* withWorktree
        const git = yield* scriptGit({ check: Effect.succeed(46) })
        yield* diedRemoving(scene, false)
        assert.strictEqual(yield* nextHolder(scene), 1)
        assert.deepStrictEqual(yield* stored(scene), ["task ready"])
        yield* diedRemoving(scene, true)
        assert.strictEqual(yield* nextHolder(scene), 1)
        assert.deepStrictEqual(git.ran, ["check", "remove"])
        assert.deepStrictEqual(yield* stored(scene), [])
      })
    )

    it.effect("a removal that git refuses goes on with the next holder of the repository", () =>
      Effect.gen(function* () {
        const scene = yield* withWorktree
        const git = yield* scriptGit({ remove: Effect.succeed(1) })
        assert.strictEqual((yield* Effect.flip(remove(scene))).code, "worktree_failed")
        assert.deepStrictEqual(yield* stored(scene), ["task removing"])
        git.steps.remove = Effect.succeed(0)
        yield* remove(scene)
        assert.deepStrictEqual(git.ran, ["check", "remove", "remove"])
        assert.deepStrictEqual(yield* stored(scene), [])
      })
    )

    it.effect("SP-ADM-02 a removal is refused once the deletion of the Project is admitted", () =>
      Effect.gen(function* () {
        const scene = yield* withWorktree
        const git = yield* scriptGit()
        const { paths } = yield* describeProjectRemoval(scene.project)
        yield* admitDeletion(scene, paths)
        assert.strictEqual((yield* Effect.flip(remove(scene))).code, "project_not_active")
        assert.deepStrictEqual([git.ran, yield* stored(scene)], [[], ["task ready"]])
      })
    )
  })
})
