import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { holding, untilWaitingForAdvisory } from "../../infra/postgres/lockWaits.ts"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { receiptAbsencesKeptMax } from "../../../src/domain/Bounds.ts"
import { proveAbsence } from "../../../src/domain/guests/absence.ts"
import { AbsenceEvidence, describeProof } from "../../../src/domain/guests/AbsenceProof.ts"
import { GuestObservation } from "../../../src/domain/guests/GuestSupervisor.ts"
import { claimNext, saveOperation } from "../../../src/domain/operations/claims.ts"
import { machineOf } from "../../../src/domain/operations/Operation.ts"
import { OperationRows, OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { recordMachineAbsent, settleOperation } from "../../../src/domain/operations/settlement.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { lockKey } from "../../../src/infra/postgres/locks.ts"
import {
  fixture,
  newProject,
  provisioned,
  receipt,
  recipeOf,
  rows,
  self,
  stored
} from "../../infra/postgres/operationsFixture.ts"
import { goneGuest } from "../leases/fixture.ts"

/** A Project with so many settled receipts and one claimed operation behind them. */
const scene = Effect.fnUntraced(function* (settled: number) {
  const { project } = yield* newProject
  const recipe = yield* provisioned(project)
  yield* rows(
    `insert into runtime_operations (id, project_id, initiator, action, request_key, generation, state, settled_at)
      select gen_random_uuid(), $1::bigint, 'user', 'stop', 'old-' || n, 1, 'succeeded', now()
      from generate_series(1, $2::int) n`,
    [project, settled]
  )
  yield* receipt(project, { state: "queued", key: "last" })
  const held = Option.getOrThrow(yield* claimNext(self))
  assert.strictEqual(held.project, project)
  return { project, recipe, held }
})

const keys = (project: number) =>
  Effect.map(
    rows("select request_key from runtime_operations where project_id = $1::bigint order by row_id", [
      project
    ]),
    (found) => found.map((row) => String(row.request_key))
  )

const old = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => `old-${from + n}`)

