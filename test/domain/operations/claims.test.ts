import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { holding } from "../../infra/postgres/lockWaits.ts"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import {
  claimNext,
  claimUntilEmpty,
  releaseClaim,
  saveOperation
} from "../../../src/domain/operations/claims.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { type OperationRows, OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import {
  daemon,
  fixture,
  newProject,
  queued,
  receipt,
  rows,
  self,
  stored,
  succeed,
  oneByOne
} from "../../infra/postgres/operationsFixture.ts"

const live = { excludeTestServices: true } as const

const claimed = Effect.gen(function* () {
  const scene = yield* queued
  const held = Option.getOrThrow(yield* claimNext(self))
  assert.strictEqual(held.id, scene.operation.id)
  return { ...scene, held }
})

const rowOf = (operation: Operation) =>
  rows("select * from runtime_operations where row_id = $1::bigint", [operation.rowId])

describe("claims", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-OPS-02 SP-TEST-03 sixteen claimants of two daemons never get one operation twice, and leave none",
      () =>
        Effect.gen(function* () {
          const asked: Array<number> = []
          for (let n = 0; n < 60; n += 1) asked.push((yield* queued).operation.rowId)
          const taken: Array<Operation> = []
          const daemons = [daemon(100), daemon(101)]
          const claimants = daemons.flatMap((process) =>
            Array.from({ length: 8 }, () =>
              claimUntilEmpty(
                process,
                oneByOne((operation) =>
                  Effect.sync(() => {
                    assert.strictEqual(operation.claimedBy, process.toString())
                    taken.push(operation)
                  })
                )
              )
            )
          )
          yield* Effect.all(claimants, { concurrency: "unbounded" })
          assert.deepStrictEqual(
            taken.map(({ rowId }) => rowId).toSorted((a, b) => a - b),
            asked
          )
          assert.isTrue(taken.every(({ claimSequence, state }) => claimSequence === 1 && state === "claimed"))
          yield* Effect.forEach(taken, succeed, { discard: true })
        })
    )

    it.effect(
      "SP-OPS-02 the oldest operation is claimed first, one that was given back before younger ones",
      () =>
        Effect.gen(function* () {
          const first = yield* queued
          const second = yield* queued
          const held = Option.getOrThrow(yield* claimNext(self))
          assert.strictEqual(held.rowId, first.operation.rowId)
          assert.isTrue(yield* releaseClaim(held))
          const order: Array<readonly [number, number]> = []
          yield* claimUntilEmpty(
            self,
            oneByOne((operation) =>
              Effect.andThen(
                succeed(operation),
                Effect.sync(() => void order.push([operation.rowId, operation.claimSequence]))
              )
            )
          )
          assert.deepStrictEqual(order, [
            [first.operation.rowId, 2],
            [second.operation.rowId, 1]
          ])
        })
    )

    it.effect(
      "an operation given back behind the claimants' remembered bound is found while the queue stays full",
      () =>
        Effect.gen(function* () {
          const oldest = yield* claimed
          for (let n = 0; n < 70; n += 1) yield* queued
          yield* Effect.forEach([1, 2], () =>
            Effect.flatMap(claimNext(self), (found) => succeed(Option.getOrThrow(found)))
          )
          yield* releaseClaim(oldest.held)
          const before: Array<number> = []
          yield* claimUntilEmpty(
            self,
            oneByOne((operation) =>
              Effect.andThen(
                succeed(operation),
                Effect.sync(() => void before.push(operation.rowId))
              )
            )
          )
          const place = before.indexOf(oldest.held.rowId)
          assert.isTrue(place >= 0 && place <= 65, `taken at place ${place} of ${before.length}`)
        })
    )

    it.effect("SP-OPS-02 a claim does not wait for an operation that another transaction is at", () =>
      Effect.gen(function* () {
        const first = yield* queued
        const second = yield* queued
        const holder = yield* holding(
          "select 1 from runtime_operations where row_id = $1::bigint for update",
          [first.operation.rowId]
        )
        const held = Option.getOrThrow(yield* claimNext(self).pipe(Effect.timeout("5 seconds")))
        assert.strictEqual(held.id, second.operation.id)
        yield* holder.release
        yield* succeed(held)
        yield* claimUntilEmpty(self, oneByOne(succeed))
      })
    )

    it.effect("SP-OPS-06 a holder whose claim was stolen changes nothing with progress, end or release", () =>
      Effect.gen(function* () {
        const { held } = yield* claimed
        const store = yield* OperationStore
        assert.isTrue(yield* store.requeueIfClaimedBy(held))
        const successor = Option.getOrThrow(yield* claimNext(daemon(300)))
        const before = yield* rowOf(held)
        const late = { step: "boot", fraction: 0.5, message: null, flags: ["creating"] } as const
        assert.strictEqual((yield* Effect.flip(saveOperation(held, late)))._tag, "ClaimLost")
        assert.strictEqual(
          (yield* Effect.flip(settleOperation(held, { state: "succeeded" })))._tag,
          "ClaimLost"
        )
        assert.isFalse(yield* releaseClaim(held))
        // The same process again, under an older sequence.
        const older = { ...successor, claimSequence: successor.claimSequence - 1 }
        assert.strictEqual((yield* Effect.flip(saveOperation(older, late)))._tag, "ClaimLost")
        assert.strictEqual(
          (yield* Effect.flip(settleOperation(older, { state: "succeeded" })))._tag,
          "ClaimLost"
        )
        // Another process that knows the right sequence.
        const foreign = { ...successor, claimedBy: daemon(301).toString() }
        assert.strictEqual((yield* Effect.flip(saveOperation(foreign, late)))._tag, "ClaimLost")
        assert.strictEqual(
          (yield* Effect.flip(settleOperation(foreign, { state: "succeeded" })))._tag,
          "ClaimLost"
        )
        assert.isFalse(yield* releaseClaim(foreign))
        assert.deepStrictEqual(yield* rowOf(held), before)
        yield* succeed(successor)
        assert.strictEqual(
          (yield* Effect.flip(settleOperation(successor, { state: "succeeded" })))._tag,
          "ClaimLost"
        )
      })
    )

    it.effect("SP-OPS-06 a late end of a lost claim leaves the runtime as it was observed", () =>
      Effect.gen(function* () {
        const { held, project } = yield* claimed
        const store = yield* OperationStore
        yield* store.requeueIfClaimedBy(held)
        const failed = { state: "failed", code: "late", text: "late" } as const
        yield* Effect.flip(
          settleOperation(held, failed, { generation: held.generation, observed: "failed", reason: null })
        )
        assert.strictEqual((yield* stored(project)).runtime[0]?.observed, "running")
        yield* claimUntilEmpty(self, oneByOne(succeed))
      })
    )

    it.effect(
      "SP-OPS-03 saved progress is durable and published, and flags and recipes survive the next step",
      () =>
        Effect.gen(function* () {
          const { held } = yield* claimed
          const events = yield* OperationEvents
          const watcher = yield* events.subscribe
          yield* saveOperation(held, {
            step: "image",
            fraction: 0.25,
            message: "pulling",
            flags: ["creating"]
          })
          const seen = yield* PubSub.take(watcher)
          assert.deepInclude(seen, { operation: held.id, step: "image", fraction: 0.25, message: "pulling" })
          const store = yield* OperationStore
          yield* store.requeueIfClaimedBy(held)
          const resumed = Option.getOrThrow(yield* claimNext(self))
          assert.deepInclude(resumed, {
            step: "image",
            fraction: 0.25,
            flags: ["creating"],
            claimSequence: 2
          })
          yield* succeed(resumed)
        }).pipe(Effect.scoped)
    )

    it.effect(
      "SP-TX-06 SP-TX-09 progress joins the caller's transaction: rolled back it is neither stored nor published",
      () =>
        Effect.gen(function* () {
          const { held } = yield* claimed
          const events = yield* OperationEvents
          const store = yield* RuntimeStore
          const context = yield* Effect.context<OperationRows | OperationEvents>()
          const watcher = yield* events.subscribe
          const save = (step: string) =>
            Effect.provideContext(
              saveOperation(held, { step, fraction: 0, message: null, flags: [] }),
              context
            )
          const before = yield* rowOf(held)
          yield* Effect.flip(
            store.transaction("test", () => Effect.andThen(save("lost"), Effect.fail("undone" as const)))
          )
          assert.deepStrictEqual(yield* rowOf(held), before)
          yield* store.transaction("test", () =>
            Effect.gen(function* () {
              yield* save("kept")
              assert.strictEqual(
                (yield* PubSub.takeUpTo(watcher, 1)).length,
                0,
                "published before the commit"
              )
            })
          )
          assert.strictEqual((yield* PubSub.take(watcher)).step, "kept")
          assert.strictEqual((yield* rowOf(held))[0]?.step, "kept")
          yield* succeed(held)
        }).pipe(Effect.scoped)
    )

    it.effect(
      "SP-DEL-04 queued work of a closed Project is superseded instead of executed, a deletion is not",
      () =>
        Effect.gen(function* () {
          const ordinary = yield* queued
          const removal = yield* newProject
          const deletion = yield* receipt(removal.project, {
            action: "delete",
            initiator: "system",
            state: "queued"
          })
          const closing = "update core.projects set lifecycle = 'deleting' where id = $1::bigint"
          for (const { project } of [ordinary, removal]) yield* rows(closing, [project])
          const events = yield* OperationEvents
          const watcher = yield* events.subscribe
          const taken: Array<number> = []
          yield* claimUntilEmpty(
            self,
            oneByOne((operation) =>
              Effect.andThen(
                succeed(operation),
                Effect.sync(() => void taken.push(operation.rowId))
              )
            )
          )
          assert.deepStrictEqual(taken, [deletion])
          const [end] = (yield* stored(ordinary.project)).operations
          assert.deepInclude(end, {
            state: "superseded",
            error_code: "project_not_active",
            claim_sequence: 0,
            live: false
          })
          assert.deepInclude(yield* PubSub.take(watcher), { project: ordinary.project, state: "superseded" })
        }).pipe(Effect.scoped)
    )
  })
})
