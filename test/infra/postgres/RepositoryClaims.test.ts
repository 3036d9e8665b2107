/** The statements on repository claims beside each other and beside a history transaction; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { projectRepositoriesMax } from "../../../src/domain/Bounds.ts"
import { Generation, LeaseId } from "../../../src/domain/Identity.ts"
import { RepositoryClaim, RepositoryName } from "../../../src/domain/leases/RepositoryClaim.ts"
import { ClaimAnswer, RepositoryClaims } from "../../../src/domain/leases/RepositoryClaims.ts"
import { layer as adapter } from "../../../src/infra/postgres/RepositoryClaims.ts"
import { insideHeldOf } from "../../support/insideHeld.ts"
import { bothOrders, sideBySide } from "../../support/sideBySide.ts"
import {
  countingFixture,
  heldTransaction,
  node,
  onClone,
  type SeededRuntime,
  seedRuntime,
  someProcess,
  sql,
  sqlInside
} from "../../domain/leases/fixture.ts"

let ids = 0

/** A claim of the repository by a process of its own. */
const claimOf = ({ project, sandbox }: SeededRuntime, repository = "tools/app", generation = 1) => {
  ids += 1
  return new RepositoryClaim({
    id: LeaseId.make(`00000000-0000-4000-8000-${String(ids).padStart(12, "0")}`),
    project,
    repository: RepositoryName.make(repository),
    generation: Generation.make(generation),
    sandbox,
    process: someProcess(ids).toString()
  })
}

const { Contended, Full, Replaced, Won } = ClaimAnswer

const rowsLeft = Effect.map(sql("select id::text from repository_claims order by id"), (rows) =>
  rows.map((row) => row["id"])
)

/** The same statements, inside a transaction that stays open at the barrier, and ends as its last argument says. */
const insideHeld = insideHeldOf(RepositoryClaims, adapter)

