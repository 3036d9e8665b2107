/** Rows of snapshots on a clone: every write repeats what its caller saw. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { projectSnapshotsMax } from "../../../src/domain/Bounds.ts"
import { OperationId, SnapshotId } from "../../../src/domain/Identity.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import * as SnapshotRowsAdapter from "../../../src/infra/postgres/SnapshotRows.ts"
import { recipe } from "../../domain/operations/builders.ts"
import { fixture, newProject, rows } from "./operationsFixture.ts"

const machine = recipe()

const withRuntime = Effect.gen(function* () {
  const { project } = yield* newProject
  yield* (yield* RuntimeStore).createIfMissing(project)
  const operation = OperationId.make(randomUUID())
  const intended = (id: string) => ({
    project,
    id: SnapshotId.make(id),
    path: `/srv/disks/${randomUUID()}`,
    generation: machine.generation,
    recipe: machine,
    operation,
    account: null
  })
  return { project, operation, intended }
})

const one = Effect.gen(function* () {
  const scene = yield* withRuntime
  const store = yield* SnapshotRows
  assert.isTrue(yield* store.insert(scene.intended("a")))
  const { rowId } = Option.getOrThrow(yield* store.byId(scene.project, SnapshotId.make("a")))
  return { ...scene, store, rowId }
})

const end = { by: "somebody", reason: "asked" }

layer(SnapshotRowsAdapter.layer.pipe(Layer.provideMerge(fixture)), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("SnapshotRows", (it) => {
  it.effect("a name is given once a Project, and what was written is read again", () =>
    Effect.gen(function* () {
      const { intended, project, store } = yield* one
      assert.isFalse(yield* store.insert(intended("a")))
      assert.isTrue(yield* store.insert(intended("..")))
      const [first, second, ...others] = yield* store.ofProject(project)
      assert.deepStrictEqual(
        [first?.id, second?.id, others],
        [SnapshotId.make("a"), SnapshotId.make(".."), []]
      )
      assert.deepStrictEqual(first?.recipe, machine)
      assert.deepInclude(first, { state: "capturing", bytes: null, pausedBy: null, reason: null })
    })
  )

  it.effect("only the operation that captures makes a snapshot ready, and only once", () =>
    Effect.gen(function* () {
      const { operation, rowId, store } = yield* one
      const other = OperationId.make(randomUUID())
      assert.isFalse(yield* store.markReady(rowId, { operation: other, bytes: 1 }))
      assert.isTrue(yield* store.markReady(rowId, { operation, bytes: 1 }))
      assert.isFalse(yield* store.markReady(rowId, { operation, bytes: 2 }))
      assert.isFalse(yield* store.remove(rowId), "one that is there is not forgotten")
      assert.isFalse(yield* store.markRemoving(rowId, "capturing", end))
      assert.isTrue(yield* store.markRemoving(rowId, "ready", end))
      assert.isTrue(yield* store.remove(rowId))
    })
  )

  it.effect("who has the guest stand still is noted for one at a time, and taken away by himself alone", () =>
    Effect.gen(function* () {
      const { project, rowId, store } = yield* one
      assert.isTrue(yield* store.markPaused(rowId, "first"))
      assert.isFalse(yield* store.markPaused(rowId, "second"))
      assert.isFalse(yield* store.clearPaused(rowId, "second"))
      assert.strictEqual((yield* store.ofProject(project))[0]?.pausedBy, "first")
      assert.isTrue(yield* store.clearPaused(rowId, "first"))
    })
  )

  it.effect("a sweep finds what is unfinished here, and abandons nothing whose operation lives", () =>
    Effect.gen(function* () {
      const { operation, project, rowId, store } = yield* one
      const found = (node = machine.node) =>
        Effect.map(store.unfinished({ node, after: 0, limit: 1_000 }), (all) =>
          all.filter(({ snapshot }) => snapshot.project === project)
        )
      assert.lengthOf(yield* found(), 1)
      assert.lengthOf(yield* found(randomUUID() as typeof machine.node), 0)
      yield* rows(
        `with added as (insert into runtime_operations (id, project_id, initiator, action, request_key, generation)
            values ($2::uuid, $1::bigint, 'user', 'snapshot', 'k', 1) returning project_id, row_id)
          insert into live_operations (project_id, row_id) select project_id, row_id from added`,
        [project, operation]
      )
      assert.deepInclude((yield* found())[0], { isLive: true, isClaimed: false })
      assert.isFalse(yield* store.markAbandoned(rowId, end))
      yield* rows("delete from live_operations where project_id = $1::bigint", [project])
      assert.isTrue(yield* store.markAbandoned(rowId, end))
    })
  )

  it.effect(
    "FC-15 the schema itself refuses one snapshot beyond the bound, and other Projects have theirs",
    () =>
      Effect.gen(function* () {
        const scene = yield* withRuntime
        const other = yield* withRuntime
        const store = yield* SnapshotRows
        for (let at = 0; at < projectSnapshotsMax; at += 1) yield* store.insert(scene.intended(`s${at}`))
        const refused = yield* Effect.flip(store.insert(scene.intended("one-more")))
        assert.deepInclude(refused, { fault: "refused", state: "HF003" })
        assert.isTrue(yield* store.insert(other.intended("s0")))
      })
  )
})
