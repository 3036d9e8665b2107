import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Generation } from "../../../src/domain/Identity.ts"
import { type PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { type BoundRuntimeStore, RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import {
  fixture,
  newProject,
  nodeHere,
  provisioned,
  recipeOf,
  rows,
  self,
  value
} from "./operationsFixture.ts"

const first = Generation.make(1)
const second = Generation.make(2)

const backend = (tx: PluginTx["Service"]) =>
  Effect.map(
    tx.query({
      operation: "test",
      text: "select pg_backend_pid() as pid, pg_current_xact_id()::text as xid"
    }),
    ([row]) => row
  )

describe("RuntimeStore", () => {
  layer(fixture, { excludeTestServices: true })((it) => {
    it.effect("SP-TX-01 the bound store writes on the very connection and transaction of its PluginTx", () =>
      Effect.gen(function* () {
        const store = yield* RuntimeStore
        assert.strictEqual(store.process.toString(), self.toString())
        const { project } = yield* newProject
        const writer = yield* store.transaction("test", (bound) =>
          Effect.gen(function* () {
            const tx = yield* PluginTx
            assert.isTrue(yield* bound.createIfMissing(project))
            const seen = Option.getOrThrow(yield* bound.runtime(project))
            assert.deepInclude(seen, { project, generation: first, observed: "unprovisioned", recipe: null })
            return yield* backend(tx)
          })
        )
        const written = yield* value("select xmin::text from runtimes where project_id = $1::bigint", [
          project
        ])
        // The lock of the read left its mark in xmax; xmin is who inserted.
        assert.strictEqual(written, String(writer?.xid))
      })
    )

    it.effect("SP-TX-01 what the bound store wrote is undone when the body fails", () =>
      Effect.gen(function* () {
        const store = yield* RuntimeStore
        const { project } = yield* newProject
        const failed = yield* Effect.flip(
          store.transaction("test", (bound) =>
            Effect.andThen(bound.createIfMissing(project), Effect.fail("no" as const))
          )
        )
        assert.strictEqual(failed, "no")
        assert.isTrue(Option.isNone(yield* store.runtime(project)))
      })
    )

    it.effect("SP-TX-03 a bound store kept beyond its transaction fails with a typed error", () =>
      Effect.gen(function* () {
        const store = yield* RuntimeStore
        const { project } = yield* newProject
        const kept: BoundRuntimeStore = yield* store.transaction("test", (bound) => Effect.succeed(bound))
        assert.strictEqual((yield* Effect.flip(kept.createIfMissing(project)))._tag, "TransactionEnded")
        assert.isTrue(Option.isNone(yield* store.runtime(project)))
      })
    )

    it.effect("SP-TX-04 SP-TX-05 a bound read locks the runtime's row, a read-only one does not", () =>
      Effect.gen(function* () {
        const store = yield* RuntimeStore
        const context = yield* Effect.context<PluginDb>()
        const { project } = yield* newProject
        yield* provisioned(project)
        // Asked on another connection, in a fiber that has no transaction.
        const free = Effect.promise(() =>
          Effect.runPromiseWith(context)(
            rows("select 1 from runtimes where project_id = $1::bigint for update skip locked", [project])
          )
        )
        yield* store.transaction("test", (bound) =>
          Effect.gen(function* () {
            yield* bound.runtime(project)
            assert.strictEqual((yield* free).length, 0)
          })
        )
        yield* store.snapshot("test", (bound) =>
          Effect.gen(function* () {
            assert.isTrue(Option.isSome(yield* bound.runtime(project)))
            assert.strictEqual((yield* free).length, 1)
          })
        )
      })
    )

    it.effect("a write under another generation moves nothing and says so", () =>
      Effect.gen(function* () {
        const store = yield* RuntimeStore
        const { project } = yield* newProject
        const recipe = yield* provisioned(project)
        const before = yield* store.runtime(project)
        const late = [
          store.observe(project, { generation: second, observed: "failed", reason: "late" }),
          store.begin(project, {
            generation: second,
            desired: "stopped",
            isManual: false,
            observedMeanwhile: "starting"
          }),
          store.saveRecipe(project, { generation: second, recipe: recipeOf(2) }),
          store.replaceMachine(project, { from: second, recipe: recipeOf(3) }),
          store.replaceMachine(project, { from: first, recipe: recipeOf(3) }),
          store.remove(project, second)
        ]
        assert.deepStrictEqual(
          yield* Effect.all(late),
          late.map(() => false)
        )
        assert.deepStrictEqual(yield* store.runtime(project), before)
        assert.deepStrictEqual(Option.getOrThrow(before).recipe, recipe)
      })
    )

    it.effect(
      "a replaced machine has the next generation and its own recipe, and locks out the old writers",
      () =>
        Effect.gen(function* () {
          const store = yield* RuntimeStore
          const { project } = yield* newProject
          yield* provisioned(project)
          const recipe = recipeOf(2)
          assert.isTrue(yield* store.replaceMachine(project, { from: first, recipe }))
          assert.isFalse(
            yield* store.observe(project, { generation: first, observed: "stopped", reason: null })
          )
          assert.isTrue(
            yield* store.observe(project, { generation: second, observed: "starting", reason: "boot" })
          )
          assert.isTrue(
            yield* store.begin(project, {
              generation: second,
              desired: "running",
              isManual: false,
              observedMeanwhile: null
            })
          )
          const now = Option.getOrThrow(yield* store.runtime(project))
          assert.deepInclude(now, {
            generation: second,
            sandbox: recipe.sandbox,
            observed: "starting",
            observedReason: "boot",
            desired: "running"
          })
          assert.deepStrictEqual(now.recipe, recipe)
          assert.isTrue(yield* store.remove(project, second))
          assert.isTrue(Option.isNone(yield* store.runtime(project)))
        })
    )

    it.effect(
      "a beginning says what is wanted and what the machine is meanwhile, without the old reason",
      () =>
        Effect.gen(function* () {
          const store = yield* RuntimeStore
          const { project } = yield* newProject
          yield* provisioned(project, "stopped")
          yield* store.observe(project, { generation: first, observed: "failed", reason: "it broke" })
          const begun = {
            generation: first,
            desired: "running",
            isManual: false,
            observedMeanwhile: "starting"
          } as const
          assert.isTrue(yield* store.begin(project, begun))
          const now = Option.getOrThrow(yield* store.runtime(project))
          assert.deepInclude(now, { desired: "running", observed: "starting", observedReason: null })
        })
    )

    it.effect("SP-RES-02 the refresh epoch grows in the write after which the machine is another thing", () =>
      Effect.gen(function* () {
        const store = yield* RuntimeStore
        const { project } = yield* newProject
        yield* provisioned(project, "stopped")
        const epoch = Effect.map(store.runtime(project), (found) => Option.getOrThrow(found).refreshEpoch)
        const beginning = (observedMeanwhile: "starting" | null) =>
          store.begin(project, { generation: first, desired: "running", isManual: false, observedMeanwhile })
        const seen = (observed: "running" | "stopped") =>
          store.observe(project, { generation: first, observed, reason: null })
        const writes = [
          [1, beginning("starting")],
          [1, beginning("starting")],
          [1, beginning(null)],
          [2, seen("running")],
          [2, seen("running")],
          [3, seen("stopped")],
          [3, store.saveRecipe(project, { generation: first, recipe: recipeOf(1) })],
          [4, store.replaceMachine(project, { from: first, recipe: recipeOf(2) })]
        ] as const
        for (const [expected, write] of writes) {
          assert.isTrue(yield* write)
          assert.strictEqual(yield* epoch, expected)
        }
      })
    )

    it.effect("a node is written once and its name and time renewed, and the sweep walks in order", () =>
      Effect.gen(function* () {
        const store = yield* RuntimeStore
        yield* store.registerNode({ id: nodeHere, name: "one" })
        yield* rows("update nodes set last_seen_at = '2000-01-01' where id = $1::uuid", [nodeHere])
        yield* store.registerNode({ id: nodeHere, name: "two" })
        const [node] = yield* rows(
          "select name, last_seen_at > '2001-01-01' as renewed from nodes where id = $1::uuid",
          [nodeHere]
        )
        assert.deepStrictEqual(node, { name: "two", renewed: true })
        const [oldest, next] = [(yield* newProject).project, (yield* newProject).project]
        const projects = [oldest, next, (yield* newProject).project]
        for (const project of projects) yield* store.createIfMissing(project)
        assert.isFalse(yield* store.createIfMissing(oldest))
        const page = yield* store.idlePage({ after: oldest - 1, limit: 2 })
        assert.deepStrictEqual(
          page.map(({ project }) => project),
          [oldest, next]
        )
      })
    )
  })
})
