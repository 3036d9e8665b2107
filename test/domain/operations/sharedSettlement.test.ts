import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { receiptsKeptMin } from "../../../src/domain/Bounds.ts"
import { claimUntilEmpty } from "../../../src/domain/operations/claims.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { lockKey } from "../../../src/infra/postgres/locks.ts"
import { holding, untilWaiting, untilWaitingForAdvisory } from "../../infra/postgres/lockWaits.ts"
import {
  daemon,
  fixture,
  oneByOne,
  queued,
  queueFaults,
  rows,
  self,
  stored
} from "../../infra/postgres/operationsFixture.ts"
import { generation } from "./builders.ts"

/** So many claimed operations, each of a Project of its own, oldest first. */
const claimed = Effect.fnUntraced(function* (count: number) {
  yield* Effect.forEach(Array.from({ length: count }), () => queued)
  const held: Array<Operation> = []
  yield* claimUntilEmpty(
    self,
    oneByOne((operation) => Effect.sync(() => void held.push(operation)))
  )
  return held
})

/** While it is held, one end waits alone, so that all others share statements. */
const stalled = Effect.gen(function* () {
  const [operation] = yield* claimed(1)
  const held = operation as Operation
  const holder = yield* holding("select 1 from runtime_operations where row_id = $1::bigint for update", [
    held.rowId
  ])
  const waiting = yield* Effect.forkChild(settleOperation(held, { state: "succeeded" }))
  yield* untilWaiting("runtime_operations", 1)
  return { release: Effect.andThen(holder.release, Fiber.join(waiting)) }
})

const ended = { state: "succeeded" } as const

const settleAll = (held: ReadonlyArray<Operation>) =>
  Effect.forEach(held, (operation) => Effect.result(settleOperation(operation, ended)), {
    concurrency: "unbounded"
  }).pipe(Effect.timeout("5 seconds"))

const tagOf = (result: { readonly _tag: string; readonly failure?: { readonly _tag: string } }) =>
  result.failure?._tag ?? result._tag

