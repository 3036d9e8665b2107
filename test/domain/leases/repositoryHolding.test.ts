/** Holding a repository: renewal, the holder's own fence, whose end it is, and what a dead holder leaves; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { repositoryLeaseSeconds } from "../../../src/domain/Bounds.ts"
import { heartbeat } from "../../../src/domain/leases/heartbeat.ts"
import { RepositoryClaims } from "../../../src/domain/leases/RepositoryClaims.ts"
import { finalizeProvenGone } from "../../../src/domain/leases/settlement.ts"
import { sweepClaims, sweepLeases } from "../../../src/domain/leases/sweep.ts"
import { StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { claim, holders, sleepless } from "./claims.ts"
import {
  admitShell,
  asProcess,
  asSweeper,
  breakTable,
  countingFixture,
  exited,
  goneGuest,
  node,
  onClone,
  seedRuntime,
  someProcess,
  sql,
  steeredClock
} from "./fixture.ts"

const termMillis = repositoryLeaseSeconds * 1_000
const dayMillis = 24 * 3600 * 1_000
const silence = sql("update repository_claims set heartbeat_at = now() - interval '1 hour'")
const allDead = asSweeper("dead")

describe("holding", () => {
  it.live(
    "SP-LEASE-04 a claim that vanished comes back with one statement, and never over a successor",
    () => {
      const { calls, layer, reset } = countingFixture()
      return Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        const [kept, taken] = [
          yield* claim(runtime, "kept").pipe(asHolder),
          yield* claim(runtime, "taken").pipe(asHolder)
        ]
        const successor = someProcess(7).toString()
        yield* sql("delete from repository_claims where repository = 'kept'")
        yield* sql("update repository_claims set process = $1 where repository = 'taken'", [successor])
        reset()
        const { repositories } = yield* heartbeat().pipe(asHolder)
        assert.deepStrictEqual(calls, { queries: 1, transactions: 0 })
        assert.sameDeepMembers(
          [...repositories],
          [
            { id: kept.claim.id, outcome: "restored" },
            { id: taken.claim.id, outcome: "successor" }
          ]
        )
        yield* kept.confirm
        assert.isFalse(yield* taken.isValid)
        assert.strictEqual(yield* taken.finalize(exited), "absent")
        assert.deepStrictEqual(yield* holders, [
          ["kept", kept.claim.process],
          ["taken", successor]
        ])
      }).pipe(Effect.scoped, Effect.provide(layer))
    }
  )

  it.live(
    "a claim and an execution are renewed side by side, and the failure of one takes nothing from the other",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        yield* admitShell(runtime).pipe(asHolder)
        yield* claim(runtime).pipe(asHolder)
        const old = "2000-01-01"
        for (const table of ["execution_leases", "repository_claims"] as const) {
          yield* sql("update execution_leases set heartbeat_at = $1", [new Date(old)])
          yield* sql("update repository_claims set heartbeat_at = $1", [new Date(old)])
          const { mend } = yield* breakTable(table, "update")
          assert.deepInclude(yield* heartbeat().pipe(asHolder, Effect.flip), { code: "storage_failure" })
          const renewed = yield* sql(
            `select 'execution_leases' as name from execution_leases where heartbeat_at > $1
            union all select 'repository_claims' from repository_claims where heartbeat_at > $1`,
            [new Date(old)]
          )
          assert.notDeepEqual(renewed, [{ name: table }])
          assert.lengthOf(renewed, 1)
          yield* mend
        }
      }).pipe(onClone)
  )

  it.live(
    "FC-11 a paused process that wakes after its term does nothing: it asks no table, and brings nothing back",
    () => {
      const { calls, layer, reset } = countingFixture()
      return Effect.gen(function* () {
        const clock = yield* steeredClock
        yield* Effect.gen(function* () {
          const asHolder = yield* asProcess(someProcess())
          const handle = yield* claim(yield* seedRuntime()).pipe(asHolder)
          yield* clock.advance(termMillis - 5_000)
          yield* handle.confirm
          yield* sql("delete from repository_claims")
          yield* clock.advance(5_000)
          reset()
          assert.isFalse(yield* handle.isValid)
          assert.deepInclude(yield* Effect.flip(handle.confirm), { code: "lease_lost", reason: "expired" })
          assert.deepStrictEqual(calls, { queries: 0, transactions: 0 })
          const { repositories } = yield* heartbeat().pipe(asHolder)
          assert.deepInclude(repositories[0], { outcome: "expired" })
          assert.deepStrictEqual(yield* holders, [])
        }).pipe(clock.provide)
      }).pipe(Effect.scoped, Effect.provide(layer))
    }
  )

  it.live("FC-11 the term counts from before the claim was sent, however late its answer came", () =>
    Effect.gen(function* () {
      const clock = yield* steeredClock
      yield* Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const slow = Effect.updateService(RepositoryClaims, (claims) => ({
          ...claims,
          claim: (asked) => Effect.tap(claims.claim(asked), clock.advance(termMillis))
        }))
        const handle = yield* claim(yield* seedRuntime()).pipe(slow, asHolder)
        assert.isFalse(yield* handle.isValid)
      }).pipe(clock.provide)
    }).pipe(onClone)
  )

  it.live(
    "FC-11 two daemons whose clocks are a day apart either way: the database's clock says what is expired",
    () =>
      Effect.gen(function* () {
        const [ahead, behind] = [yield* sleepless(dayMillis), yield* sleepless(-dayMillis)]
        const runtime = yield* seedRuntime()
        for (const [mine, theirs] of [
          [ahead, behind],
          [behind, ahead]
        ] as const) {
          const asHolder = yield* asProcess(someProcess())
          const asOther = yield* asProcess(someProcess(7))
          const handle = yield* claim(runtime).pipe(asHolder, mine.provide)
          const refused = yield* claim(runtime).pipe(asOther, theirs.provide, Effect.flip)
          assert.deepInclude(refused, { code: "repository_busy", holder: handle.claim.process })
          assert.deepInclude(yield* sweepLeases(node).pipe(allDead, theirs.provide), { swept: 0 })
          assert.deepInclude((yield* heartbeat().pipe(asHolder, mine.provide)).repositories[0], {
            outcome: "renewed"
          })
          yield* handle.confirm.pipe(mine.provide)
          yield* silence
          assert.deepInclude(yield* Effect.flip(handle.confirm.pipe(mine.provide)), { reason: "expired" })
          assert.deepInclude(yield* sweepLeases(node).pipe(allDead, theirs.provide), { swept: 1 })
          const next = yield* claim(runtime).pipe(asOther, theirs.provide)
          yield* next.finalize(exited)
        }
      }).pipe(onClone)
  )
})

describe("the end of a claim", () => {
  it.live(
    "FC-12 A's claim expires, B claims, A releases late and a stale inventory is swept: B still holds it",
    () =>
      Effect.gen(function* () {
        const b = someProcess(7)
        const [asA, asB] = [yield* asProcess(someProcess()), yield* asProcess(b)]
        const runtime = yield* seedRuntime()
        const claims = yield* RepositoryClaims
        const first = yield* claim(runtime).pipe(asA)
        yield* silence
        const inventory = yield* claims.inventory(node)
        assert.deepStrictEqual(yield* sweepClaims(inventory).pipe(allDead), [first.claim.id])
        const second = yield* claim(runtime).pipe(asB)
        assert.deepStrictEqual(yield* sweepClaims(inventory).pipe(allDead), [])
        assert.deepInclude(yield* Effect.flip(first.confirm), { reason: "successor" })
        assert.strictEqual(yield* first.finalize(exited), "absent")
        yield* heartbeat().pipe(asA)
        assert.deepStrictEqual(yield* holders, [["app", b.toString()]])
        yield* second.confirm
      }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-03 one process that claims again what it gave up does not lose it to its own late release",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        const claims = yield* RepositoryClaims
        const first = yield* claim(runtime).pipe(asHolder)
        assert.strictEqual(yield* first.finalize(exited), "released")
        const second = yield* claim(runtime).pipe(asHolder)
        assert.strictEqual(yield* claims.release(first.claim), "absent")
        assert.strictEqual(yield* first.finalize(exited), "released", "the first answer, repeated")
        yield* second.confirm
      }).pipe(onClone)
  )

  it.live.each(["alive", "elsewhere"] as const)(
    "SP-LEASE-03 a silent holder that is %s keeps its repository",
    (liveness) =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        yield* claim(yield* seedRuntime()).pipe(asHolder)
        yield* silence
        assert.deepInclude(yield* sweepLeases(node).pipe(asSweeper(liveness)), { swept: 0 })
        assert.lengthOf(yield* holders, 1)
      }).pipe(onClone)
  )

  it.live("SP-LEASE-06 without evidence a claim stays and is renewed, and ends with the guest's proof", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      const handle = yield* Effect.scoped(claim(runtime)).pipe(asHolder)
      assert.strictEqual(yield* handle.finalize(Option.none()), "retained")
      assert.deepInclude((yield* heartbeat().pipe(asHolder)).repositories[0], { outcome: "renewed" })
      assert.strictEqual(yield* finalizeProvenGone(goneGuest(runtime.sandbox, 2)).pipe(asHolder), 0)
      assert.lengthOf(yield* holders, 1)
      assert.strictEqual(yield* finalizeProvenGone(goneGuest(runtime.sandbox)).pipe(asHolder), 1)
      assert.deepStrictEqual(yield* holders, [])
    }).pipe(onClone)
  )

  it.live("SP-LEASE-06 a release that the database refused is done behind a later heartbeat", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const handle = yield* claim(yield* seedRuntime()).pipe(asHolder)
      const { mend } = yield* breakTable("repository_claims", "delete")
      assert.deepInclude(yield* Effect.flip(handle.finalize(exited)), { code: "storage_failure" })
      assert.isFalse(yield* handle.isValid)
      assert.strictEqual((yield* heartbeat().pipe(asHolder)).settlementsLeft, 1)
      yield* mend
      assert.strictEqual((yield* heartbeat().pipe(asHolder)).settlementsLeft, 0)
      assert.deepStrictEqual(yield* holders, [])
    }).pipe(onClone)
  )

  it.live(
    "a claim whose answer was lost is given up with the scope, and one that failed leaves nothing",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        const lost = new StorageFailure({
          operation: "RepositoryClaims.claim",
          fault: "connection",
          state: null,
          constraint: null
        })
        const unanswered = Effect.updateService(RepositoryClaims, (claims) => ({
          ...claims,
          claim: (asked) => Effect.andThen(claims.claim(asked), lost)
        }))
        const scope = yield* Scope.make()
        const refused = claim(runtime).pipe(unanswered, asHolder, Scope.provide(scope), Effect.flip)
        assert.deepInclude(yield* refused, { code: "storage_failure" })
        assert.lengthOf(yield* holders, 1)
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* holders, [])
      }).pipe(onClone)
  )
})
