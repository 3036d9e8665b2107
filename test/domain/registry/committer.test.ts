import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import type { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { failNext, freshRegistry, hold, lookAt, recordOf, sandboxOf, withReason } from "./fixture.ts"

describe("registry/committer", () => {
  it.live("RG-COM-03 readers answer the last committed state while a commit's sync is held", () =>
    Effect.gen(function* () {
      const { disk, registry } = yield* freshRegistry()
      yield* registry.admit(recordOf(1))
      const sync = hold(disk, "sync")
      const update = yield* Effect.forkChild(registry.update(sandboxOf(1), withReason("after")))
      yield* sync.reached
      const inventory = yield* registry.inventory
      assert.strictEqual((yield* registry.get(sandboxOf(1))).statusReason, null)
      assert.strictEqual(inventory.get(sandboxOf(1))?.statusReason, null)
      yield* sync.release
      yield* Fiber.join(update)
      assert.strictEqual((yield* registry.get(sandboxOf(1))).statusReason, "after")
      // A reader keeps what it has begun with.
      assert.strictEqual(inventory.get(sandboxOf(1))?.statusReason, null)
    })
  )

  it.live("RG-COM-03 of many who ask for the last place at once exactly one gets it", () =>
    Effect.gen(function* () {
      const { registry } = yield* freshRegistry({
        capacity: { sandboxes: 3, cpuMillis: 10_000, memoryBytes: 1e9 }
      })
      const answers = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, number) => recordOf(number)),
        (record) => Effect.result(registry.admit(record)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(answers.filter(Result.isSuccess).length, 3)
      assert.deepStrictEqual(
        [...new Set(answers.filter(Result.isFailure).map(({ failure }) => failure._tag))],
        ["CapacityExceeded"]
      )
      assert.strictEqual((yield* registry.charges).sandboxes, 3)
    })
  )

  it.live(
    "RG-COM-03 writers that wait anyway share one sync, and the lead is handed on until all are answered",
    () =>
      Effect.gen(function* () {
        const { disk, directory, registry } = yield* freshRegistry()
        const sync = hold(disk, "sync")
        const first = yield* Effect.forkChild(registry.admit(recordOf(0)))
        yield* sync.reached
        const others = yield* Effect.forEach(
          Array.from({ length: 40 }, (_, index) => index + 1),
          (number) => Effect.forkChild(registry.admit(recordOf(number)))
        )
        yield* Effect.yieldNow
        yield* sync.release
        yield* Fiber.joinAll([first, ...others])
        assert.strictEqual(disk.calls.filter((call) => call === "sync records").length, 2)
        assert.strictEqual((yield* lookAt(directory)).size, 41)
      })
  )

  it.live("RG-COM-03 two changes of one sandbox at once are both made, one upon the other", () =>
    Effect.gen(function* () {
      const { registry } = yield* freshRegistry()
      yield* registry.admit(recordOf(1))
      const append = (record: SandboxRecord) => withReason(`${record.statusReason ?? ""}x`)(record)
      yield* Effect.all(
        Array.from({ length: 30 }, () => registry.update(sandboxOf(1), append)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual((yield* registry.get(sandboxOf(1))).statusReason, "x".repeat(30))
    })
  )

  it.live("a mutation goes on when its caller hangs up", () =>
    Effect.gen(function* () {
      const { directory, disk, registry } = yield* freshRegistry()
      const create = hold(disk, "create")
      const caller = yield* Effect.forkChild(registry.admit(recordOf(1)))
      yield* create.reached
      const leaving = yield* Effect.forkChild(Fiber.interrupt(caller))
      yield* create.release
      yield* Fiber.join(leaving)
      assert.isTrue((yield* registry.inventory).has(sandboxOf(1)))
      assert.isTrue((yield* lookAt(directory)).has(sandboxOf(1)))
    })
  )

  it.live("RG-COM-03 a change does not rest on an earlier one of its sandbox that could not be written", () =>
    Effect.gen(function* () {
      const { disk, registry } = yield* freshRegistry()
      yield* registry.admit(recordOf(1))
      const append = (letter: string) =>
        registry.update(sandboxOf(1), (record) => withReason(`${record.statusReason ?? ""}${letter}`)(record))
      const sync = hold(disk, "sync")
      const leader = yield* Effect.forkChild(registry.admit(recordOf(2)))
      yield* sync.reached
      failNext(disk, "create")
      const first = yield* Effect.forkChild(Effect.result(append("a")))
      const second = yield* Effect.forkChild(append("b"))
      yield* Effect.yieldNow
      yield* sync.release
      yield* Fiber.join(leader)
      assert.isTrue(Result.isFailure(yield* Fiber.join(first)))
      assert.strictEqual((yield* Fiber.join(second)).statusReason, "b")
    })
  )

  it.live("RG-COM-03 writers that come back at once share a sync again and again", () =>
    Effect.gen(function* () {
      const { disk, registry } = yield* freshRegistry()
      const writers = Array.from({ length: 8 }, (_, number) => number)
      yield* Effect.forEach(writers, (number) => registry.admit(recordOf(number)))
      disk.calls.length = 0
      yield* Effect.forEach(
        writers,
        (number) =>
          Effect.forEach(
            Array.from({ length: 20 }, (_, turn) => turn),
            (turn) => registry.update(sandboxOf(number), withReason(`turn ${turn}`))
          ),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(disk.calls.filter((call) => call.startsWith("create")).length, 160)
      // Each turn of the eight is one batch, but for the very first writer.
      assert.isAtMost(disk.calls.filter((call) => call === "sync records").length, 24)
    })
  )
})