describe("settleOperation", () => {
  layer(fixture, { excludeTestServices: true })((it) => {
    it.effect("SP-OPS-04 the newest 20 rows stay and older ones go, at most 128 at once", () =>
      Effect.gen(function* () {
        const { project, held } = yield* scene(199)
        yield* settleOperation(held, { state: "succeeded" })
        assert.deepStrictEqual(yield* keys(project), [...old(129, 199), "last"])
        yield* receipt(project, { state: "queued", key: "next" })
        yield* settleOperation(Option.getOrThrow(yield* claimNext(self)), { state: "succeeded" })
        assert.deepStrictEqual(yield* keys(project), [...old(182, 199), "last", "next"])
      })
    )

    it.effect(
      "SP-OPS-04 BX-02 a receipt stays while one of its machines is not proved absent, keeps each proof, and goes then",
      () =>
        Effect.gen(function* () {
          const { project, recipe, held } = yield* scene(25)
          const replaced = recipeOf(2)
          const rebuilt = {
            step: "switch",
            fraction: 1,
            message: null,
            flags: [],
            oldRecipe: recipe,
            newRecipe: replaced
          } as const
          const saved = yield* saveOperation(held, rebuilt)
          assert.deepStrictEqual(saved.owed.toSorted(), [machineOf(recipe), machineOf(replaced)].toSorted())
          const runtimes = yield* RuntimeStore
          assert.isTrue(
            yield* runtimes.replaceMachine(project, { from: recipe.generation, recipe: replaced })
          )
          yield* settleOperation(held, { state: "succeeded" })
          const more = Effect.gen(function* () {
            for (let n = 0; n < 22; n += 1) {
              yield* receipt(project, {
                state: "queued",
                key: `more-${n}-${yield* Effect.clockWith((clock) => clock.currentTimeMillis)}`
              })
              yield* settleOperation(Option.getOrThrow(yield* claimNext(self)), { state: "succeeded" })
            }
          })
          yield* more
          assert.include(yield* keys(project), "last")
          const proofOf = (gone: typeof recipe) => goneGuest(gone.sandbox, gone.generation)
          yield* recordMachineAbsent(project, proofOf(recipe))
          const store = yield* OperationStore
          const proved = Option.getOrThrow(yield* store.byId(held.id))
          assert.deepStrictEqual(proved.absences, [describeProof(proofOf(recipe))])
          assert.deepStrictEqual(proved.owed, [machineOf(replaced)])
          yield* more
          assert.include(yield* keys(project), "last", "the new machine is still owed")
          yield* recordMachineAbsent(project, proofOf(replaced))
          yield* more
          assert.notInclude(yield* keys(project), "last")
          assert.strictEqual((yield* keys(project)).length, 20)
        })
    )

    it.effect("SP-OPS-04 of the proofs of a machine that is made again and again the newest are kept", () =>
      Effect.gen(function* () {
        const { project, recipe, held } = yield* scene(0)
        yield* rows("update runtimes set recipe = null, sandbox_id = null where project_id = $1::bigint", [
          project
        ])
        const step = { step: "image", fraction: 0, message: null, flags: [], newRecipe: recipe } as const
        const proofAt = (pid: number) =>
          Result.getOrThrow(
            proveAbsence(
              recipe.sandbox,
              GuestObservation.cases.Gone.make({
                evidence: AbsenceEvidence.cases.InitGone.make({ init: { pid, startTicks: "1" } }),
                generation: recipe.generation,
                exit: null,
                tombstone: false
              }),
              { observedAtMillis: 0 }
            )
          )
        for (let count = 1; count <= receiptAbsencesKeptMax + 2; count += 1) {
          yield* saveOperation(held, step)
          yield* recordMachineAbsent(project, proofAt(count))
        }
        const { absences } = Option.getOrThrow(yield* (yield* OperationStore).byId(held.id))
        assert.lengthOf(absences, receiptAbsencesKeptMax)
        assert.strictEqual(absences[0], describeProof(proofAt(receiptAbsencesKeptMax + 2)))
      })
    )

    it.effect(
      "SP-TEST-03 identities of other Projects between its own cost a Project none of its receipts",
      () =>
        Effect.gen(function* () {
          const { project, held } = yield* scene(30)
          const other = yield* scene(0)
          // One identity of the other Project behind each of this one's, and a whole page of them at the end.
          yield* rows(
            `insert into runtime_operations (id, project_id, initiator, action, request_key, generation, state, settled_at)
            select gen_random_uuid(), case when n % 2 = 0 or n > 40 then $1::bigint else $2::bigint end, 'user', 'stop',
              'mixed-' || n, 1, 'succeeded', now()
            from generate_series(1, 100) n order by n`,
            [other.project, project]
          )
          const mixed = Array.from({ length: 20 }, (_, n) => `mixed-${2 * n + 1}`)
          yield* settleOperation(held, { state: "succeeded" })
          assert.deepStrictEqual(yield* keys(project), mixed)
          assert.lengthOf(yield* keys(other.project), 81)
          yield* settleOperation(other.held, { state: "succeeded" })
          assert.deepStrictEqual(yield* keys(project), mixed)
        })
    )

    it.effect("a recipe that the runtime's row holds is not owed by a receipt that names it again", () =>
      Effect.gen(function* () {
        const { recipe, held } = yield* scene(0)
        const saved = yield* saveOperation(held, {
          step: "guest",
          fraction: 0,
          message: null,
          flags: [],
          newRecipe: recipe
        })
        assert.deepStrictEqual(saved.owed, [])
        assert.deepStrictEqual(saved.newRecipe, recipe)
        yield* settleOperation(held, { state: "succeeded" })
      })
    )

    it.effect("SP-TX-07 trimming waits for who holds the Project's receipts, and for nobody else", () =>
      Effect.gen(function* () {
        const other = yield* scene(25)
        const { project, held } = yield* scene(25)
        const holder = yield* holding("select pg_advisory_xact_lock($1::bigint)", [
          lockKey("receipts", project)
        ])
        yield* settleOperation(other.held, { state: "succeeded" })
        const settling = yield* Effect.forkChild(settleOperation(held, { state: "succeeded" }))
        yield* untilWaitingForAdvisory(1)
        yield* holder.release
        yield* Fiber.join(settling)
        assert.strictEqual((yield* keys(project)).length, 20)
      })
    )

    it.effect("SP-OPS-04 a receipt that another transaction holds is passed over, not waited for", () =>
      Effect.gen(function* () {
        const { project, held } = yield* scene(25)
        const holder = yield* holding(
          "select 1 from runtime_operations where project_id = $1::bigint and request_key = 'old-1' for update",
          [project]
        )
        yield* settleOperation(held, { state: "succeeded" })
        assert.deepStrictEqual(yield* keys(project), ["old-1", ...old(7, 25), "last"])
        yield* holder.release
      })
    )

    it.effect("the end and what was observed are one write, conditional on the generation", () =>
      Effect.gen(function* () {
        const { project, held } = yield* scene(0)
        const failed = { state: "failed", code: "boot_failed", text: "x".repeat(3_000) } as const
        const settled = yield* settleOperation(held, failed, {
          generation: held.generation,
          observed: "failed",
          reason: "boot"
        })
        assert.deepInclude(settled, { state: "failed", errorCode: "boot_failed" })
        const [row] = yield* rows(
          "select claimed_by, length(error_text) as letters from runtime_operations where id = $1::uuid",
          [held.id]
        )
        assert.deepStrictEqual({ ...row }, { claimed_by: null, letters: 2_000 })
        assert.strictEqual((yield* stored(project)).runtime[0]?.observed, "failed")
        const other = yield* scene(0)
        const stale = { generation: recipeOf(9).generation, observed: "stopped", reason: null } as const
        yield* settleOperation(
          other.held,
          { state: "succeeded", result: { paths: ["/a"], proofs: ["gone"] } },
          stale
        )
        assert.strictEqual((yield* stored(other.project)).runtime[0]?.observed, "running")
      })
    )

    it.effect("SP-TX-06 settling joins the caller's transaction and is undone with it", () =>
      Effect.gen(function* () {
        const { project, held } = yield* scene(0)
        const runtimes = yield* RuntimeStore
        const operations = yield* OperationRows
        yield* Effect.flip(
          runtimes.transaction("test", () =>
            Effect.andThen(operations.settle(held, { state: "succeeded" }), Effect.fail("undone" as const))
          )
        )
        assert.deepInclude((yield* stored(project)).operations[0], { state: "claimed", live: true })
        yield* settleOperation(held, { state: "succeeded" })
      })
    )
  })
})
