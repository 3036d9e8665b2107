/** Lives of leases that come together share statements, and each has its own row, refusal and patience; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { environmentLeasesLiveMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { EnvironmentId, type EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { newEnvironment, newRun, newTenant, onClone, reuseFixture } from "../../domain/runLeases/fixture.ts"
import { stores } from "../../domain/runLeases/leaseStores.ts"
import { leaseRowsOf, newLease, setLease, sql } from "../../domain/runLeases/rawRows.ts"
import { clone } from "../../support/clone.ts"
import { makeBarrier, sideBySide, waitingForLocks } from "../../support/sideBySide.ts"
import { waitFor } from "../../support/waiting.ts"
import { acquisition, claimOf, intention, statementHeld } from "./leaseRequests.ts"

/** The stores of a clone over a handle that counts statements by their operation. */
const counting = () => {
  const counts = new Map<string, number>()
  const observed = Layer.effect(
    PluginDb,
    Effect.map(PluginDb, (db) =>
      PluginDb.of({
        ...db,
        query: (query) =>
          Effect.suspend(() => {
            counts.set(query.operation, (counts.get(query.operation) ?? 0) + 1)
            return db.query(query)
          })
      })
    )
  )
  return { counts, layer: stores.pipe(Layer.provideMerge(observed), Layer.provideMerge(clone(6))) }
}

const released = { status: "released", failureReason: null, cleanupStatus: "success", actor: "run" } as const

