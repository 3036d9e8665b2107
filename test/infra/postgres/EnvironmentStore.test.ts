/** Environments, their bindings, and when one may be deleted; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { EnvironmentId } from "../../../src/domain/Identity.ts"
import { sideBySide } from "../../support/sideBySide.ts"
import { newEnvironment, newTenant, onClone, reuseFixture } from "../../domain/runLeases/fixture.ts"
import { newLease, type RawLease, setLease, sql, value } from "../../domain/runLeases/rawRows.ts"
import { acquisition, insideHeld, statementHeld } from "./leaseRequests.ts"

const nowhere = EnvironmentId.make("00000000-0000-4000-8000-0000000000ee")

describe("EnvironmentStore", () => {
  it.live("RL 2.1 there is one local environment, names are unique, and what is not given stays", () =>
    Effect.gen(function* () {
      const store = yield* EnvironmentStore
      const local = yield* store.create({ name: "here", driver: "local", config: {} })
      assert.deepInclude(local, { description: null, status: "active", metadata: null, config: {} })
      const second = yield* Effect.flip(store.create({ name: "there", driver: "local", config: {} }))
      assert.deepInclude(second, { _tag: "EnvironmentExists", what: "local" })
      const taken = yield* Effect.flip(store.create({ name: "here", driver: "ssh", config: {} }))
      assert.deepInclude(taken, { _tag: "EnvironmentExists", what: "name" })
      const other = yield* store.create({ name: "a", description: "d", driver: "ssh", config: { host: "h" } })
      assert.deepStrictEqual(
        (yield* store.list).map(({ name }) => name),
        ["a", "here"]
      )
      assert.deepInclude(yield* Effect.flip(store.update(other.id, { driver: "local" })), { what: "local" })
      assert.deepInclude(yield* Effect.flip(store.update(other.id, { name: "here" })), { what: "name" })
      assert.deepInclude(yield* store.update(other.id, { status: "disabled" }), {
        name: "a",
        description: "d",
        driver: "ssh",
        config: { host: "h" },
        status: "disabled"
      })
      assert.isTrue(yield* store.remove(local.id))
      assert.deepInclude(yield* store.update(other.id, { driver: "local", config: {} }), {
        driver: "local",
        config: {}
      })
      assert.deepStrictEqual(yield* store.getById(local.id), Option.none())
      assert.isFalse(yield* store.remove(local.id))
      assert.strictEqual((yield* Effect.flip(store.update(nowhere, {})))._tag, "EnvironmentAbsent")
    }).pipe(onClone)
  )

  it.live(
    "RL 2.1 a binding takes the place of the former one of its resource key, and goes with its environment",
    () =>
      Effect.gen(function* () {
        const store = yield* EnvironmentStore
        const tenant = yield* newTenant
        const [one, two] = [yield* newEnvironment("sandbox"), yield* newEnvironment("sandbox")]
        const bind = (environment: EnvironmentId, resourceKey = "managed-sandbox") =>
          store.bindManagedResource({ tenant, environment, resourceKey, stockVersion: 1, stockHash: "h" })
        const bound = Effect.map(
          sql("select resource_id from managed_resource_bindings order by resource_key"),
          (rows) => rows.map((row) => row["resource_id"])
        )
        yield* bind(one.id)
        yield* bind(two.id)
        yield* bind(one.id, "other")
        assert.deepStrictEqual(yield* bound, [two.id, one.id])
        assert.strictEqual((yield* Effect.flip(bind(nowhere)))._tag, "EnvironmentAbsent")
        yield* store.remove(two.id)
        assert.deepStrictEqual(yield* bound, [one.id])
      }).pipe(onClone)
  )

  const blocking: ReadonlyArray<readonly [RawLease, boolean]> = [
    [{ status: "active" }, true],
    [{ status: "released" }, true],
    [{ status: "retained" }, true],
    [{ status: "failed", cleanup_status: "success" }, true],
    [{ status: "pending_cleanup" }, true],
    [{ status: "expired" }, false]
  ]
  it.live(
    "RL-FENCE-04 a reusable lease that is not expired keeps its environment, and no other lease does",
    () =>
      Effect.gen(function* () {
        const store = yield* EnvironmentStore
        for (const [change, blocks] of blocking) {
          const scene = yield* reuseFixture()
          yield* newLease(scene.tenant, scene.environment.id, { status: "pending_cleanup" })
          yield* setLease(scene.lease, change)
          const removed = yield* store.removeIfDeletable(scene.environment.id)
          assert.strictEqual(Option.isNone(removed), blocks, JSON.stringify(change))
          if (!blocks) {
            assert.deepStrictEqual(Option.getOrThrow(removed), scene.environment)
            assert.deepStrictEqual(yield* store.removeIfDeletable(scene.environment.id), Option.none())
          }
        }
      }).pipe(onClone)
  )

  it.live(
    "RL-FENCE-04 beside the insert of a reusable lease, in both orders, no lease loses its environment",
    () =>
      Effect.gen(function* () {
        const store = yield* EnvironmentStore
        const leases = yield* EnvironmentLeaseStore
        const place = Effect.gen(function* () {
          return { tenant: yield* newTenant, environment: yield* newEnvironment("sandbox") }
        })
        const one = yield* place
        const reusable = (here: typeof one) => acquisition(here, { policy: "reuse_by_environment" })
        const inserted = yield* sideBySide(
          (held) => insideHeld((joined) => joined.acquireLease(reusable(one)), held),
          store.removeIfDeletable(one.environment.id)
        )
        assert.isTrue(inserted.waited)
        assert.deepStrictEqual(inserted.contender, Exit.succeed(Option.none()))
        assert.isTrue(Option.isSome(yield* store.getById(one.environment.id)))
        const two = yield* place
        const removed = yield* sideBySide(
          (held) =>
            statementHeld(
              "select * from remove_environment_if_deletable($1::uuid)",
              [two.environment.id],
              held
            ),
          Effect.flip(leases.acquireLease(reusable(two)))
        )
        assert.isTrue(removed.waited)
        assert.deepInclude(Exit.isSuccess(removed.contender) ? removed.contender.value : {}, {
          _tag: "StorageFailure",
          fault: "constraint",
          constraint: "environment_leases_environment_id_fkey"
        })
        assert.strictEqual(yield* value("select count(*)::int from environment_leases"), 1)
      }).pipe(onClone)
  )
})
