/** Rows of worktrees on a clone: every outcome names the claim under which the work was done. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { projectWorktreesMax } from "../../../src/domain/Bounds.ts"
import { Generation, LeaseId } from "../../../src/domain/Identity.ts"
import { RepositoryName } from "../../../src/domain/leases/RepositoryClaim.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { BranchName, type Worktree, WorktreeName } from "../../../src/domain/worktrees/Worktree.ts"
import { WorktreeRows } from "../../../src/domain/worktrees/WorktreeRows.ts"
import * as WorktreeRowsAdapter from "../../../src/infra/postgres/WorktreeRows.ts"
import { fixture, newProject, rows } from "./operationsFixture.ts"

const repository = RepositoryName.make("app")
const generation = Generation.make(1)
const newClaim = () => LeaseId.make(randomUUID())

const withRuntime = Effect.gen(function* () {
  const { project } = yield* newProject
  yield* (yield* RuntimeStore).createIfMissing(project)
  const intended = (name: string, claim = newClaim()) => ({
    project,
    repository,
    name: WorktreeName.make(name),
    branch: BranchName.make(name),
    generation,
    claim,
    account: null
  })
  return { project, intended, store: yield* WorktreeRows }
})

const made = (answer: Worktree | string): Worktree => {
  if (typeof answer === "string") throw new Error(answer)
  return answer
}

const one = Effect.gen(function* () {
  const scene = yield* withRuntime
  return { ...scene, row: made(yield* scene.store.insert(scene.intended("a"))) }
})

/** The repository is claimed under that id. */
const claimed = ({ project }: Pick<Worktree, "project">, claim: LeaseId, name = "app") =>
  rows(
    `insert into repository_claims (id, project_id, repository, generation, sandbox_id, process)
      values ($2::uuid, $1::bigint, $3, 1, 's', 'p') on conflict (project_id, repository) do update set id = excluded.id`,
    [project, claim, name]
  )

const end = { by: "somebody", reason: "asked", isDisposable: false }

layer(WorktreeRowsAdapter.layer.pipe(Layer.provideMerge(fixture)), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("WorktreeRows", (it) => {
  it.effect(
    "a name is given once a Project, in whatever repository, and what was written is read again",
    () =>
      Effect.gen(function* () {
        const { intended, project, row, store } = yield* one
        assert.strictEqual(
          yield* store.insert({ ...intended("a"), repository: RepositoryName.make("other") }),
          "worktree_exists"
        )
        made(yield* store.insert(intended("b")))
        assert.deepStrictEqual(
          (yield* store.ofProject(project)).map(({ name, state }) => `${name} ${state}`),
          ["a creating", "b creating"]
        )
        assert.deepStrictEqual(Option.getOrThrow(yield* store.byName(project, row.name)), row)
        assert.lengthOf(yield* store.unfinishedOf(project, repository), 2)
        assert.lengthOf(yield* store.unfinishedOf(project, RepositoryName.make("other")), 0)
      })
  )

  it.effect("FC-12 only who holds its claim writes how the making of a worktree goes on", () =>
    Effect.gen(function* () {
      const { row, store } = yield* one
      const stranger = { ...row, claim: newClaim() }
      const making = { isBegun: true, branchBase: "0".repeat(40) }
      assert.isFalse(yield* store.noteMaking(stranger, making))
      assert.isTrue(yield* store.noteMaking(row, making))
      assert.isTrue(Option.isNone(yield* store.markReady(stranger)))
      const ready = Option.getOrThrow(yield* store.markReady(row))
      assert.deepInclude(ready, { state: "ready", branchBase: null, isBegun: true })
      assert.isFalse(yield* store.noteMaking(row, making), "it is made")
      assert.isTrue(Option.isNone(yield* store.markReady(row)), "only once")
    })
  )

  it.effect(
    "FC-12 only who holds its claim writes how a removal goes on, and only what may go is forgotten",
    () =>
      Effect.gen(function* () {
        const { project, row, store } = yield* one
        yield* store.noteMaking(row, { isBegun: true, branchBase: null })
        yield* store.markReady(row)
        assert.isFalse(yield* store.remove(row), "one that is there is not forgotten")
        const claim = newClaim()
        const going = Option.getOrThrow(
          yield* store.markRemoving(project, row.name, { claim, generation, ...end })
        )
        assert.deepInclude(going, { state: "removing", claim, removedBy: "somebody", reason: "asked" })
        assert.isTrue(
          Option.isNone(yield* store.markRemoving(project, row.name, { claim, generation, ...end }))
        )
        assert.isFalse(yield* store.keep(row))
        assert.isTrue(yield* store.keep(going))
        yield* store.markRemoving(project, row.name, { claim, generation, ...end })
        assert.isFalse(yield* store.markDisposable(row))
        assert.isTrue(yield* store.markDisposable(going))
        assert.isFalse(yield* store.keep(going), "it may be half gone by now")
        assert.isFalse(yield* store.remove(row))
        assert.isTrue(yield* store.remove(going))
      })
  )

  it.effect(
    "FC-12 a half made one is taken over once, by who has claimed its repository, and goes then",
    () =>
      Effect.gen(function* () {
        const { row, store } = yield* one
        const [claim, other] = [newClaim(), newClaim()]
        const by = { claim, generation, ...end, isDisposable: true }
        assert.isTrue(Option.isNone(yield* store.takeOver(row, by)), "it is not claimed")
        yield* claimed(row, claim, "other")
        assert.isTrue(Option.isNone(yield* store.takeOver(row, by)), "another repository is")
        yield* rows("delete from repository_claims where id = $1::uuid", [claim])
        yield* claimed(row, claim)
        const taken = Option.getOrThrow(yield* store.takeOver(row, by))
        assert.deepInclude(taken, { state: "removing", isDisposable: true, claim, removedBy: "somebody" })
        yield* claimed(row, other)
        assert.isTrue(Option.isNone(yield* store.takeOver(row, { ...by, claim: other })), "it has moved on")
        const next = Option.getOrThrow(
          yield* store.takeOver(taken, { ...by, claim: other, by: "x", reason: "y", isDisposable: false })
        )
        assert.deepInclude(next, { claim: other, removedBy: "somebody", reason: "asked", isDisposable: true })
      })
  )

  it.effect("FC-15 one worktree beyond the bound is refused, and other Projects have theirs", () =>
    Effect.gen(function* () {
      const { intended, project, store } = yield* withRuntime
      yield* rows(
        `insert into worktrees (project_id, repository, name, branch, generation, claim_id)
          select $1::bigint, 'app', 'w' || n, 'w', 1, gen_random_uuid() from generate_series(1, $2::int) n`,
        [project, projectWorktreesMax - 1]
      )
      made(yield* store.insert(intended("last")))
      assert.strictEqual(yield* store.insert(intended("one-more")), "worktrees_full")
      const past = yield* Effect.flip(
        rows(
          `insert into worktrees (project_id, repository, name, branch, generation, claim_id)
            values ($1::bigint, 'app', 'past', 'w', 1, gen_random_uuid())`,
          [project]
        )
      )
      assert.deepInclude(past, { fault: "refused", state: "HF003" })
      const other = yield* withRuntime
      made(yield* other.store.insert(other.intended("a")))
    })
  )
})
