import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { claimUntilEmpty } from "../../../src/domain/operations/claims.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { holding } from "../../infra/postgres/lockWaits.ts"
import {
  daemon,
  fixture,
  queued,
  queueFaults,
  rows,
  self,
  succeed
} from "../../infra/postgres/operationsFixture.ts"

const many = (count: number) => Effect.forEach(Array.from({ length: count }), () => queued)
const rowIdsOf = (operations: ReadonlyArray<{ readonly rowId: number }>) =>
  operations.map(({ rowId }) => rowId)

describe("claims of many", () => {
  layer(fixture, { excludeTestServices: true })((it) => {
    it.effect(
      "SP-OPS-02 the oldest are claimed, as many as there is room for, and fewer only when no more are left",
      () =>
        Effect.gen(function* () {
          const store = yield* OperationStore
          const asked = rowIdsOf((yield* many(7)).map(({ operation }) => operation))
          const first = yield* store.claim(self, 3)
          const second = yield* store.claim(self, 3)
          const third = yield* store.claim(self, 3)
          assert.deepStrictEqual(
            [first, second, third].map(({ claimed }) => rowIdsOf(claimed)),
            [asked.slice(0, 3), asked.slice(3, 6), asked.slice(6)]
          )
          const all = [...first.claimed, ...second.claimed, ...third.claimed]
          assert.isTrue(
            all.every(({ claimedBy, state }) => state === "claimed" && claimedBy === self.toString())
          )
          assert.deepStrictEqual(yield* store.claim(self, 3), { claimed: [], superseded: [] })
          yield* Effect.forEach(all, succeed)
        })
    )

    it.effect(
      "SP-OPS-02 a claim that has not enough above its bound takes what lies below, oldest last asked",
      () =>
        Effect.gen(function* () {
          const store = yield* OperationStore
          const asked = rowIdsOf((yield* many(4)).map(({ operation }) => operation))
          const [oldest, second] = (yield* store.claim(self, 2)).claimed
          yield* store.requeueIfClaimedBy(oldest!)
          const rest = yield* store.claim(self, 8)
          assert.deepStrictEqual(rowIdsOf(rest.claimed), [asked[0]!, asked[2]!, asked[3]!])
          yield* Effect.forEach([second!, ...rest.claimed], succeed)
        })
    )

    it.effect("SP-OPS-02 no more are locked than are claimed, and what others hold is passed over", () =>
      Effect.gen(function* () {
        const store = yield* OperationStore
        const asked = rowIdsOf((yield* many(6)).map(({ operation }) => operation))
        const holder = yield* holding(
          "select 1 from runtime_operations where row_id = $1::bigint for update",
          [asked[1]]
        )
        const mine = yield* store.claim(self, 2)
        const theirs = yield* store.claim(daemon(40), 8)
        assert.deepStrictEqual(rowIdsOf(mine.claimed), [asked[0]!, asked[2]!])
        assert.deepStrictEqual(rowIdsOf(theirs.claimed), asked.slice(3))
        yield* holder.release
        const rest = yield* store.claim(self, 8)
        assert.deepStrictEqual(rowIdsOf(rest.claimed), [asked[1]!])
        yield* Effect.forEach([...mine.claimed, ...theirs.claimed, ...rest.claimed], succeed)
      })
    )

    it.effect(
      "SP-DEL-04 closed Projects' work among many is superseded, and the claims go on behind it",
      () =>
        Effect.gen(function* () {
          const scenes = yield* many(9)
          const closed = scenes.filter((_, at) => at % 3 !== 2)
          yield* rows("update core.projects set lifecycle = 'deleting' where id = any ($1::bigint[])", [
            closed.map(({ project }) => BigInt(project))
          ])
          const taken: Array<number> = []
          const counted = yield* claimUntilEmpty(self, {
            room: Effect.succeed(2),
            take: (operation) =>
              Effect.andThen(
                succeed(operation),
                Effect.sync(() => void taken.push(operation.rowId))
              )
          })
          assert.deepStrictEqual(
            taken,
            scenes.filter((_, at) => at % 3 === 2).map(({ operation }) => operation.rowId)
          )
          assert.strictEqual(counted, 3)
          assert.strictEqual(yield* queueFaults, 0)
        })
    )

    it.effect("nothing is claimed that there is no room for", () =>
      Effect.gen(function* () {
        const scenes = yield* many(5)
        const rooms = [2, 1]
        const asked: Array<number> = []
        const waiting = yield* Effect.forkChild(
          claimUntilEmpty(self, {
            room: Effect.suspend(() => {
              const next = rooms.shift()
              return next === undefined ? Effect.never : Effect.succeed(next)
            }),
            take: (operation) => Effect.sync(() => void asked.push(operation.rowId))
          }),
          { startImmediately: true }
        )
        const claimedCount = Effect.map(
          rows("select count(*)::int as count from runtime_operations where state = 'claimed'"),
          ([row]) => row?.count
        )
        // What is claimed is seen here before its claimant has heard of it.
        yield* Effect.repeat(claimedCount, { until: (count) => count === 3 && asked.length === 3 }).pipe(
          Effect.timeout("5 seconds")
        )
        assert.isUndefined(waiting.pollUnsafe())
        assert.deepStrictEqual(asked, rowIdsOf(scenes.slice(0, 3).map(({ operation }) => operation)))
      })
    )
  })
})
