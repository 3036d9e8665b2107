import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { recoveryPageRowsMax } from "../../../src/domain/Bounds.ts"
import { NodeId, type ProcessIdentity } from "../../../src/domain/Identity.ts"
import { claimNext, saveOperation } from "../../../src/domain/operations/claims.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { recoverClaims, recoverInventory } from "../../../src/domain/operations/recovery.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import {
  daemon,
  fixture,
  machineWith,
  newProject,
  provisioned,
  receipt,
  recipeOf,
  rows,
  self,
  stores,
  value
} from "../../infra/postgres/operationsFixture.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { Clone } from "../../support/clone.ts"

const heldBy = (process: ProcessIdentity) =>
  Effect.gen(function* () {
    const { project } = yield* newProject
    yield* provisioned(project)
    const row = yield* receipt(project, { state: "claimed", claimedBy: process.toString() })
    return { project, row }
  })

const stateOf = (row: number) =>
  value("select state from runtime_operations where row_id = $1::bigint", [row])

describe("recoverClaims", () => {
  layer(fixture, { excludeTestServices: true })("beyond one page", (it) => {
    it.effect("SP-OPS-02 a dead claim behind more living ones than a page holds is found all the same", () =>
      Effect.gen(function* () {
        const alive = daemon(201)
        const living = recoveryPageRowsMax + 1
        yield* rows(
          `with claimed as (
            insert into runtime_operations (id, project_id, initiator, action, request_key, generation, state, claimed_by)
              select gen_random_uuid(), 100000 + n, 'user', 'start', 'living', 1, 'claimed', $1::text
                from generate_series(1, $2::int) n returning project_id, row_id
          ) insert into live_operations (project_id, row_id) select project_id, row_id from claimed`,
          [alive.toString(), living]
        )
        const { row } = yield* heldBy(daemon(200))
        const { left, stolen } = yield* recoverClaims().pipe(Effect.provide(machineWith(self, [self, alive])))
        assert.deepStrictEqual([left, stolen.map(({ rowId }) => rowId)], [living, [row]])
        assert.strictEqual(yield* stateOf(row), "queued")
      })
    )
  })

  layer(fixture, { excludeTestServices: true })((it) => {
    it.effect(
      "SP-OPS-02 claims of dead processes return to the queue, oldest first; live and foreign ones stay",
      () =>
        Effect.gen(function* () {
          const dead = daemon(200)
          const alive = daemon(201)
          const elsewhere = daemon(202, { node: NodeId.make(randomUUID()) })
          const rowsOf = yield* Effect.forEach([dead, alive, elsewhere, self, dead], heldBy)
          const recovered = yield* recoverClaims().pipe(Effect.provide(machineWith(self, [self, alive])))
          assert.deepStrictEqual(
            recovered.stolen.map(({ rowId }) => rowId),
            [rowsOf[0]?.row, rowsOf[4]?.row]
          )
          assert.deepStrictEqual([recovered.left, recovered.own.length], [2, 1])
          const states = yield* Effect.forEach(rowsOf, ({ row }) => stateOf(row))
          assert.deepStrictEqual(states, ["queued", "claimed", "claimed", "claimed", "queued"])
          for (const expected of [rowsOf[0], rowsOf[4]]) {
            const again = Option.getOrThrow(yield* claimNext(self))
            assert.strictEqual(again.rowId, expected?.row)
            yield* settleOperation(again, { state: "succeeded" })
          }
        })
    )

    it.effect("SP-OPS-02 an inventory read before a successor claimed takes nothing from the successor", () =>
      Effect.gen(function* () {
        const gone = daemon(210)
        const { row } = yield* heldBy(gone)
        const store = yield* OperationStore
        const found = yield* store.claimed({ node: self.node, afterRow: row - 1, limit: 1 })
        const inventory = found.filter(({ rowId }) => rowId === row)
        yield* recoverInventory(inventory)
        // Once by another process, once by the very one that the inventory saw: then only the sequence differs.
        let successor = Option.getOrThrow(yield* claimNext(daemon(211)))
        for (const next of [gone, gone]) {
          const late = yield* recoverInventory(inventory)
          assert.deepStrictEqual([late.stolen.length, late.left], [0, 1])
          assert.strictEqual(yield* stateOf(row), "claimed")
          assert.isTrue(yield* store.requeueIfClaimedBy(successor))
          successor = Option.getOrThrow(yield* claimNext(next))
        }
        yield* settleOperation(successor, { state: "succeeded" })
      })
    )

    it.effect("SP-OPS-03 a recovered operation keeps its step and flags", () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        yield* provisioned(project)
        yield* receipt(project, { state: "queued" })
        const dead = Option.getOrThrow(yield* claimNext(daemon(220)))
        yield* saveOperation(dead, { step: "guest", fraction: 0.5, message: null, flags: ["creating"] })
        yield* recoverClaims()
        const again = Option.getOrThrow(yield* claimNext(self))
        assert.deepInclude(again, { id: dead.id, step: "guest", fraction: 0.5, flags: ["creating"] })
        yield* settleOperation(again, { state: "succeeded" })
      })
    )

    it.effect(
      "SP-OPS-07 SP-TEST-03 claims, receipts, generation and recipes are the same after the daemon opens the database anew",
      () =>
        Effect.gen(function* () {
          const { project } = yield* newProject
          const recipe = yield* provisioned(project, "running", 3)
          yield* receipt(project, { state: "failed", key: "kept" })
          yield* receipt(project, { state: "queued" })
          const held = Option.getOrThrow(yield* claimNext(daemon(230)))
          yield* saveOperation(held, {
            step: "guest",
            fraction: 0.5,
            message: "m",
            flags: ["creating"],
            newRecipe: recipeOf(4)
          })
          const read = Effect.flatMap(OperationStore, (store) => store.overview(project, 20))
          const before = yield* read
          const { openDb } = yield* Clone
          const reopened = Layer.fresh(stores).pipe(Layer.provide(Layer.effect(PluginDb, openDb())))
          const after = yield* read.pipe(Effect.provide(reopened))
          assert.deepStrictEqual(after, before)
          assert.deepStrictEqual(Option.getOrThrow(after.runtime).recipe, recipe)
          const settled = yield* settleOperation(held, { state: "succeeded" }).pipe(Effect.provide(reopened))
          assert.deepInclude({ ...settled }, { state: "succeeded" })
        }).pipe(Effect.scoped)
    )
  })
})