describe("ends that share a statement", () => {
  layer(fixture, { excludeTestServices: true })((it) => {
    it.effect(
      "SP-OPS-06 a lost claim and a second end are told to their own holders, the others end once",
      () =>
        Effect.gen(function* () {
          const hold = yield* stalled
          const held = yield* claimed(8)
          const [lost, twice, older] = held as [Operation, Operation, Operation]
          const store = yield* OperationStore
          for (const operation of [lost, older]) yield* store.requeueIfClaimedBy(operation)
          yield* store.claim(daemon(900), 1)
          // The same process again, under a newer sequence.
          yield* store.claim(self, 1)
          const told = yield* settleAll([...held, twice])
          const tags = told.map(tagOf)
          assert.deepStrictEqual([tags[0], tags[2]], ["ClaimLost", "ClaimLost"])
          // Whichever of the two ends of one operation comes first.
          assert.deepStrictEqual([tags[1], tags[8]].toSorted(), ["ClaimLost", "Success"])
          assert.isTrue(tags.slice(3, 8).every((tag) => tag === "Success"))
          // Two claims, and two statements for all that are ended once; the one that is ended twice may meet either of them.
          const [row] = yield* rows(
            `select count(*) filter (where state = 'succeeded' and claimed_by is null and fraction = 1)::int as ended,
            count(*) filter (where state = 'claimed')::int as claimed,
            count(distinct xmin::text) filter (where row_id <> $2::bigint) = 4 as shared
            from runtime_operations where row_id = any ($1::bigint[])`,
            [held.map(({ rowId }) => BigInt(rowId)), BigInt(twice.rowId)]
          )
          assert.deepStrictEqual({ ...row }, { ended: 6, claimed: 2, shared: true })
          assert.strictEqual(yield* queueFaults, 0)
          yield* hold.release
        })
    )

    it.effect(
      "SP-OPS-06 claims of two processes that end together each end once, under their own holders",
      () =>
        Effect.gen(function* () {
          const hold = yield* stalled
          const ours = yield* claimed(6)
          yield* Effect.forEach(Array.from({ length: 3 }), () => queued)
          const store = yield* OperationStore
          const { claimed: theirs } = yield* store.claim(daemon(901), 3)
          // Held, under the very sequence, but by another process.
          const taken = theirs.map((operation) => ({ ...operation, claimedBy: self.toString() }))
          const tags = (held: ReadonlyArray<Operation>) =>
            Effect.map(settleAll(held), (told) => told.map(tagOf))
          const [three, lost] = [theirs.map(() => "Success"), theirs.map(() => "ClaimLost")]
          assert.deepStrictEqual(yield* tags([...ours.slice(0, 3), ...taken]), [...three, ...lost])
          assert.deepStrictEqual(yield* tags([...ours.slice(3), ...theirs]), [...three, ...three])
          assert.strictEqual(yield* queueFaults, 0)
          yield* hold.release
        })
    )

    it.effect(
      "what each end says of its operation and its runtime is written, and nothing where it is late",
      () =>
        Effect.gen(function* () {
          const hold = yield* stalled
          const held = yield* claimed(4)
          const [well, broken, late, silent] = held as [Operation, Operation, Operation, Operation]
          const failed = { state: "failed", code: "boot_failed", text: "it did not boot" } as const
          const stopped = { observed: "stopped", reason: null } as const
          yield* Effect.all(
            [
              settleOperation(
                well,
                { state: "succeeded", result: { paths: ["/a"], proofs: ["gone"] } },
                { generation: generation(1), ...stopped }
              ),
              settleOperation(broken, failed, {
                generation: generation(1),
                observed: "failed",
                reason: "boot"
              }),
              settleOperation(late, ended, { generation: generation(2), ...stopped }),
              settleOperation(silent, { state: "superseded", code: "x", text: "y" })
            ],
            { concurrency: "unbounded", discard: true }
          )
          const left = yield* Effect.forEach(held, ({ project }) => stored(project))
          assert.deepStrictEqual(
            left.map(({ operations, runtime }) => [
              runtime[0]?.observed,
              operations[0]?.state,
              operations[0]?.error_code,
              operations[0]?.live
            ]),
            [
              ["stopped", "succeeded", null, false],
              ["failed", "failed", "boot_failed", false],
              ["running", "succeeded", null, false],
              ["running", "superseded", "x", false]
            ]
          )
          const told = yield* rows(
            `select o.result, o.superseded_by, r.observed_reason, r.refresh_epoch::int from runtime_operations o
            join runtimes r using (project_id) where o.row_id = any ($1::bigint[]) order by o.row_id`,
            [held.map(({ rowId }) => BigInt(rowId))]
          )
          assert.deepStrictEqual(
            told.map((row) => ({ ...row })),
            [
              {
                result: { paths: ["/a"], proofs: ["gone"] },
                superseded_by: null,
                observed_reason: null,
                refresh_epoch: 1
              },
              { result: null, superseded_by: null, observed_reason: "boot", refresh_epoch: 1 },
              { result: null, superseded_by: null, observed_reason: null, refresh_epoch: 0 },
              { result: null, superseded_by: "system", observed_reason: null, refresh_epoch: 0 }
            ]
          )
          yield* hold.release
        })
    )

    it.effect(
      "SP-OPS-04 SP-TX-07 each Project is trimmed to 20; who finds its trim taken waits by himself",
      () =>
        Effect.gen(function* () {
          const hold = yield* stalled
          const held = yield* claimed(6)
          yield* rows(
            `insert into runtime_operations (id, project_id, initiator, action, request_key, generation, state,
              settled_at, owed)
            select gen_random_uuid(), project, 'user', 'stop', 'old-' || n, 1, 'succeeded', now(),
              case when n = 1 then '{sb/1}'::text[] else '{}' end
            from unnest($1::bigint[]) project, generate_series(1, $2::int) n`,
            [held.map(({ project }) => BigInt(project)), receiptsKeptMin + 5]
          )
          const kept = Effect.forEach(held, ({ project }) =>
            Effect.map(stored(project), ({ operations }) =>
              operations.filter(({ request_key: key }) => key !== "old-1")
            )
          )
          const trimming = yield* holding("select pg_advisory_xact_lock($1::bigint)", [
            lockKey("receipts", held[0]!.project)
          ])
          const waiting = yield* Effect.forkChild(settleOperation(held[0]!, ended))
          const told = yield* settleAll(held.slice(1))
          assert.isTrue(told.every(({ _tag }) => _tag === "Success"))
          yield* untilWaitingForAdvisory(1)
          assert.deepStrictEqual(
            (yield* kept).map(({ length }) => length),
            [receiptsKeptMin + 5, ...Array.from({ length: 5 }, () => receiptsKeptMin)]
          )
          yield* trimming.release
          yield* Fiber.join(waiting)
          assert.strictEqual((yield* kept)[0]?.length, receiptsKeptMin)
          yield* hold.release
        })
    )

    it.effect("SP-ADM-03 a runtime's row held by another stalls only the end that speaks of it", () =>
      Effect.gen(function* () {
        const hold = yield* stalled
        const held = yield* claimed(5)
        const busy = held[0]!
        const holder = yield* holding("select 1 from runtimes where project_id = $1::bigint for update", [
          busy.project
        ])
        const observation = { generation: busy.generation, observed: "stopped", reason: null } as const
        const waiting = yield* Effect.forkChild(settleOperation(busy, ended, observation))
        const told = yield* settleAll(held.slice(1))
        assert.isTrue(told.every(({ _tag }) => _tag === "Success"))
        yield* untilWaiting("runtimes", 1)
        yield* holder.release
        yield* Fiber.join(waiting)
        assert.strictEqual((yield* stored(busy.project)).runtime[0]?.observed, "stopped")
        yield* hold.release
      })
    )
  })
})
