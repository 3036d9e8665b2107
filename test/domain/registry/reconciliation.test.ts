import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { startSandbox, stopSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { observeStep } from "../../../src/domain/registry/observeStep.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import {
  countCalls,
  endByItself,
  failNext as failGuest,
  hold,
  reboot
} from "../../../src/infra/guests/scriptedState.ts"
import { failNext, sandboxOf, withDeletion } from "./fixture.ts"
import { becomeStranger, freshNode, on, openNode, requestOf, type TestNode } from "./guestFixture.ts"

const one = sandboxOf(1)

/** A node with sandboxes 1 to n, all started. */
const running = (count = 1) =>
  Effect.gen(function* () {
    const node = yield* freshNode()
    for (let number = 1; number <= count; number += 1) {
      yield* on(node)(createSandbox(requestOf(number)))
      yield* on(node)(startSandbox(sandboxOf(number)))
    }
    return node
  })

const restart = (node: TestNode) => openNode(node.directory, node.guests)

const verdicts = (node: TestNode) =>
  Effect.map(on(node)(reconcileSandboxes), (reconciled) =>
    Object.fromEntries(reconciled.map(({ sandbox, verdict }) => [Number(sandbox.slice(-2)), verdict]))
  )

describe("registry/reconciliation", () => {
  it.live("RG-RUN-02 after a restart a running guest is adopted, and no second one is made", () =>
    Effect.gen(function* () {
      const node = yield* restart(yield* running())
      assert.deepStrictEqual(yield* verdicts(node), { 1: "keep" })
      assert.strictEqual((yield* node.registry.get(one)).status, "Running")
      assert.strictEqual(countCalls(node.guests, "start"), 1)
      assert.strictEqual(countCalls(node.guests, "end"), 0)
    })
  )

  it.live(
    "RG-RUN-03 every record is reconciled: lost, strange, half dead, stopping, deleted and untouched ones",
    () =>
      Effect.gen(function* () {
        const before = yield* running(7)
        const { guests } = before
        endByItself(guests, sandboxOf(1), 3)
        becomeStranger(guests, 2)
        endByItself(guests, sandboxOf(3), null)
        guests.guests.get(sandboxOf(3))!.hasStragglers = true
        failGuest(guests, "end")
        yield* Effect.flip(on(before)(stopSandbox(sandboxOf(4), { graceMillis: 0 })))
        yield* before.registry.update(sandboxOf(5), withDeletion)
        guests.guests.get(sandboxOf(6))!.groups = "missing"
        yield* on(before)(createSandbox(requestOf(8)))
        const node = yield* restart(before)
        assert.deepStrictEqual(yield* verdicts(node), {
          1: "status",
          2: "status",
          3: "end",
          4: "end",
          5: "delete",
          6: "status",
          7: "keep",
          8: "keep"
        })
        const inventory = yield* node.registry.inventory
        const told = Object.fromEntries(
          Array.from(inventory.values(), ({ id, status }) => [Number(id.slice(-2)), status])
        )
        assert.deepStrictEqual(told, {
          1: "Failed",
          2: "Failed",
          3: "Failed",
          4: "Terminated",
          6: "Running",
          7: "Running",
          8: "Pending"
        })
        assert.isFalse(guests.guests.get(sandboxOf(3))!.hasStragglers)
        assert.isFalse(guests.guests.get(sandboxOf(4))!.isAlive)
        assert.isTrue(guests.guests.get(sandboxOf(7))!.isAlive)
        assert.strictEqual((yield* node.registry.charges).sandboxes, 7)
        // Once more there is nothing left to do.
        node.disk.calls.length = 0
        assert.notInclude(Object.values(yield* verdicts(node)), "status")
        assert.deepStrictEqual(
          node.disk.calls.filter((call) => call.startsWith("create")),
          []
        )
      })
  )

  it.live("RG-DEL-02 a lost guest's record is kept, charged, over any number of passes", () =>
    Effect.gen(function* () {
      const node = yield* running()
      reboot(node.guests)
      for (let pass = 0; pass < 3; pass += 1) yield* verdicts(node)
      const record = yield* node.registry.get(one)
      assert.deepInclude({ ...record }, { status: "Failed", statusReason: "lost to a reboot of the machine" })
      assert.strictEqual((yield* node.registry.charges).cpuMillis, 100)
    })
  )

  it.live(
    "RG-RUN-03 a daemon that dies at any step of a start leaves one guest or none, and a record that says so",
    () =>
      Effect.gen(function* () {
        for (let at = 0; ; at += 1) {
          const before = yield* freshNode()
          yield* on(before)(createSandbox(requestOf(1)))
          let seen = 0
          const die = () =>
            Effect.suspend(() => (seen++ === at ? Effect.die("the daemon died here") : Effect.void))
          const exit = yield* Effect.exit(
            on(before)(startSandbox(one)).pipe(
              Effect.provideService(StepObserver, { before: die, after: die })
            )
          )
          if (Exit.isSuccess(exit)) {
            assert.isAtLeast(at, 6)
            break
          }
          const node = yield* restart(before)
          yield* verdicts(node)
          const { status } = yield* node.registry.get(one)
          const isAlive = node.guests.guests.get(one)?.isAlive ?? false
          assert.strictEqual(status, isAlive ? "Running" : "Pending")
          yield* on(node)(startSandbox(one))
          assert.strictEqual((yield* node.registry.get(one)).status, "Running")
          assert.strictEqual([...node.guests.guests.values()].filter((guest) => guest.isAlive).length, 1)
        }
      })
  )

  it.live("a sandbox that somebody works on is left to him, and does not hold up the pass", () =>
    Effect.gen(function* () {
      const node = yield* running(2)
      const end = hold(node.guests, "end")
      const stopping = yield* Effect.forkChild(on(node)(stopSandbox(one, { graceMillis: 0 })))
      yield* end.reached
      endByItself(node.guests, sandboxOf(2), 0)
      assert.deepStrictEqual(yield* verdicts(node), { 1: "busy", 2: "status" })
      assert.strictEqual((yield* node.registry.get(one)).status, "Stopping")
      yield* end.release
      yield* Fiber.join(stopping)
    })
  )

  it.live(
    "FC-05 a sandbox that could not be reconciled is told as failed, with the reason; the others go on",
    () =>
      Effect.gen(function* () {
        const node = yield* running(2)
        failGuest(node.guests, "inspect")
        const reconciled = yield* on(node)(reconcileSandboxes)
        const failures = reconciled.filter(({ verdict }) => verdict === "failed")
        assert.strictEqual(failures.length, 1)
        assert.include(failures[0]!.why!, "inspect")
        assert.strictEqual(reconciled.filter(({ verdict }) => verdict === "keep").length, 1)
      })
  )

  it.live("FC-05 what cannot be ended is told as failed, and stays charged", () =>
    Effect.gen(function* () {
      const before = yield* running()
      before.guests.guests.get(one)!.hasStragglers = true
      endByItself(before.guests, one, 0)
      const node = yield* openNode(before.directory, before.guests, {
        supervisor: (real) => ({ ...real, end: real.inspect })
      })
      assert.deepStrictEqual(yield* verdicts(node), { 1: "failed" })
      assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
    })
  )

  it.live("RG-COM-05 a pass fails as a whole when the registry's storage has failed", () =>
    Effect.gen(function* () {
      const node = yield* running()
      failNext(node.disk, "sync")
      endByItself(node.guests, one, 0)
      assert.strictEqual((yield* Effect.flip(on(node)(reconcileSandboxes)))._tag, "StorageFailed")
    })
  )

  it.effect("a step's observer is called before and after it, and not after one that failed", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const note = (moment: string) => (program: string, step: string) =>
        Effect.sync(() => void seen.push(`${moment} ${program} ${step}`))
      const observed = <A, E>(effect: Effect.Effect<A, E>) =>
        observeStep("program", "step", effect).pipe(
          Effect.provideService(StepObserver, { before: note("before"), after: note("after") })
        )
      assert.strictEqual(yield* observed(Effect.succeed(7)), 7)
      yield* Effect.ignore(observed(Effect.fail("no")))
      assert.deepStrictEqual(seen, ["before program step", "after program step", "before program step"])
    })
  )
})
