/** The sweep: only dead holders, only the holder that was seen, and tombstones until their generation ends. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import {
  cancelTombstoneSeconds,
  cancelTombstonesKeptMin,
  projectLeasesMax
} from "../../../src/domain/Bounds.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { sweepInventory, sweepLeases } from "../../../src/domain/leases/sweep.ts"
import {
  admitShell,
  asProcess,
  exited,
  onClone,
  leaseRows,
  node,
  processesThat,
  seedRuntime,
  someProcess,
  sql
} from "./fixture.ts"

const silence = sql("update execution_leases set heartbeat_at = now() - interval '1 hour'")
const allAlive = Effect.provide(processesThat(someProcess(1), "alive"))
const allDead = Effect.provide(processesThat(someProcess(1), "dead"))

describe("sweep", () => {
  it.live("SP-LEASE-03 a sweep keeps the lease of a successor that appeared after the inventory", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const successor = someProcess(7).toString()
      const runtime = yield* seedRuntime()
      const taken = yield* admitShell(runtime).pipe(asHolder)
      const left = yield* admitShell(runtime).pipe(asHolder)
      const store = yield* LeaseStore
      yield* silence
      const inventory = yield* store.inventory(node)
      assert.lengthOf(inventory, 2)
      yield* sql("update execution_leases set process = $1 where id = $2::uuid", [successor, taken.lease.id])
      assert.deepStrictEqual(yield* sweepInventory(inventory).pipe(allDead), [left.lease.id])
      assert.deepStrictEqual(
        (yield* leaseRows).map((row) => row["process"]),
        [successor]
      )
    }).pipe(onClone)
  )

  it.live("SP-LEASE-03 an end deletes the lease of its own process only", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      const taken = yield* admitShell(runtime).pipe(asHolder)
      const own = yield* admitShell(runtime).pipe(asHolder)
      yield* sql("update execution_leases set process = 'another' where id = $1::uuid", [taken.lease.id])
      assert.deepInclude(yield* taken.finalize(exited), { outcome: "absent" })
      assert.deepInclude(yield* own.finalize(exited), { outcome: "released" })
      assert.deepStrictEqual(
        (yield* leaseRows).map((row) => row["id"]),
        [taken.lease.id]
      )
    }).pipe(onClone)
  )

  it.live.each(["alive", "elsewhere"] as const)("a silent holder that is %s keeps its lease", (liveness) =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      yield* silence
      const swept = yield* sweepLeases(node).pipe(Effect.provide(processesThat(someProcess(1), liveness)))
      assert.deepStrictEqual(swept, { swept: 0, ended: 0 })
      assert.lengthOf(yield* leaseRows, 1)
    }).pipe(onClone)
  )

  it.live("a lease within its term is not swept even where its holder looks dead", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 0, ended: 0 })
      yield* silence
      assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 1, ended: 0 })
    }).pipe(onClone)
  )

  it.live(
    "FC-15 a Project full of leases and marks admits no execution, and does so again once old marks went",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const [runtime, other] = [yield* seedRuntime(), yield* seedRuntime("other")]
        const admit = (scene: typeof runtime) => admitShell(scene).pipe(asHolder)
        const mark = (rows: number, ageSeconds: number) =>
          sql(
            `insert into execution_leases (id, project_id, generation, process, label, cancel, heartbeat_at)
            select gen_random_uuid(), $1::bigint, 1, 'p', 'sh', 'verified', now() - make_interval(secs => $3::int + n)
            from generate_series(1, $2::int) n`,
            [runtime.project, rows, ageSeconds]
          )
        yield* mark(10, cancelTombstoneSeconds)
        yield* mark(projectLeasesMax - 11, 0)
        yield* admit(runtime)
        const refused = yield* Effect.flip(admit(runtime))
        assert.deepInclude(refused, {
          code: "leases_full",
          project: runtime.project,
          leasesMax: projectLeasesMax
        })
        yield* admit(other)
        yield* sql("update execution_leases set heartbeat_at = now() where cancel = 'none'")
        assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 0, ended: 10 }, "a day old")
        yield* admit(runtime)
        yield* sql("update execution_leases set heartbeat_at = heartbeat_at - interval '30 days'")
        let ended = 0
        for (let pass = 0; pass < 10; pass += 1) ended += (yield* sweepLeases(node).pipe(allAlive)).ended
        assert.strictEqual(
          ended,
          projectLeasesMax - 11 - cancelTombstonesKeptMin,
          "the newest stay, however old"
        )
      }).pipe(onClone)
  )

  it.live("a verified cancellation keeps its tombstone until its generation ends", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      const handle = yield* admitShell(runtime).pipe(asHolder)
      const store = yield* LeaseStore
      yield* silence
      const inventory = yield* store.inventory(node)
      yield* handle.requestCancel
      yield* handle.finalize(exited)
      assert.deepStrictEqual(yield* sweepInventory(inventory).pipe(allDead), [])
      assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 0, ended: 0 })
      assert.deepInclude((yield* leaseRows)[0], { cancel: "verified" })
      const unproven = yield* admitShell(runtime).pipe(asHolder)
      yield* silence
      yield* sql("update runtimes set generation = 2")
      assert.deepStrictEqual(yield* sweepLeases(node).pipe(allAlive), { swept: 0, ended: 1 })
      assert.deepStrictEqual(
        (yield* leaseRows).map((row) => row["id"]),
        [unproven.lease.id]
      )
    }).pipe(onClone)
  )
})
