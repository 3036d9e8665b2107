/** The sweep: only dead holders, only the holder that was seen, and tombstones until their generation ends. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  cancelTombstoneSeconds,
  cancelTombstonesKeptMin,
  projectLeasesMax
} from "../../../src/domain/Bounds.ts"
import { Generation, type SandboxId } from "../../../src/domain/Identity.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { claimRepository } from "../../../src/domain/leases/repository.ts"
import { RepositoryName } from "../../../src/domain/leases/RepositoryClaim.ts"
import { sweepInventory, sweepLeases } from "../../../src/domain/leases/sweep.ts"
import { countCalls, failNext } from "../../../src/infra/guests/scriptedState.ts"
import {
  admitShell,
  asProcess,
  asSweeper,
  exited,
  Guests,
  onClone,
  leaseRows,
  node,
  processesThat,
  seedRuntime,
  someProcess,
  sql,
  startGuest
} from "./fixture.ts"

const silence = Effect.andThen(
  sql("update execution_leases set heartbeat_at = now() - interval '1 hour'"),
  sql("update repository_claims set heartbeat_at = now() - interval '1 hour'")
)
const repository = RepositoryName.make("app")
const allAlive = asSweeper("alive")
const allDead = asSweeper("dead")

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
      const swept = yield* sweepLeases(node).pipe(asSweeper(liveness))
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
            `insert into execution_leases (id, project_id, generation, sandbox_id, process, label, cancel, heartbeat_at)
            select gen_random_uuid(), $1::bigint, 1, 'sb', 'p', 'sh', 'verified', now() - make_interval(secs => $3::int + n)
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

  const guestOf = Effect.fnUntraced(function* (sandbox: SandboxId) {
    const { guests } = yield* Guests
    return Option.getOrThrow(Option.fromUndefinedOr(guests.get(sandbox)))
  })

  it.live.each([
    ["is paused", { isPaused: true }, { isPaused: false }],
    [
      "has lost its first process but not the others",
      { isAlive: false, hasStragglers: true },
      { hasStragglers: false }
    ],
    ["contradicts its record", { groups: "replaced" }, { groups: "same" }]
  ] as const)(
    "SP-LEASE-06 a dead daemon's leases stay while its guest %s, and go when it is known what became of them",
    ([, spoiled, mended]) =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        yield* startGuest(runtime)
        const guest = yield* guestOf(runtime.sandbox)
        yield* admitShell(runtime).pipe(asHolder)
        yield* claimRepository({ ...runtime, repository, generation: Generation.make(1) }).pipe(asHolder)
        yield* silence
        Object.assign(guest, spoiled)
        assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 0, ended: 0 })
        assert.lengthOf(yield* leaseRows, 1)
        Object.assign(guest, mended)
        assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 2, ended: 0 })
      }).pipe(onClone)
  )

  it.live.each(["inspect", "ping"] as const)(
    "SP-LEASE-06 a running guest that fails at %s keeps a dead daemon's lease until it answers",
    (call) =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        yield* startGuest(runtime)
        yield* admitShell(runtime).pipe(asHolder)
        yield* silence
        failNext(yield* Guests, call)
        assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 0, ended: 0 })
        assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 1, ended: 0 })
      }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-06 of a dead daemon's leases in two guests only those go whose guest is known to be gone",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const [paused, gone] = [yield* seedRuntime("paused"), yield* seedRuntime("gone")]
        yield* startGuest(paused)
        Object.assign(yield* guestOf(paused.sandbox), { isPaused: true })
        const kept = yield* admitShell(paused).pipe(asHolder)
        yield* admitShell(gone).pipe(asHolder)
        yield* silence
        assert.deepStrictEqual(yield* sweepLeases(node).pipe(allDead), { swept: 1, ended: 0 })
        assert.deepStrictEqual(
          (yield* leaseRows).map((row) => row["id"]),
          [kept.lease.id]
        )
      }).pipe(onClone)
  )

  it.live("SP-LEASE-06 a running guest is opened once, before the leases of the dead go", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      const guests = yield* Guests
      yield* startGuest(runtime)
      yield* Effect.replicateEffect(admitShell(runtime).pipe(asHolder), 3)
      yield* silence
      let opened = 0
      const watch = Effect.updateService(LeaseStore, (store) => ({
        ...store,
        deleteObserved: (observed) =>
          Effect.suspend(() => {
            opened = countCalls(guests, "ping", runtime.sandbox)
            return store.deleteObserved(observed)
          })
      }))
      assert.deepStrictEqual(yield* sweepLeases(node).pipe(watch, allDead), { swept: 3, ended: 0 })
      assert.strictEqual(opened, 1)
      assert.strictEqual(countCalls(guests, "inspect", runtime.sandbox), 1)
    }).pipe(onClone)
  )

  it.live("a row of this process without a holder goes, a silent one with a holder stays", () =>
    Effect.gen(function* () {
      const own = someProcess()
      const asOwn = yield* asProcess(own)
      const runtime = yield* seedRuntime()
      const held = yield* admitShell(runtime).pipe(asOwn)
      const lost = yield* admitShell(runtime).pipe(asOwn)
      const place = { ...runtime, generation: Generation.make(1) }
      yield* claimRepository({ ...place, repository }).pipe(asOwn)
      yield* sql("update execution_leases set id = gen_random_uuid() where id = $1::uuid", [lost.lease.id])
      yield* sql(
        `insert into repository_claims (project_id, repository, id, generation, sandbox_id, process)
          values ($1::bigint, 'unheld', gen_random_uuid(), 1, $2, $3)`,
        [runtime.project, runtime.sandbox, own.toString()]
      )
      const alive = Effect.provide(processesThat(own, "alive"))
      assert.deepStrictEqual(yield* sweepLeases(node).pipe(asOwn, alive), { swept: 0, ended: 0 })
      yield* silence
      assert.deepStrictEqual(yield* sweepLeases(node).pipe(asOwn, alive), { swept: 2, ended: 0 })
      assert.deepStrictEqual(
        (yield* leaseRows).map((row) => row["id"]),
        [held.lease.id]
      )
      assert.deepStrictEqual(yield* sql("select repository from repository_claims"), [{ repository }])
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
