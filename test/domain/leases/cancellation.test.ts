/** Cancellation of executions: the monotonic marker, its pending intent, and the signal to the holder; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { LeaseId } from "../../../src/domain/Identity.ts"
import {
  cancelExecutionFor,
  cancelExecutionsFor,
  cancelExecutionsOf,
  requestCancel
} from "../../../src/domain/leases/cancellation.ts"
import { heartbeat } from "../../../src/domain/leases/heartbeat.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import {
  admitShell,
  asProcess,
  breakTable,
  eventually,
  exited,
  onClone,
  heldTransaction,
  leaseRows,
  seedRuntime,
  someoneWaits,
  someProcess,
  sql,
  sqlInside
} from "./fixture.ts"

const markers = Effect.map(leaseRows, (rows) => rows.map((row) => row["cancel"]))

/** Notes when an intent has been written, and when the statements that must come after it are sent. */
const journalled = () => {
  const journal: Array<string> = []
  const note = (what: string) => Effect.sync(() => void journal.push(what))
  const watch = Effect.updateService(LeaseStore, (store) => ({
    ...store,
    requestCancel: (id) => Effect.tap(store.requestCancel(id), note("intent written")),
    cancellation: (id) => Effect.andThen(note("read sent"), store.cancellation(id)),
    verifyCancel: (lease) => Effect.andThen(note("end sent"), store.verifyCancel(lease))
  }))
  return { journal, watch }
}

