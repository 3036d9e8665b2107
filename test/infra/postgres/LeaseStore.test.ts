/** The lease table's statements beside an open resource-history transaction; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Generation, LeaseId } from "../../../src/domain/Identity.ts"
import { Lease, labelOfCommand } from "../../../src/domain/leases/Lease.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { RepositoryClaim, RepositoryName } from "../../../src/domain/leases/RepositoryClaim.ts"
import { RepositoryClaims } from "../../../src/domain/leases/RepositoryClaims.ts"
import { recordSample } from "../../../src/domain/sampling/refresh.ts"
import {
  countingFixture,
  fixture,
  heldTransaction,
  node,
  type SeededRuntime,
  seedRuntime,
  sql,
  sqlInside
} from "../../domain/leases/fixture.ts"
import { candidate } from "../../domain/sampling/samples.ts"

const leaseOf = ({ project, sandbox }: SeededRuntime, digit: number) =>
  new Lease({
    id: LeaseId.make(`00000000-0000-4000-8000-00000000000${digit}`),
    project,
    generation: Generation.make(1),
    sandbox,
    process: `daemon/${node}/boot/1/1`,
    label: labelOfCommand(["sh"])
  })

/** Buckets that were closed and are not committed: it holds the runtime's row and new history rows. */
const openHistory = Effect.fnUntraced(function* ({ project }: SeededRuntime) {
  yield* recordSample(project, candidate({ values: { pids: 3 } }))
  const closing = sqlInside("update runtimes set refresh_epoch = refresh_epoch + 1")
  const written = sqlInside("select 1 from resource_samples, resource_rollups")
  return yield* heldTransaction(
    Effect.map(Effect.andThen(closing, written), (rows) => assert.lengthOf(rows, 1))
  )
})

const prompt = Effect.timeout("3 seconds")

describe("LeaseStore", () => {
  it.live(
    "SP-LEASE-01 no lease statement waits behind a history transaction that holds the runtime's row",
    () => {
      const { calls, layer, reset } = countingFixture()
      return Effect.gen(function* () {
        const runtime = yield* seedRuntime()
        const store = yield* LeaseStore
        const [first, second, third] = [leaseOf(runtime, 1), leaseOf(runtime, 2), leaseOf(runtime, 3)]
        const all = [first, second, third].map(
          (lease) => ({ lease, cancel: "none", restorable: true }) as const
        )
        const writer = yield* openHistory(runtime)
        const locked = yield* sql("select 1 from runtimes for update skip locked")
        assert.deepStrictEqual(locked, [], "the history transaction holds the runtime's row")
        reset()
        const outcomes = (rows: ReadonlyArray<{ readonly outcome: string }>) => rows.map((row) => row.outcome)
        assert.deepStrictEqual(
          outcomes(yield* prompt(store.renew(first.process, all))),
          Array(3).fill("restored")
        )
        assert.deepStrictEqual(
          outcomes(yield* prompt(store.renew(first.process, all))),
          Array(3).fill("renewed")
        )
        assert.strictEqual(yield* prompt(store.settle(first)), "released")
        assert.deepStrictEqual(yield* prompt(store.requestCancel(second.id)), Option.some("requested"))
        assert.deepStrictEqual(yield* prompt(store.cancellation(second.id)), Option.some("requested"))
        assert.isTrue(yield* prompt(store.verifyCancel(second)))
        assert.deepStrictEqual(yield* prompt(store.whyUnusable(third)), Option.none())
        assert.lengthOf(yield* prompt(store.requestCancelOf(runtime.project)), 1)
        const inventory = yield* prompt(store.inventory(node))
        assert.deepStrictEqual(yield* prompt(store.deleteObserved(inventory)), [third.id])
        assert.strictEqual(yield* prompt(store.removeEnded), 0)
        assert.deepStrictEqual(calls, { queries: 11, transactions: 0 }, "each is one standalone statement")
        yield* writer.release
      }).pipe(Effect.scoped, Effect.provide(layer))
    }
  )

  it.live("settles in one statement, and looks twice only where the lease was not found", () => {
    const { calls, layer, reset } = countingFixture()
    return Effect.gen(function* () {
      const store = yield* LeaseStore
      const lease = leaseOf(yield* seedRuntime(), 1)
      yield* store.renew(lease.process, [{ lease, cancel: "none", restorable: true }])
      reset()
      assert.strictEqual(yield* store.settle(lease), "released")
      assert.strictEqual(calls.queries, 1)
      assert.strictEqual(yield* store.settle(lease), "absent")
      assert.strictEqual(calls.queries, 3)
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.live("lists the leases of a Project without tombstones", () => {
    const { layer } = countingFixture()
    return Effect.gen(function* () {
      const store = yield* LeaseStore
      const runtime = yield* seedRuntime()
      const leases = [leaseOf(runtime, 1), leaseOf(runtime, 2)] as const
      yield* store.renew(
        leases[0].process,
        leases.map((lease) => ({ lease, cancel: "none", restorable: true }))
      )
      yield* store.verifyCancel(leases[1])
      const listed = yield* store.ofProject(runtime.project)
      assert.deepStrictEqual(
        listed.map((lease) => [lease.id, lease.label, lease.cancel]),
        [[leases[0].id, "sh", "none"]]
      )
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.live("FC-11 a heartbeat that the server's clock has stepped back behind is zero milliseconds ago", () =>
    Effect.gen(function* () {
      const runtime = yield* seedRuntime()
      const leases = yield* LeaseStore
      const claims = yield* RepositoryClaims
      const lease = leaseOf(runtime, 1)
      yield* leases.renew(lease.process, [{ lease, cancel: "none", restorable: true }])
      const { generation, id, process, project, sandbox } = lease
      const repository = RepositoryName.make("app")
      yield* claims.claim(new RepositoryClaim({ id, project, repository, generation, sandbox, process }))
      for (const table of ["execution_leases", "repository_claims"]) {
        yield* sql(`update ${table} set heartbeat_at = now() + interval '1 hour'`)
      }
      const seen = [...(yield* leases.inventory(node)), ...(yield* claims.inventory(node))]
      assert.deepStrictEqual(
        seen.map(({ heartbeatAgeMillis }) => heartbeatAgeMillis),
        [0, 0]
      )
    }).pipe(Effect.scoped, Effect.provide(fixture))
  )
})
