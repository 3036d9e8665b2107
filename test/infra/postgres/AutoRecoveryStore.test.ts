import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Generation } from "../../../src/domain/Identity.ts"
import { AutoRecoveryStore } from "../../../src/domain/operations/AutoRecoveryStore.ts"
import * as Adapter from "../../../src/infra/postgres/AutoRecoveryStore.ts"
import { fixture, newProject, nodeHere, provisioned, queued, rows } from "./operationsFixture.ts"

const live = { excludeTestServices: true } as const

const wanted = (observed: string) =>
  Effect.gen(function* () {
    const { project } = yield* newProject
    yield* provisioned(project, observed)
    yield* rows("update runtimes set desired = 'running' where project_id = $1::bigint", [project])
    return { project, generation: Generation.make(1) }
  })

const watched = Effect.gen(function* () {
  const store = yield* AutoRecoveryStore
  return yield* store.watched({ node: nodeHere, after: 0, limit: 1_000 })
})

const find = (project: number) => Effect.map(watched, (all) => all.find((each) => each.project === project))

layer(Adapter.layer.pipe(Layer.provideMerge(fixture)), live)("postgres/AutoRecoveryStore", (it) => {
  it.effect("FC-11 what is remembered is told in the database's own time", () =>
    Effect.gen(function* () {
      const store = yield* AutoRecoveryStore
      const runtime = yield* wanted("failed")
      assert.deepInclude(yield* find(runtime.project), {
        desired: "running",
        observed: "failed",
        isBusy: false,
        attempts: 0,
        dueInMillis: null,
        runningForMillis: null
      })
      yield* store.count(runtime)
      yield* store.schedule(runtime, 120)
      const scheduled = yield* find(runtime.project)
      assert.strictEqual(scheduled?.attempts, 1)
      // A time is stored to the millisecond.
      assert.isAtMost(scheduled?.dueInMillis ?? Infinity, 120_001)
      assert.isAbove(scheduled?.dueInMillis ?? 0, 100_000)
      yield* store.noteRunning(runtime)
      const running = yield* find(runtime.project)
      assert.strictEqual(running?.dueInMillis, null)
      assert.isAtLeast(running?.runningForMillis ?? -1, 0)
      const first = running!.runningForMillis!
      yield* store.noteRunning(runtime)
      assert.isAtLeast((yield* find(runtime.project))?.runningForMillis ?? -1, first)
      yield* store.reset(runtime)
      assert.deepInclude(yield* find(runtime.project), { attempts: 0, runningForMillis: null })
    })
  )

  it.effect("FC-11 a start that the clock has stepped back behind is zero milliseconds ago", () =>
    Effect.gen(function* () {
      const store = yield* AutoRecoveryStore
      const runtime = yield* wanted("failed")
      yield* store.noteRunning(runtime)
      yield* rows(
        "update runtimes set running_since = now() + interval '1 hour' where project_id = $1::bigint",
        [runtime.project]
      )
      assert.strictEqual((yield* find(runtime.project))?.runningForMillis, 0)
    })
  )

  it.effect("nothing is written for a machine that was replaced meanwhile", () =>
    Effect.gen(function* () {
      const store = yield* AutoRecoveryStore
      const { project } = yield* wanted("failed")
      const before = yield* find(project)
      const late = { project, generation: Generation.make(2) }
      yield* Effect.all([store.count(late), store.schedule(late, 1), store.noteRunning(late)])
      assert.deepStrictEqual(yield* find(project), before)
    })
  )

  it.effect("a busy runtime says so; one without a machine and one of another node are not told", () =>
    Effect.gen(function* () {
      const { project } = yield* queued
      yield* rows("update runtimes set desired = 'running' where project_id = $1::bigint", [project])
      assert.isTrue((yield* find(project))?.isBusy)
      yield* rows("update runtimes set node_id = null where project_id = $1::bigint", [project])
      assert.isUndefined(yield* find(project))
      const bare = yield* newProject
      yield* rows(
        "insert into runtimes (project_id, node_id, desired) values ($1::bigint, $2::uuid, 'running')",
        [bare.project, nodeHere]
      )
      assert.isUndefined(yield* find(bare.project))
    })
  )

  it.effect("pages follow each other in the order of the Projects", () =>
    Effect.gen(function* () {
      const store = yield* AutoRecoveryStore
      for (let count = 0; count < 3; count += 1) yield* wanted("failed")
      const all = yield* watched
      const paged: typeof all = yield* Effect.map(
        Effect.forEach(all, (_, index) =>
          store.watched({ node: nodeHere, after: index === 0 ? 0 : all[index - 1]!.project, limit: 1 })
        ),
        (pages) => pages.flat()
      )
      assert.deepStrictEqual(
        paged.map(({ project }) => project),
        all.map(({ project }) => project)
      )
    })
  )
})
