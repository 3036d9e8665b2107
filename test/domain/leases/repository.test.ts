/** Claiming repositories: one winner at any time, who has it, and how long one waits; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import {
  projectRepositoriesMax,
  repositoryContendedLooksMax,
  repositoryContendedMillis,
  repositoryPollMillis,
  repositoryWaitMillisMax
} from "../../../src/domain/Bounds.ts"
import { heartbeat } from "../../../src/domain/leases/heartbeat.ts"
import { RepositoryName } from "../../../src/domain/leases/RepositoryClaim.ts"
import { ClaimAnswer, RepositoryClaims } from "../../../src/domain/leases/RepositoryClaims.ts"
import { claim, holders, sleepless } from "./claims.ts"
import {
  asProcess,
  countingFixture,
  exited,
  fixtureOver,
  onClone,
  seedRuntime,
  someProcess,
  sql
} from "./fixture.ts"

describe("many at once", () => {
  const keys = Array.from({ length: 10 }, (_, key) => `repository-${key}`)
  const wide = Effect.provide(fixtureOver((db) => db, 50))

  it.live(
    "FC-10 of 50 claims on 10 repositories by 50 processes 10 win, and 40 learn which process holds theirs",
    () =>
      Effect.gen(function* () {
        const runtime = yield* seedRuntime()
        const claims = yield* Effect.forEach(Array.from({ length: 50 }), (_, n) =>
          Effect.gen(function* () {
            const identity = someProcess(n + 1)
            const asHolder = yield* asProcess(identity)
            const name = keys[n % 10]!
            return { name, process: identity.toString(), claiming: claim(runtime, name).pipe(asHolder) }
          })
        )
        const ends = yield* Effect.forEach(
          claims,
          ({ claiming, name, process }) =>
            Effect.map(Effect.result(claiming), (result) => ({ name, process, result })),
          { concurrency: "unbounded" }
        )
        const winners = ends.filter(({ result }) => result._tag === "Success")
        assert.sameMembers(
          winners.map(({ name }) => name),
          keys
        )
        const holderOf = new Map(winners.map(({ name, process }) => [name, process]))
        const losers = ends.flatMap(({ name, result }) =>
          result._tag === "Failure" ? [{ name, refusal: result.failure }] : []
        )
        assert.lengthOf(losers, 40)
        for (const { name, refusal } of losers) {
          assert.deepInclude(refusal, {
            code: "repository_busy",
            repository: RepositoryName.make(name),
            holder: holderOf.get(name) ?? "nobody"
          })
        }
        assert.sameDeepMembers(
          yield* holders,
          winners.map(({ name, process }) => [name, process])
        )
      }).pipe(Effect.scoped, wide)
  )

  it.live("SP-LEASE-02 over 1,000 claims and releases a repository has at most one holder at any time", () =>
    Effect.gen(function* () {
      const runtime = yield* seedRuntime()
      const inside = new Map<string, number>()
      const seen = { won: 0, lost: 0, most: 0 }
      const worker = Effect.fnUntraced(function* (n: number) {
        const asHolder = yield* asProcess(someProcess(n + 1))
        for (let turn = 0; turn < 20; turn += 1) {
          const name = keys[(n + turn * 7) % 10]!
          const handle = yield* Effect.option(claim(runtime, name).pipe(asHolder))
          if (Option.isNone(handle)) {
            seen.lost += 1
            continue
          }
          const now = (inside.get(name) ?? 0) + 1
          inside.set(name, now)
          seen.most = Math.max(seen.most, now)
          seen.won += 1
          yield* Effect.yieldNow
          inside.set(name, now - 1)
          assert.strictEqual(yield* handle.value.finalize(exited), "released")
        }
      })
      yield* Effect.forEach(Array.from({ length: 50 }), (_, n) => Effect.scoped(worker(n)), {
        concurrency: "unbounded"
      })
      assert.strictEqual(seen.most, 1)
      assert.strictEqual(seen.won + seen.lost, 1_000)
      assert.isAbove(seen.won, 10)
      assert.isAbove(seen.lost, 0)
      assert.deepStrictEqual(yield* holders, [])
    }).pipe(Effect.scoped, wide)
  )
})

describe("waiting", () => {
  it.live("looks every 100 ms for 10 s, then names the holder and since when it has the repository", () =>
    Effect.gen(function* () {
      const holder = someProcess()
      const asHolder = yield* asProcess(holder)
      const asOther = yield* asProcess(someProcess(7))
      const runtime = yield* seedRuntime()
      yield* claim(runtime).pipe(asHolder)
      const [row] = yield* sql(
        "select floor(extract(epoch from claimed_at) * 1000)::float8 as since from repository_claims"
      )
      const clock = yield* sleepless()
      let looks = 0
      const counted = Effect.updateService(RepositoryClaims, (claims) => ({
        ...claims,
        claim: (asked) => {
          looks += 1
          return claims.claim(asked)
        }
      }))
      const refusal = yield* claim(runtime, "app", 1e9).pipe(counted, asOther, clock.provide, Effect.flip)
      assert.deepInclude(refusal, {
        code: "repository_busy",
        holder: holder.toString(),
        sinceMillis: Number(row?.["since"])
      })
      assert.strictEqual(clock.sleptMillis(), repositoryWaitMillisMax)
      assert.strictEqual(looks, repositoryWaitMillisMax / repositoryPollMillis + 1)
    }).pipe(onClone)
  )

  it.live("a repository that becomes free while somebody waits is his at the next look", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const asOther = yield* asProcess(someProcess(7))
      const runtime = yield* seedRuntime()
      const first = yield* claim(runtime).pipe(asHolder)
      const clock = yield* sleepless()
      let looks = 0
      const freeing = Effect.updateService(RepositoryClaims, (claims) => ({
        ...claims,
        claim: (asked) =>
          Effect.tap(claims.claim(asked), () => {
            looks += 1
            // The claim under test has no word for a first holder who cannot let go.
            return looks === 3 ? Effect.orDie(first.finalize(exited)) : Effect.void
          })
      }))
      const second = yield* claim(runtime, "app", 10_000).pipe(freeing, asOther, clock.provide)
      assert.strictEqual(looks, 4)
      assert.strictEqual(clock.sleptMillis(), 3 * repositoryPollMillis)
      yield* second.confirm.pipe(clock.provide)
    }).pipe(onClone)
  )

  it.live("a lost try costs one statement, and its scope has nothing left to settle", () => {
    const { calls, layer, reset } = countingFixture()
    return Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      yield* claim(runtime).pipe(asHolder)
      reset()
      yield* claim(runtime).pipe(asHolder, Effect.scoped, Effect.flip)
      assert.deepStrictEqual(calls, { queries: 1, transactions: 0 })
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.live(
    "a rival whose claim never commits is told as that, and a wait that is interrupted leaves nothing",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        const clock = yield* sleepless()
        const contended = Effect.updateService(RepositoryClaims, (claims) => ({
          ...claims,
          claim: () => Effect.succeed(ClaimAnswer.Contended())
        }))
        const refusal = yield* claim(runtime).pipe(contended, asHolder, clock.provide, Effect.flip)
        assert.deepInclude(refusal, { code: "repository_busy", holder: null, sinceMillis: null })
        assert.strictEqual(clock.sleptMillis(), repositoryContendedLooksMax * repositoryContendedMillis)
        yield* claim(runtime).pipe(asHolder)
        const asOther = yield* asProcess(someProcess(7))
        const waiting = yield* Deferred.make<void>()
        const told = Effect.updateService(RepositoryClaims, (claims) => ({
          ...claims,
          claim: (asked) => Effect.tap(claims.claim(asked), Deferred.succeed(waiting, undefined))
        }))
        const waiter = yield* claim(runtime, "app", 10_000).pipe(
          told,
          asOther,
          Effect.scoped,
          Effect.forkChild({ startImmediately: true })
        )
        yield* Deferred.await(waiting)
        yield* Fiber.interrupt(waiter)
        assert.lengthOf(yield* holders, 1)
        assert.deepStrictEqual((yield* heartbeat().pipe(asOther)).repositories, [])
      }).pipe(onClone)
  )

  it.live("FC-15 a Project full of claims, and a machine that was replaced, refuse at once by name", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      yield* sql(
        `insert into repository_claims (project_id, repository, id, generation, sandbox_id, process)
          select $1::bigint, 'r' || n, gen_random_uuid(), 1, $2, 'p' from generate_series(1, $3::int) n`,
        [runtime.project, runtime.sandbox, projectRepositoriesMax]
      )
      const full = yield* claim(runtime, "app", 10_000).pipe(asHolder, Effect.flip)
      assert.deepInclude(full, { code: "repositories_full", repositoriesMax: projectRepositoriesMax })
      yield* sql("delete from repository_claims")
      yield* sql("update runtimes set generation = 2")
      const replaced = yield* claim(runtime, "app", 10_000).pipe(asHolder, Effect.flip)
      assert.deepInclude(replaced, { code: "lease_lost", reason: "generation" })
    }).pipe(onClone)
  )
})
