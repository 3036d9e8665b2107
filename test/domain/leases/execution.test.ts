/** Admission of executions, their handles, and the end of a lease on evidence; on a clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { SandboxId } from "../../../src/domain/Identity.ts"
import { admitExecution, holdExecution } from "../../../src/domain/leases/execution.ts"
import { heartbeat } from "../../../src/domain/leases/heartbeat.ts"
import { ExecutionEvidence, labelOfCommand } from "../../../src/domain/leases/Lease.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { finalizeProvenGone } from "../../../src/domain/leases/settlement.ts"
import { sweepInventory } from "../../../src/domain/leases/sweep.ts"
import { CommitUnknown } from "../../../src/domain/persistence/PluginDb.ts"
import { RuntimeObserved } from "../../../src/domain/runtimes/Runtime.ts"
import {
  admitShell,
  asProcess,
  asSweeper,
  breakTable,
  exited,
  onClone,
  fixtureOver,
  goneGuest,
  leaseRows,
  node,
  seedRuntime,
  someProcess,
  sql
} from "./fixture.ts"

const label = labelOfCommand(["sh", "-c", "true"])

describe("admitExecution", () => {
  it.live("writes the lease with the runtime's generation, this process and the command's first word", () =>
    Effect.gen(function* () {
      const identity = someProcess()
      const asHolder = yield* asProcess(identity)
      const runtime = yield* seedRuntime()
      yield* sql("update runtimes set generation = 3")
      const { lease, sandbox } = yield* admitShell(runtime).pipe(asHolder)
      assert.deepStrictEqual(yield* leaseRows, [
        { id: lease.id, process: identity.toString(), generation: 3, label: "sh", cancel: "none" }
      ])
      assert.strictEqual(sandbox, runtime.sandbox)
    }).pipe(onClone)
  )

  it.live("is refused in every state but running, and says which it is", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      for (const state of RuntimeObserved.literals.filter((observed) => observed !== "running")) {
        yield* sql("update runtimes set observed = $1", [state])
        const refusal = yield* admitShell(runtime).pipe(asHolder, Effect.flip)
        assert.deepInclude(refusal, { code: "runtime_not_running", state })
      }
      yield* sql("delete from runtimes")
      const refusal = yield* admitShell(runtime).pipe(asHolder, Effect.flip)
      assert.deepInclude(refusal, { code: "runtime_not_running", state: "unprovisioned" })
      assert.deepStrictEqual(yield* leaseRows, [])
    }).pipe(onClone)
  )

  it.live("is refused for a Project in deletion and for a membership revoked meanwhile", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      yield* sql("update core.memberships set role = 'viewer'")
      assert.deepInclude(yield* admitShell(runtime).pipe(asHolder, Effect.flip), { code: "access_refused" })
      yield* sql("update core.projects set lifecycle = 'deleting'")
      assert.deepInclude(yield* admitShell(runtime).pipe(asHolder, Effect.flip), {
        code: "project_not_active"
      })
      assert.deepStrictEqual(yield* leaseRows, [])
    }).pipe(onClone)
  )

  it.live("leaves no lease behind when the answer to its commit was lost", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      const scope = yield* Scope.make()
      const refusal = yield* admitShell(runtime).pipe(asHolder, Scope.provide(scope), Effect.flip)
      assert.deepInclude(refusal, { code: "commit_unknown" })
      assert.lengthOf(yield* leaseRows, 1)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* leaseRows, [])
    }).pipe(
      Effect.scoped,
      Effect.provide(
        fixtureOver((db) => ({
          ...db,
          transaction: (operation, body) =>
            db.transaction(operation, body).pipe(Effect.andThen(new CommitUnknown({ operation })))
        }))
      )
    )
  )
})

describe("an admission interrupted behind its commit", () => {
  const committed = Deferred.makeUnsafe<void>()
  const interrupted = Deferred.makeUnsafe<void>()
  const pausing = fixtureOver((db) => ({
    ...db,
    transaction: (operation, body) =>
      db.transaction(operation, body).pipe(
        Effect.tap(() => Effect.andThen(Deferred.succeed(committed, undefined), Deferred.await(interrupted))),
        Effect.uninterruptible
      )
  }))

  it.live("leaves no lease behind, since nothing can have been started under it", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      const admitting = yield* admitShell(runtime).pipe(asHolder, Effect.scoped, Effect.forkChild)
      yield* Effect.raceFirst(Deferred.await(committed), Effect.andThen(Fiber.await(admitting), Effect.never))
      assert.lengthOf(yield* leaseRows, 1)
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(admitting), { startImmediately: true })
      yield* Deferred.succeed(interrupted, undefined)
      yield* Fiber.join(interrupting)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(admitting)))
      assert.deepStrictEqual(yield* leaseRows, [])
    }).pipe(Effect.scoped, Effect.provide(pausing))
  )
})

describe("an execution under its lease", () => {
  it.live(
    "SP-LEASE-07 the lease stands from before the command to its evidence, whatever a sweep thinks",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const { caller, project } = yield* seedRuntime()
        const running = yield* Deferred.make<void>()
        const ending = yield* Deferred.make<void>()
        const holder = yield* holdExecution(caller, { project, label }, () =>
          Effect.gen(function* () {
            yield* Deferred.succeed(running, undefined)
            yield* Deferred.await(ending)
            return ["value", exited] as const
          })
        ).pipe(asHolder, Effect.forkChild)
        yield* Effect.raceFirst(Deferred.await(running), Fiber.join(holder))
        yield* sql("update execution_leases set heartbeat_at = now() - interval '1 hour'")
        const store = yield* LeaseStore
        const swept = yield* sweepInventory(yield* store.inventory(node)).pipe(asSweeper("alive"))
        assert.deepStrictEqual(swept, [])
        assert.lengthOf(yield* leaseRows, 1)
        yield* Deferred.succeed(ending, undefined)
        assert.deepInclude(yield* Fiber.join(holder), { value: "value" })
        assert.deepStrictEqual(yield* leaseRows, [])
      }).pipe(onClone)
  )

  it.live(
    "SP-LEASE-07 a lease of an older generation confirms nothing and is neither renewed nor restored",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const handle = yield* admitShell(yield* seedRuntime()).pipe(asHolder)
        yield* handle.confirm
        yield* sql("update runtimes set generation = 2")
        assert.deepInclude(yield* Effect.flip(handle.confirm), { code: "lease_lost", reason: "generation" })
        yield* sql("update execution_leases set heartbeat_at = '2000-01-01'")
        yield* heartbeat().pipe(asHolder)
        assert.isFalse(yield* handle.isValid)
        const renewed = yield* sql("select 1 from execution_leases where heartbeat_at > '2000-01-01'")
        assert.deepStrictEqual(renewed, [])
        const another = yield* asProcess(someProcess())
        yield* sql("update runtimes set generation = 1")
        const second = yield* admitShell({ ...(yield* seedRuntime("second")) }).pipe(another)
        yield* sql("update runtimes set generation = 2")
        yield* sql("delete from execution_leases where id = $1::uuid", [second.lease.id])
        yield* heartbeat().pipe(another)
        assert.deepStrictEqual(
          yield* sql("select 1 from execution_leases where id = $1::uuid", [second.lease.id]),
          []
        )
      }).pipe(onClone)
  )

  it.live.each([
    ["no evidence", () => Option.none()],
    [
      "a proof about another guest",
      () =>
        Option.some(
          ExecutionEvidence.cases.GuestGone.make({
            proof: goneGuest(SandboxId.make("sb-00000000-0000-4000-8000-000000000000"))
          })
        )
    ],
    [
      "a proof about another generation",
      (sandbox: SandboxId) =>
        Option.some(ExecutionEvidence.cases.GuestGone.make({ proof: goneGuest(sandbox, 2) }))
    ]
  ] as const)(
    "SP-LEASE-06 with %s the lease stays durable, is renewed, and ends with the guest's proof",
    ([, evidence]) =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        const outcome = yield* Effect.scoped(
          Effect.gen(function* () {
            const handle = yield* admitShell(runtime)
            return (yield* handle.finalize(evidence(runtime.sandbox))).outcome
          })
        ).pipe(asHolder)
        assert.strictEqual(outcome, "retained")
        yield* sql("update execution_leases set heartbeat_at = '2000-01-01'")
        assert.deepInclude((yield* heartbeat().pipe(asHolder)).outcomes[0], { outcome: "renewed" })
        assert.lengthOf(yield* leaseRows, 1)
        assert.strictEqual(yield* finalizeProvenGone(goneGuest(runtime.sandbox)).pipe(asHolder), 1)
        assert.deepStrictEqual(yield* leaseRows, [])
      }).pipe(onClone)
  )

  it.live("SP-LEASE-06 a holder that dies or is interrupted leaves its lease durable", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const { caller, project } = yield* seedRuntime()
      const died = yield* holdExecution(caller, { project, label }, () => Effect.die("bug")).pipe(
        asHolder,
        Effect.exit
      )
      assert.isTrue(Exit.isFailure(died))
      const running = yield* Deferred.make<void>()
      const holder = yield* holdExecution(caller, { project, label }, () =>
        Deferred.succeed(running, undefined).pipe(Effect.andThen(Effect.never))
      ).pipe(asHolder, Effect.forkChild)
      yield* Effect.raceFirst(Deferred.await(running), Fiber.join(holder))
      yield* Fiber.interrupt(holder)
      yield* heartbeat().pipe(asHolder)
      assert.lengthOf(yield* leaseRows, 2)
    }).pipe(onClone)
  )

  it.live("a settlement that the database refused is done behind a later heartbeat", () =>
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const runtime = yield* seedRuntime()
      const handle = yield* admitExecution(runtime.caller, { project: runtime.project, label }).pipe(asHolder)
      const { mend } = yield* breakTable("execution_leases", "delete")
      assert.deepInclude(yield* Effect.flip(handle.finalize(exited)), { code: "storage_failure" })
      assert.isFalse(yield* handle.isValid)
      assert.strictEqual((yield* heartbeat().pipe(asHolder)).settlementsLeft, 1)
      yield* mend
      assert.strictEqual((yield* heartbeat().pipe(asHolder)).settlementsLeft, 0)
      assert.deepStrictEqual(yield* leaseRows, [])
    }).pipe(onClone)
  )
})