describe("leases that come together", () => {
  it.live(
    "P15 twenty lives at once take few statements, and each has its own row and its own refusal",
    () => {
      const { counts, layer } = counting()
      return Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const here = { tenant: yield* newTenant, environment: yield* newEnvironment("sandbox") }
        const life = (place: number) =>
          Effect.gen(function* () {
            const told = { providerLeaseId: `s${place}`, metadata: { place }, expiresAtMillis: 1_000 + place }
            const asked = acquisition(here, told)
            yield* leases.intend(intention(here, { id: asked.id }))
            const lease = yield* leases.acquireLease(asked)
            assert.deepInclude(lease, { id: asked.id, ...told })
            const end = yield* leases.releaseLease(lease.id, released)
            assert.deepInclude(Option.getOrThrow(end), { id: lease.id, status: "released" })
          })
        const lives = Array.from({ length: 20 }, (_, place) => life(place))
        yield* Effect.all(lives, { concurrency: "unbounded" })
        for (const method of ["intend", "acquireLease", "releaseLease"]) {
          assert.isAtMost(counts.get(`EnvironmentLeaseStore.${method}`) ?? 0, 4, method)
        }
        assert.deepStrictEqual(yield* leases.intents, [])
        yield* sql(
          "alter table environment_leases add constraint unlucky check (provider_lease_id <> 's7') not valid"
        )
        const ends = yield* Effect.all(lives.map(Effect.result), { concurrency: "unbounded" })
        const failures: ReadonlyArray<unknown> = ends.flatMap((each) =>
          Result.isFailure(each) ? [each.failure] : []
        )
        assert.strictEqual(failures.length, 1)
        assert.deepInclude(failures[0], { _tag: "StorageFailure", constraint: "unlucky" })
        assert.strictEqual((yield* leaseRowsOf(here.environment.id)).length, 39)
        assert.strictEqual((yield* leases.intents).length, 1)
      }).pipe(Effect.scoped, Effect.provide(layer))
    }
  )

  it.live("RL-ACQ-10 what an acquisition answers is what its row says, whatever a provider returned", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const here = { tenant: yield* newTenant, environment: yield* newEnvironment("sandbox") }
      const metadata = {
        zero: "a\0b",
        half: "\ud800",
        none: undefined,
        deep: { list: [1, null, { z: 1.5 }] }
      }
      const asked = {
        ...acquisition(here, { metadata, expiresAtMillis: 1_766_000_000_123 }),
        sentConfig: metadata
      }
      const answered = yield* leases.acquireLease(asked)
      assert.deepStrictEqual(Option.some(answered), yield* leases.getLeaseById(asked.id))
      assert.deepStrictEqual(yield* leases.acquireLease(asked), answered)
    }).pipe(onClone)
  )

  it.live("FC-15 of several that come together for the last place of an environment one has it", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const here = { tenant: yield* newTenant, environment: yield* newEnvironment("sandbox") }
      yield* sql(
        `insert into environment_leases (id, tenant_id, environment_id)
          select gen_random_uuid(), $1::uuid, $2::uuid from generate_series(1, ${environmentLeasesLiveMax - 1})`,
        [here.tenant, here.environment.id]
      )
      const all = <A, E, R>(each: () => Effect.Effect<A, E, R>) =>
        Effect.all(
          Array.from({ length: 3 }, () => Effect.result(each())),
          { concurrency: "unbounded" }
        )
      const intents = yield* all(() => leases.intend(intention(here)))
      assert.deepStrictEqual(intents.map(Result.isSuccess).toSorted(), [false, false, true])
      const taken = yield* all(() => leases.acquireLease(acquisition(here)))
      assert.deepStrictEqual(taken.map(Result.isSuccess).toSorted(), [false, false, true])
    }).pipe(onClone)
  )

  it.live(
    "RL 5.2 of two ends of one lease at once one is written and answered, and the other finds it ended",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const here = { tenant: yield* newTenant, environment: yield* newEnvironment("sandbox") }
        const lease = yield* leases.acquireLease(acquisition(here))
        const end = (actor: string) =>
          leases.releaseLease(lease.id, { ...released, status: "failed", failureReason: actor, actor })
        const [one, two] = yield* Effect.all([end("one"), end("two")], { concurrency: "unbounded" })
        assert.deepInclude(Option.getOrThrow(one), { endedBy: "one", failureReason: "one" })
        assert.deepStrictEqual(two, Option.none())
      }).pipe(onClone)
  )

  it.live(
    "RL-REL-01 runs and environments that are asked for together are each answered with their own",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const environments = yield* EnvironmentStore
        const [one, two] = [yield* reuseFixture(), yield* reuseFixture()]
        const none = yield* newRun(one.tenant, one.agent)
        const held = yield* Effect.forEach([one.run, two.run, none.id, one.run], leases.heldByRun, {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(
          held.map((each) => each.map(({ environment, lease }) => [lease.id, environment])),
          [[[one.lease, one.environment]], [[two.lease, two.environment]], [], [[one.lease, one.environment]]]
        )
        const places = yield* Effect.forEach(
          [two.environment.id, one.environment.id, EnvironmentId.make(one.tenant), two.environment.id],
          environments.getById,
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(places, [
          Option.some(two.environment),
          Option.some(one.environment),
          Option.none(),
          Option.some(two.environment)
        ])
        yield* setLease(one.lease, { environment_id: null })
        const [alone] = yield* leases.heldByRun(one.run)
        assert.strictEqual(alone?.lease.id, one.lease)
        assert.isNull(alone?.environment)
      }).pipe(onClone)
  )

  const writes = {
    releases: (id: EnvironmentLeaseId) =>
      EnvironmentLeaseStore.use((leases) => leases.releaseLease(id, released)),
    claims: (id: EnvironmentLeaseId) =>
      EnvironmentLeaseStore.use((leases) => leases.claimCleanup(claimOf(id)))
  }
  it.live.each(["releases", "claims"] as const)(
    "RL-FENCE-02 %s in one statement take their rows by id, so that they wait for others and deadlock with nobody",
    (kind) =>
      Effect.gen(function* () {
        const here = { tenant: yield* newTenant, environment: yield* newEnvironment("sandbox") }
        const ids = [yield* newLease(here.tenant, null), yield* newLease(here.tenant, null)].toSorted()
        const touch = "update environment_leases set provider = 'touched' where id = $1::uuid"
        const seen = yield* sideBySide(
          (held) =>
            PluginDb.use((db) =>
              db.transaction(
                "test.touch",
                PluginTx.use((tx) =>
                  Effect.forEach(ids, (id, place) =>
                    Effect.andThen(
                      tx.query({ operation: "test.touch", text: touch, parameters: [id] }),
                      place === 0 ? held : Effect.void
                    )
                  )
                )
              )
            ),
          Effect.forEach(ids.toReversed(), writes[kind], { concurrency: "unbounded" })
        )
        assert.isTrue(seen.waited)
        assert.isTrue(Exit.isSuccess(seen.holder))
        assert.isTrue(Exit.isSuccess(seen.contender) && seen.contender.value.every(Option.isSome))
      }).pipe(onClone)
  )

  it.live("RL-FENCE-01 a claim that waits for its run's row keeps no other claim waiting", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const waiting = yield* reuseFixture({ runStatus: "failed" })
      const other = yield* reuseFixture()
      const { arrive, open, reached } = yield* makeBarrier("the run's change")
      const text = "update core.runs set status = 'running' where id = $1::uuid"
      const change = yield* Effect.forkChild(statementHeld(text, [waiting.run], arrive))
      yield* reached
      const guarded = claimOf(waiting.lease, { refuseLiveRun: true })
      const late = yield* Effect.forkChild(leases.claimCleanup(guarded), { startImmediately: true })
      yield* waitFor({ fact: "the claim waits", look: waitingForLocks, holds: (count) => count === 1 })
      const prompt = yield* Effect.timeout(leases.claimCleanup(claimOf(other.lease)), "3 seconds")
      assert.isTrue(Option.isSome(prompt))
      yield* open
      yield* Fiber.join(change)
      assert.deepStrictEqual(yield* Fiber.join(late), Option.none())
    }).pipe(onClone)
  )
})