const standalone = <A, E>(act: (claims: RepositoryClaims["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(RepositoryClaims, act)

const prompt = Effect.timeout("3 seconds")

describe("RepositoryClaims", () => {
  it.live("SP-LEASE-02 a loser learns who holds the repository and since when, and another one is free", () =>
    Effect.gen(function* () {
      const runtime = yield* seedRuntime()
      const claims = yield* RepositoryClaims
      const first = claimOf(runtime)
      assert.deepStrictEqual(yield* claims.claim(first), Won())
      const [row] = yield* sql(
        "select (extract(epoch from claimed_at) * 1000)::float8 as since from repository_claims"
      )
      assert.deepStrictEqual(
        yield* claims.claim(claimOf(runtime)),
        ClaimAnswer.Held({ process: first.process, sinceMillis: Math.floor(Number(row?.["since"])) })
      )
      assert.deepStrictEqual(yield* claims.claim(claimOf(runtime, "tools")), Won())
      assert.deepStrictEqual(yield* claims.claim(claimOf(yield* seedRuntime("second"))), Won())
      assert.strictEqual(yield* claims.release(first), "released")
      assert.deepStrictEqual(yield* claims.claim(claimOf(runtime)), Won())
    }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-02 SP-LEASE-03 claims asked for at once have one winner, and releases end each its own",
    () =>
      Effect.gen(function* () {
        const claims = yield* RepositoryClaims
        const runtime = yield* seedRuntime()
        const rivals = [1, 2, 3].map(() => claimOf(runtime))
        const apart = [4, 5].map((number) => claimOf(runtime, `apart-${number}`))
        const all = [...rivals, ...apart]
        const asked = Effect.forEach(all, (each) => Effect.map(claims.claim(each), ({ _tag }) => _tag), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(yield* asked, ["Won", "Held", "Held", "Won", "Won"])
        const ended = Effect.forEach(all, claims.release, { concurrency: "unbounded" })
        assert.deepStrictEqual(yield* ended, ["released", "absent", "absent", "released", "released"])
        assert.deepStrictEqual(yield* rowsLeft, [])
      }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-02 in both orders a claim beside one that has not committed waits for nothing, and learns the winner behind it",
    () =>
      Effect.gen(function* () {
        const claims = yield* RepositoryClaims
        const fresh = Effect.map(seedRuntime(`project-${(ids += 1)}`), (runtime) => ({
          one: claimOf(runtime),
          other: claimOf(runtime)
        }))
        const both = yield* bothOrders(
          fresh,
          ({ one }, held) => insideHeld((joined) => joined.claim(one), held),
          ({ other }, held) => insideHeld((joined) => joined.claim(other), held)
        )
        const expected = {
          holder: Exit.succeed(Won()),
          contender: Exit.succeed(Contended()),
          waited: false
        }
        assert.deepStrictEqual(both, { firstHolds: expected, secondHolds: expected })
        const pair = yield* fresh
        yield* claims.claim(pair.one)
        assert.deepInclude(yield* claims.claim(pair.other), { _tag: "Held", process: pair.one.process })
      }).pipe(onClone)
  )

  it.live("SP-LEASE-02 where the winner rolls back, nobody holds the repository and the loser wins it", () =>
    Effect.gen(function* () {
      const claims = yield* RepositoryClaims
      const runtime = yield* seedRuntime()
      const [winner, loser] = [claimOf(runtime), claimOf(runtime)]
      const seen = yield* sideBySide(
        (held) => insideHeld((joined) => joined.claim(winner), held, Effect.fail("rolled back")),
        claims.claim(loser)
      )
      assert.isTrue(Exit.isFailure(seen.holder))
      assert.deepStrictEqual(seen.contender, Exit.succeed(Contended()))
      assert.isFalse(seen.waited)
      assert.deepStrictEqual(yield* claims.claim(loser), Won())
      assert.deepStrictEqual(yield* rowsLeft, [loser.id])
    }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-04 in both orders a repair and a rival's claim wait for nothing, and one of them has it",
    () =>
      Effect.gen(function* () {
        const claims = yield* RepositoryClaims
        const fresh = Effect.map(seedRuntime(`project-${(ids += 1)}`), (runtime) => ({
          kept: claimOf(runtime),
          rival: claimOf(runtime)
        }))
        const repair = (kept: RepositoryClaim) => (joined: RepositoryClaims["Service"]) =>
          Effect.map(
            joined.renew(kept.process, [{ claim: kept, restorable: true }]),
            ([first]) => first?.outcome
          )
        const one = yield* fresh
        const repaired = yield* sideBySide(
          (held) => insideHeld(repair(one.kept), held),
          standalone((root) => root.claim(one.rival))
        )
        assert.deepStrictEqual(repaired, {
          holder: Exit.succeed("restored" as const),
          contender: Exit.succeed(Contended()),
          waited: false
        })
        assert.deepInclude(yield* claims.claim(one.rival), { _tag: "Held", process: one.kept.process })
        const two = yield* fresh
        const claimed = yield* sideBySide(
          (held) => insideHeld((joined) => joined.claim(two.rival), held),
          standalone(repair(two.kept))
        )
        assert.deepStrictEqual(claimed, {
          holder: Exit.succeed(Won()),
          contender: Exit.succeed("absent" as const),
          waited: false
        })
        assert.strictEqual(yield* repair(two.kept)(claims), "successor")
      }).pipe(onClone)
  )

  it.live("SP-LEASE-01 no statement waits behind a history transaction that holds the runtime's row", () => {
    const { calls, layer, reset } = countingFixture()
    return Effect.gen(function* () {
      const runtime = yield* seedRuntime()
      const claims = yield* RepositoryClaims
      const [first, second] = [claimOf(runtime, "one"), claimOf(runtime, "two")]
      const writer = yield* heldTransaction(
        Effect.andThen(
          sqlInside("update runtimes set refresh_epoch = refresh_epoch + 1"),
          sqlInside("insert into history_deletions (project_id) values ($1::bigint)", [runtime.project])
        )
      )
      assert.deepStrictEqual(yield* sql("select 1 from runtimes for update skip locked"), [])
      reset()
      assert.deepStrictEqual(yield* prompt(claims.claim(first)), Won())
      const kept = [first, second].map((claim) => ({ claim, restorable: true }))
      const outcomes = yield* prompt(claims.renew(first.process, kept))
      assert.sameMembers(
        outcomes.map(({ outcome }) => outcome),
        ["renewed", "restored"]
      )
      assert.deepStrictEqual(yield* prompt(claims.whyUnusable(first)), Option.none())
      assert.strictEqual(yield* prompt(claims.release(first)), "released")
      const inventory = yield* prompt(claims.inventory(node))
      assert.deepStrictEqual(yield* prompt(claims.deleteObserved(inventory)), [second.id])
      assert.deepStrictEqual(calls, { queries: 6, transactions: 0 }, "each is one standalone statement")
      yield* writer.release
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.live("SP-LEASE-07 a machine that was replaced gives no claim, and none of its claims is renewed", () =>
    Effect.gen(function* () {
      const runtime = yield* seedRuntime()
      const claims = yield* RepositoryClaims
      const old = claimOf(runtime)
      assert.deepStrictEqual(yield* claims.claim(claimOf(runtime, "ahead", 2)), Replaced())
      yield* claims.claim(old)
      yield* sql("update repository_claims set heartbeat_at = '2000-01-01'")
      yield* sql("update runtimes set generation = 2")
      assert.deepStrictEqual(yield* claims.whyUnusable(old), Option.some("generation"))
      const renewed = yield* claims.renew(old.process, [{ claim: old, restorable: true }])
      assert.deepStrictEqual(renewed, [{ id: old.id, outcome: "generation" }])
      assert.lengthOf(yield* sql("select 1 from repository_claims where heartbeat_at = '2000-01-01'"), 1)
      yield* claims.release(old)
      assert.deepStrictEqual(yield* claims.claim(claimOf(runtime)), Replaced())
      yield* sql("update runtimes set generation = 1, observed = 'deleted'")
      assert.deepStrictEqual(yield* claims.claim(claimOf(runtime)), Replaced())
      assert.deepStrictEqual(yield* rowsLeft, [])
    }).pipe(onClone)
  )

  it.live(
    "FC-15 a Project full of claims gives no further one, holds those it has, and another Project does",
    () =>
      Effect.gen(function* () {
        const runtime = yield* seedRuntime()
        const claims = yield* RepositoryClaims
        const last = claimOf(runtime, "last")
        yield* sql(
          `insert into repository_claims (project_id, repository, id, generation, sandbox_id, process)
          select $1::bigint, 'r' || n, gen_random_uuid(), 1, $2, 'p' from generate_series(2, $3::int) n`,
          [runtime.project, runtime.sandbox, projectRepositoriesMax]
        )
        assert.deepStrictEqual(yield* claims.claim(last), Won())
        assert.deepStrictEqual(yield* claims.claim(claimOf(runtime, "further")), Full())
        assert.deepInclude(yield* claims.claim(claimOf(runtime, "r2")), { _tag: "Held" })
        assert.deepStrictEqual(yield* claims.claim(claimOf(yield* seedRuntime("other"))), Won())
        yield* claims.release(last)
        assert.deepStrictEqual(yield* claims.claim(claimOf(runtime, "further")), Won())
      }).pipe(onClone)
  )

  it.live("a path with a segment of dots, or none, or an empty one, names no repository", () =>
    Effect.sync(() => {
      const named = (text: string) =>
        Option.isSome(Effect.runSync(Effect.option(Effect.try(() => RepositoryName.make(text)))))
      for (const text of ["a", "a/b", ".git", "a..b", "_x-1/y.git"]) assert.isTrue(named(text), text)
      for (const text of [
        "",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "a/.",
        "a b",
        "é",
        "a\n",
        "x".repeat(401)
      ]) {
        assert.isFalse(named(text), text)
      }
    })
  )
})
