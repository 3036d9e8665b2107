/** The heartbeat: renewal, repair, the holder's own fence, and the end of a successor's patience; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { executionLeaseSeconds } from "../../../src/domain/Bounds.ts"
import { heartbeat } from "../../../src/domain/leases/heartbeat.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import {
  admitShell,
  asProcess,
  countingFixture,
  exited,
  onClone,
  leaseRows,
  node,
  seedRuntime,
  someProcess,
  sql,
  steeredClock
} from "./fixture.ts"

const termMillis = executionLeaseSeconds * 1_000
const silence = sql("update execution_leases set heartbeat_at = now() - interval '1 hour'")

/** Gives every lease of the node to another process, as a daemon does that goes on with a dead one's work. */
const takeAllOver = Effect.fnUntraced(function* (successor: string) {
  const store = yield* LeaseStore
  const observed = yield* store.inventory(node)
  return yield* Effect.forEach(observed, (lease) => store.takeOver(lease, successor))
})

describe("heartbeat", () => {
  it.live("SP-LEASE-04 a row that vanished while its holder lives is brought back as it was", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      const before = yield* leaseRows
      yield* sql("delete from execution_leases")
      const { outcomes } = yield* heartbeat().pipe(asHolder)
      assert.deepStrictEqual(outcomes, [{ id: handle.lease.id, outcome: "restored", cancel: "none" }])
      assert.deepStrictEqual(yield* leaseRows, before)
      yield* handle.confirm
    }).pipe(onClone)
  )

  it.live("SP-LEASE-04 a lease that a successor holds is neither renewed nor taken back", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const successor = someProcess(7).toString()
      const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      yield* silence
      yield* takeAllOver(successor)
      yield* silence
      const { outcomes } = yield* heartbeat().pipe(asHolder)
      assert.deepInclude(outcomes[0], { outcome: "successor" })
      assert.isFalse(yield* handle.isValid)
      assert.deepInclude((yield* leaseRows)[0], { process: successor })
      assert.lengthOf(
        yield* sql("select 1 from execution_leases where heartbeat_at > now() - interval '1 min'"),
        0
      )
    }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-04 a lease that a successor took and ended is not revived by a holder past its term",
    () =>
      Effect.gen(function* () {
        const clock = yield* steeredClock
        yield* Effect.gen(function* () {
          const asHolder = yield* asProcess(someProcess())
          const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
          yield* sql("delete from execution_leases")
          yield* clock.advance(termMillis)
          const { outcomes } = yield* heartbeat().pipe(asHolder)
          assert.deepInclude(outcomes[0], { outcome: "expired" })
          assert.deepStrictEqual(yield* leaseRows, [])
          assert.isFalse(yield* handle.isValid)
        }).pipe(clock.provide)
      }).pipe(onClone)
  )

  it.live("a row restored only after the term is not used again", () =>
    Effect.gen(function* () {
      const clock = yield* steeredClock
      yield* Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
        yield* sql("delete from execution_leases")
        yield* clock.advance(termMillis - 1_000)
        const slow = Effect.updateService(LeaseStore, (store) => ({
          ...store,
          renew: (process, kept) => Effect.tap(store.renew(process, kept), clock.advance(2_000))
        }))
        yield* heartbeat().pipe(slow, asHolder)
        assert.isFalse(yield* handle.isValid)
      }).pipe(clock.provide)
    }).pipe(onClone)
  )

  it.live("FC-12 A's lease expires, B takes it, A ends: B still holds it", () =>
    Effect.gen(function* () {
      const asA = yield* asProcess(someProcess())
      const b = someProcess(7).toString()
      const handle = yield* admitShell(yield* seedRuntime()).pipe(asA)
      yield* silence
      assert.deepStrictEqual(yield* takeAllOver(b), [true])
      assert.deepInclude(yield* Effect.flip(handle.confirm), { reason: "successor" })
      assert.deepInclude(yield* handle.finalize(exited), { outcome: "absent" })
      yield* heartbeat().pipe(asA)
      assert.deepStrictEqual(
        (yield* leaseRows).map((row) => [row["id"], row["process"]]),
        [[handle.lease.id, b]]
      )
    }).pipe(onClone)
  )

  it.live("a lease within its term is not taken over, whatever the rival's clock says", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      assert.deepStrictEqual(yield* takeAllOver(someProcess(7).toString()), [false])
      yield* handle.confirm
    }).pipe(onClone)
  )

  it.live(
    "FC-11 a holder fences itself one term after its last renewal was sent, not after it was answered",
    () =>
      Effect.gen(function* () {
        const clock = yield* steeredClock
        yield* Effect.gen(function* () {
          const asHolder = yield* asProcess(someProcess())
          const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
          yield* clock.advance(termMillis - 5_000)
          assert.isTrue(yield* handle.isValid)
          const slow = Effect.updateService(LeaseStore, (store) => ({
            ...store,
            renew: (process, kept) => Effect.tap(store.renew(process, kept), clock.advance(15_000))
          }))
          yield* heartbeat().pipe(slow, asHolder)
          assert.isTrue(yield* handle.isValid)
          yield* clock.advance(5_000)
          assert.isFalse(yield* handle.isValid)
          assert.deepInclude(yield* Effect.flip(handle.confirm), { reason: "expired" })
        }).pipe(clock.provide)
      }).pipe(onClone)
  )

  it.live(
    "FC-11 expiry is the database's word: confirm refuses a lease that only its clock calls expired",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
        yield* silence
        assert.isTrue(yield* handle.isValid)
        assert.deepInclude(yield* Effect.flip(handle.confirm), { reason: "expired" })
      }).pipe(onClone)
  )

  it.live("a lease that ends while a heartbeat is on its way does not come back with it", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      const overtaken = Effect.updateService(LeaseStore, (store) => ({
        ...store,
        renew: (process, kept) => handle.finalize(exited).pipe(Effect.andThen(store.renew(process, kept)))
      }))
      const { outcomes } = yield* heartbeat().pipe(overtaken, asHolder)
      assert.deepInclude(outcomes[0], { outcome: "restored" })
      assert.deepStrictEqual(yield* leaseRows, [])
      assert.deepInclude(yield* handle.finalize(Option.none()), { outcome: "released" })
    }).pipe(onClone)
  )

  it.live("SP-LEASE-01 one heartbeat of many leases is one statement and no transaction", () => {
    const { calls, layer, reset } = countingFixture()
    return Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      yield* Effect.replicateEffect(admitShell(runtime).pipe(asHolder), 5)
      yield* sql("delete from execution_leases where id = (select id from execution_leases limit 1)")
      reset()
      const { outcomes } = yield* heartbeat().pipe(asHolder)
      assert.deepStrictEqual(calls, { queries: 1, transactions: 0 })
      assert.lengthOf(
        outcomes.filter(({ outcome }) => outcome === "renewed"),
        4
      )
      assert.lengthOf(yield* leaseRows, 5)
    }).pipe(Effect.scoped, Effect.provide(layer))
  })
})
