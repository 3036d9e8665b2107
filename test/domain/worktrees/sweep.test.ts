/** The sweep of worktrees over scripted guests: whom it leaves alone, and what it counts. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { sweepWorktrees } from "../../../src/domain/worktrees/sweep.ts"
import { workOnRepository } from "../../../src/domain/worktrees/repositoryWork.ts"
import { Clone } from "../../support/clone.ts"
import { sleepless } from "../leases/claims.ts"
import { fixture, provisioned, type Scene } from "../removal/fixture.ts"
import { create, live, repository, scriptGit, stored } from "./scene.ts"

const halfMade = Effect.gen(function* () {
  const scene = yield* provisioned
  yield* scriptGit()
  yield* create(scene)
  yield* Effect.flatMap(Clone, ({ admin }) =>
    admin("update plugin_sandbox.worktrees set state = 'creating' where project_id = $1", [
      BigInt(scene.project)
    ])
  )
  return scene
})

const worksOn = ({ project }: Scene) => workOnRepository({ project, repository }, () => sweepWorktrees())

describe("sweepWorktrees", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("a repository that somebody works on is left to him, and finished when he is not there", () =>
      Effect.gen(function* () {
        const scene = yield* halfMade
        const git = yield* scriptGit()
        const clock = yield* sleepless()
        assert.deepStrictEqual(yield* worksOn(scene).pipe(clock.provide), {
          attempted: 0,
          done: 0,
          failed: 0
        })
        assert.strictEqual(clock.sleptMillis(), 0, "nobody waits for him")
        assert.deepStrictEqual([git.ran, yield* stored(scene)], [[], ["task creating"]])
        assert.deepStrictEqual(yield* sweepWorktrees(), { attempted: 1, done: 1, failed: 0 })
        assert.deepStrictEqual([git.ran, yield* stored(scene)], [["remove"], []])
        assert.deepStrictEqual(yield* sweepWorktrees(), { attempted: 0, done: 0, failed: 0 })
      })
    )

    it.effect("FC-05 one that fails is counted, keeps no other waiting, and is tried again", () =>
      Effect.gen(function* () {
        const [first, second] = [yield* halfMade, yield* halfMade]
        let failures = 1
        const failingOnce = Effect.sync(() => (failures-- > 0 ? 1 : 0))
        yield* scriptGit({ remove: failingOnce })
        assert.deepStrictEqual(yield* sweepWorktrees(), { attempted: 2, done: 1, failed: 1 })
        const left = [...(yield* stored(first)), ...(yield* stored(second))]
        assert.deepStrictEqual(left, ["task removing"])
        assert.deepStrictEqual(yield* sweepWorktrees(), { attempted: 1, done: 1, failed: 0 })
      })
    )

    it.effect("of a guest that does not run nothing is asked", () =>
      Effect.gen(function* () {
        const scene = yield* halfMade
        const git = yield* scriptGit()
        const observed = (state: string) =>
          Effect.flatMap(Clone, ({ admin }) =>
            admin("update plugin_sandbox.runtimes set observed = $2 where project_id = $1", [
              BigInt(scene.project),
              state
            ])
          )
        yield* observed("stopped")
        assert.deepInclude(yield* sweepWorktrees(), { attempted: 0 })
        yield* observed("running")
        assert.deepInclude(yield* sweepWorktrees(), { attempted: 1 })
        assert.deepStrictEqual(git.ran, ["remove"])
      })
    )
  })
})
