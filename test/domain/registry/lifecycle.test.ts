import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { startSandbox, stopSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import {
  countCalls,
  endByItself,
  failNext as failGuest,
  hold,
  reboot
} from "../../../src/infra/guests/scriptedState.ts"
import { failNext, lookAt, sandboxOf, withDeletion } from "./fixture.ts"
import { becomeStranger, freshNode, on, openNode, requestOf } from "./guestFixture.ts"

const one = sandboxOf(1)
const grace = { graceMillis: 0 }

const created = Effect.gen(function* () {
  const node = yield* freshNode()
  return { node, record: yield* on(node)(createSandbox(requestOf(1))) }
})
const started = Effect.gen(function* () {
  const { node } = yield* created
  return { node, identity: yield* on(node)(startSandbox(one)) }
})

describe("registry/lifecycle", () => {
  it.live("a start makes a guest of a fresh attempt that was durable before the launch", () =>
    Effect.gen(function* () {
      const { node, record } = yield* created
      const start = hold(node.guests, "start")
      const starting = yield* Effect.forkChild(on(node)(startSandbox(one)))
      yield* start.reached
      const onDisk = (yield* lookAt(node.directory)).get(one)!
      assert.strictEqual(onDisk.status, "Pending")
      assert.notStrictEqual(onDisk.attemptId, record.attemptId)
      yield* start.release
      const identity = yield* Fiber.join(starting)
      assert.strictEqual(identity.attemptId, onDisk.attemptId)
      assert.strictEqual((yield* lookAt(node.directory)).get(one)!.status, "Running")
    })
  )

  it.live("RG-COM-04 while a guest is launched, other sandboxes are created, started and read", () =>
    Effect.gen(function* () {
      const { node } = yield* created
      const start = hold(node.guests, "start")
      const starting = yield* Effect.forkChild(on(node)(startSandbox(one)))
      yield* start.reached
      yield* on(node)(createSandbox(requestOf(2)))
      yield* on(node)(stopSandbox(sandboxOf(2), grace))
      assert.strictEqual((yield* node.registry.get(one)).status, "Pending")
      assert.strictEqual((yield* node.registry.charges).sandboxes, 2)
      yield* start.release
      yield* Fiber.join(starting)
    })
  )

  it.live("RG-RUN-02 starts repeated and at once answer one guest, also after a restart of the node", () =>
    Effect.gen(function* () {
      const { node } = yield* created
      const identities = yield* Effect.all(
        Array.from({ length: 10 }, () => on(node)(startSandbox(one))),
        { concurrency: "unbounded" }
      )
      const restarted = yield* openNode(node.directory, node.guests)
      identities.push(yield* on(restarted)(startSandbox(one)))
      assert.strictEqual(new Set(identities.map(({ init }) => init.pid)).size, 1)
      assert.strictEqual(countCalls(node.guests, "start"), 1)
    })
  )

  it.live.each(["before", "after"] as const)(
    "a launch that fails %s it did anything leaves a Failed record, charged, and can be tried again",
    (when) =>
      Effect.gen(function* () {
        const { node } = yield* created
        failGuest(node.guests, "start", when)
        assert.strictEqual((yield* Effect.flip(on(node)(startSandbox(one))))._tag, "GuestFailure")
        const record = (yield* lookAt(node.directory)).get(one)!
        assert.strictEqual(record.status, "Failed")
        assert.include(record.statusReason!, "start")
        assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
        if (when === "after") endByItself(node.guests, one, null)
        yield* on(node)(startSandbox(one))
        assert.strictEqual((yield* node.registry.get(one)).status, "Running")
      })
  )

  it.live("no guest is launched when its attempt could not be made durable", () =>
    Effect.gen(function* () {
      const { node } = yield* created
      failNext(node.disk, "create")
      assert.strictEqual((yield* Effect.flip(on(node)(startSandbox(one))))._tag, "RegistryWriteFailed")
      failNext(node.disk, "sync")
      assert.strictEqual((yield* Effect.flip(on(node)(startSandbox(one))))._tag, "StorageFailed")
      assert.strictEqual(countCalls(node.guests, "start"), 0)
    })
  )

  it.live("a guest that ended by itself is started again as another run", () =>
    Effect.gen(function* () {
      const { identity, node } = yield* started
      endByItself(node.guests, one, 0)
      const second = yield* on(node)(startSandbox(one))
      assert.notStrictEqual(second.runId, identity.runId)
      assert.strictEqual(countCalls(node.guests, "start"), 2)
    })
  )

  it.live("what an earlier launch left half alive is ended before another is made", () =>
    Effect.gen(function* () {
      const { node } = yield* started
      endByItself(node.guests, one, 1)
      node.guests.guests.get(one)!.hasStragglers = true
      yield* on(node)(startSandbox(one))
      assert.strictEqual(countCalls(node.guests, "end"), 1)
      assert.isFalse(node.guests.guests.get(one)!.hasStragglers)
    })
  )

  it.live.each([
    [
      "whose guest is another attempt's",
      (node: Started) => Effect.sync(() => becomeStranger(node.guests, 1))
    ],
    ["that is paused", (node: Started) => Effect.sync(() => (node.guests.guests.get(one)!.isPaused = true))],
    [
      "whose cgroup is another",
      (node: Started) => Effect.sync(() => (node.guests.guests.get(one)!.groups = "replaced"))
    ],
    ["that is being deleted", (node: Started) => node.registry.update(one, withDeletion)],
    [
      "that is being stopped",
      (node: Started) =>
        node.registry.update(one, (record) =>
          Result.succeed(new SandboxRecord({ ...record, status: "Stopping" }))
        )
    ]
  ] as const)("a start of a sandbox %s is refused and launches nothing", ([, make]) =>
    Effect.gen(function* () {
      const { node } = yield* started
      yield* make(node)
      const before = yield* node.registry.get(one)
      const refusal = yield* Effect.flip(on(node)(startSandbox(one)))
      assert.strictEqual(refusal._tag, "SandboxStateRefused")
      assert.strictEqual(countCalls(node.guests, "start"), 1)
      assert.deepStrictEqual(yield* node.registry.get(one), before)
    })
  )

  it.live("a start of a sandbox that is being deleted does not even look at its guest", () =>
    Effect.gen(function* () {
      const { node } = yield* started
      yield* node.registry.update(one, withDeletion)
      const looks = countCalls(node.guests, "inspect")
      yield* Effect.flip(on(node)(startSandbox(one)))
      assert.strictEqual(countCalls(node.guests, "inspect"), looks)
    })
  )

  it.live("a deletion that comes during a launch wins: the start is refused and the guest is ended", () =>
    Effect.gen(function* () {
      const { node } = yield* created
      const start = hold(node.guests, "start")
      const starting = yield* Effect.forkChild(Effect.flip(on(node)(startSandbox(one))))
      yield* start.reached
      const deleting = yield* Effect.forkChild(
        on(node)(deleteSandbox(one, { reason: "user", actor: "tester" })).pipe(
          Effect.provideService(StepObserver, {
            before: () => Effect.void,
            after: (_, step) => (step === "intent" ? start.release : Effect.void)
          })
        )
      )
      assert.strictEqual((yield* Fiber.join(starting))._tag, "SandboxStateRefused")
      yield* Fiber.join(deleting)
      assert.isFalse(node.guests.guests.get(one)!.isAlive)
      assert.isFalse((yield* node.registry.inventory).has(one))
    })
  )

  it.live(
    "a stop is Stopping on disk before the guest is touched, then Terminated with the exit code, and charged",
    () =>
      Effect.gen(function* () {
        const { node } = yield* started
        endByItself(node.guests, one, 7)
        const end = hold(node.guests, "end")
        const stopping = yield* Effect.forkChild(on(node)(stopSandbox(one, grace)))
        yield* end.reached
        assert.strictEqual((yield* lookAt(node.directory)).get(one)!.status, "Stopping")
        yield* end.release
        assert.strictEqual((yield* Fiber.join(stopping))._tag, "Gone")
        const record = (yield* lookAt(node.directory)).get(one)!
        assert.deepInclude({ ...record }, { status: "Terminated", statusReason: "ended with exit code 7" })
        assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
        node.disk.calls.length = 0
        yield* on(node)(stopSandbox(one, grace))
        assert.deepStrictEqual(node.disk.calls, [])
      })
  )

  it.live("RG-DEL-06 a guest that cannot be proved gone stays Stopping, and the stop says so", () =>
    Effect.gen(function* () {
      const { node } = yield* started
      node.guests.guests.get(one)!.groups = "missing"
      assert.strictEqual((yield* Effect.flip(on(node)(stopSandbox(one, grace))))._tag, "AbsenceNotProved")
      assert.strictEqual((yield* node.registry.get(one)).status, "Stopping")
    })
  )

  it.live("a stop of a sandbox that was lost to a reboot says so", () =>
    Effect.gen(function* () {
      const { node } = yield* started
      reboot(node.guests)
      yield* on(node)(stopSandbox(one, grace))
      assert.include((yield* node.registry.get(one)).statusReason!, "reboot")
    })
  )

  it.live(
    "a stop of a sandbox that is being deleted ends the guest and leaves the record to the deletion",
    () =>
      Effect.gen(function* () {
        const { node } = yield* started
        const before = yield* node.registry.update(one, withDeletion)
        yield* on(node)(stopSandbox(one, grace))
        assert.isFalse(node.guests.guests.get(one)!.isAlive)
        assert.deepStrictEqual(yield* node.registry.get(one), before)
      })
  )
})

type Started = Effect.Success<typeof started>["node"]