describe("cancellation", () => {
  it.live(
    "SP-LEASE-05 a request returns before its intent is written, and the same handle's read awaits it",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const { journal, watch } = journalled()
        const handle = yield* admitShell(yield* seedRuntime()).pipe(watch, asHolder)
        const rival = yield* heldTransaction(sqlInside("select 1 from execution_leases for update"))
        yield* handle.requestCancel
        yield* handle.cancelRequested
        yield* eventually("the intent to wait for the row", someoneWaits)
        assert.deepStrictEqual(yield* markers, ["none"])
        const reading = yield* Effect.forkChild(handle.cancellation, { startImmediately: true })
        yield* rival.release
        assert.strictEqual(yield* Fiber.join(reading), "requested")
        assert.deepStrictEqual(journal, ["intent written", "read sent"])
      }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-05 the end awaits the pending intent and leaves a verified tombstone, not a deleted row",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const { journal, watch } = journalled()
        const handle = yield* admitShell(yield* seedRuntime()).pipe(watch, asHolder)
        const rival = yield* heldTransaction(sqlInside("select 1 from execution_leases for update"))
        yield* handle.requestCancel
        yield* eventually("the intent to wait for the row", someoneWaits)
        const ending = yield* Effect.forkChild(handle.finalize(exited), { startImmediately: true })
        yield* rival.release
        assert.deepInclude(yield* Fiber.join(ending), { outcome: "cancelled" })
        assert.deepStrictEqual(journal, ["intent written", "end sent"])
        assert.deepStrictEqual(yield* markers, ["verified"])
      }).pipe(onClone)
  )

  it.live(
    "SP-ADM-05 while core deletes the Project its leases are renewed, cancelled and settled, and none is admitted",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        const [ended, cancelled] = [
          yield* admitShell(runtime).pipe(asHolder),
          yield* admitShell(runtime).pipe(asHolder)
        ]
        yield* sql("update core.projects set lifecycle = 'deleting'")
        assert.strictEqual(
          (yield* Effect.flip(admitShell(runtime).pipe(asHolder, Effect.scoped)))._tag,
          "ProjectNotActive"
        )
        const { outcomes } = yield* heartbeat().pipe(asHolder)
        assert.deepStrictEqual(
          outcomes.map(({ outcome }) => outcome),
          ["renewed", "renewed"]
        )
        assert.deepInclude(yield* ended.finalize(exited), { outcome: "released" })
        assert.lengthOf(yield* cancelExecutionsOf(runtime.project).pipe(asHolder), 1)
        assert.deepInclude(yield* cancelled.finalize(exited), { outcome: "cancelled" })
        assert.deepStrictEqual(yield* markers, ["verified"])
      }).pipe(onClone)
  )

  it.live("SP-LEASE-05 a marker once set is never unset, by no request, heartbeat or restoration", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      const handle = yield* admitShell(runtime).pipe(asHolder)
      const store = yield* LeaseStore
      yield* requestCancel(handle.lease.id).pipe(asHolder)
      yield* heartbeat().pipe(asHolder)
      yield* store.renew(handle.lease.process, [{ lease: handle.lease, cancel: "none", restorable: true }])
      assert.deepStrictEqual(yield* markers, ["requested"])
      yield* sql("delete from execution_leases")
      yield* heartbeat().pipe(asHolder)
      assert.deepStrictEqual(yield* markers, ["requested"])
      yield* handle.finalize(exited)
      assert.deepStrictEqual(yield* store.requestCancel(handle.lease.id), Option.some("verified"))
      assert.deepStrictEqual(yield* cancelExecutionsOf(runtime.project).pipe(asHolder), [])
      assert.deepStrictEqual(yield* markers, ["verified"])
    }).pipe(onClone)
  )

  it.live("a late heartbeat revives no lease whose cancellation is verified", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      const store = yield* LeaseStore
      yield* handle.requestCancel
      yield* handle.finalize(exited)
      yield* sql("update execution_leases set heartbeat_at = '2000-01-01'")
      const late = [{ lease: handle.lease, cancel: "none", restorable: true }] as const
      assert.deepInclude((yield* store.renew(handle.lease.process, late))[0], { outcome: "cancelled" })
      assert.lengthOf(yield* sql("select 1 from execution_leases where heartbeat_at = '2000-01-01'"), 1)
    }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-06 an intent that cannot be written fails the read, reaches the end, and keeps the lease",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
        const { mend } = yield* breakTable("execution_leases", "update")
        yield* handle.requestCancel
        yield* handle.cancelRequested
        const reported = yield* Effect.flip(handle.cancellation)
        assert.deepInclude(reported, { code: "storage_failure", operation: "LeaseStore.requestCancel" })
        const unproven = yield* handle.finalize(Option.none())
        assert.strictEqual(unproven.outcome, "retained")
        assert.deepStrictEqual(unproven.intentFailure, Option.some(reported))
        assert.deepStrictEqual(yield* markers, ["none"])
        yield* mend
        const proven = yield* handle.finalize(exited)
        assert.deepStrictEqual(proven, { outcome: "cancelled", intentFailure: Option.some(reported) })
        assert.deepStrictEqual(yield* markers, ["verified"])
      }).pipe(onClone)
  )

  it.live("a holder in another process learns the request with its next heartbeat", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const asOther = yield* asProcess(someProcess(7))
      const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      assert.strictEqual(yield* requestCancel(handle.lease.id).pipe(asOther), "requested")
      yield* heartbeat().pipe(asHolder)
      yield* handle.cancelRequested
      assert.deepInclude(yield* handle.finalize(exited), { outcome: "cancelled" })
      const unknown = LeaseId.make("00000000-0000-4000-8000-000000000000")
      const refusal = yield* requestCancel(unknown).pipe(asOther, Effect.flip)
      assert.deepInclude(refusal, { code: "lease_not_found" })
    }).pipe(onClone)
  )

  it.live("a request that arrives between the end's two looks is verified, not lost", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
      const rival = yield* heldTransaction(sqlInside("update execution_leases set cancel = 'requested'"))
      const ending = yield* Effect.forkChild(handle.finalize(exited), { startImmediately: true })
      yield* eventually("the end to wait for the row", someoneWaits)
      yield* rival.release
      assert.deepInclude(yield* Fiber.join(ending), { outcome: "cancelled" })
      assert.deepStrictEqual(yield* markers, ["verified"])
    }).pipe(onClone)
  )

  it.live("cancelling a Project's executions reaches all of its holders and those of no other Project", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const asOther = yield* asProcess(someProcess(7))
      const runtime = yield* seedRuntime("one")
      const mine = yield* admitShell(runtime).pipe(asHolder)
      const theirs = yield* admitShell(runtime).pipe(asOther)
      const foreign = yield* admitShell(yield* seedRuntime("two")).pipe(asHolder)
      const owed = yield* cancelExecutionsOf(runtime.project).pipe(asHolder)
      assert.sameMembers(
        owed.map((lease) => lease.id),
        [mine.lease.id, theirs.lease.id]
      )
      yield* mine.cancelRequested
      yield* heartbeat().pipe(asOther)
      yield* theirs.cancelRequested
      assert.strictEqual(yield* foreign.cancellation, "none")
    }).pipe(onClone)
  )

  it.live(
    "SP-ADM-04 only who may write to the Project cancels its executions; nothing else is asked to end",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const seeded = yield* seedRuntime()
        const other = yield* seedRuntime("other")
        yield* asHolder(admitShell(seeded))
        yield* asHolder(admitShell(other))
        const refused = yield* Effect.flip(asHolder(cancelExecutionsFor(other.caller, seeded.project)))
        assert.strictEqual(refused._tag, "AccessRefused")
        yield* sql("update core.memberships set role = 'viewer' where account_id = $1::uuid", [
          seeded.caller.account
        ])
        const viewing = yield* Effect.flip(asHolder(cancelExecutionsFor(seeded.caller, seeded.project)))
        assert.strictEqual(viewing._tag, "AccessRefused")
        assert.deepStrictEqual(yield* markers, ["none", "none"])
        const asked = yield* asHolder(cancelExecutionsFor(other.caller, other.project))
        assert.deepStrictEqual(
          asked.map(({ project }) => project),
          [other.project]
        )
        assert.sameMembers([...(yield* markers)], ["none", "requested"])
      }).pipe(onClone)
  )

  it.live("SP-ADM-04 one execution is cancelled by who may write to its Project, wherever it is held", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const elsewhere = yield* asProcess(someProcess(4243))
      const seeded = yield* seedRuntime()
      const stranger = yield* seedRuntime("other")
      const { lease } = yield* asHolder(admitShell(seeded))
      for (const as of [asHolder, elsewhere]) {
        const refused = yield* Effect.flip(as(cancelExecutionFor(stranger.caller, lease.id)))
        assert.strictEqual(refused._tag, "AccessRefused")
        assert.deepStrictEqual(yield* markers, ["none"])
      }
      assert.strictEqual(yield* elsewhere(cancelExecutionFor(seeded.caller, lease.id)), "requested")
      assert.strictEqual(yield* asHolder(cancelExecutionFor(seeded.caller, lease.id)), "requested")
      const nobody = LeaseId.make("00000000-0000-4000-8000-000000000099")
      const missing = yield* Effect.flip(elsewhere(cancelExecutionFor(seeded.caller, nobody)))
      assert.strictEqual(missing._tag, "LeaseNotFound")
    }).pipe(onClone)
  )
})
