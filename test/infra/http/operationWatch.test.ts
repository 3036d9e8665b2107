import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { operationWatchMillis } from "../../../src/domain/Bounds.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationEvents, progressOf } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationRows, OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { watchOperation } from "../../../src/infra/http/operationWatch.ts"
import { ServerStopping } from "../../../src/infra/http/socketServer.ts"
import { storedOperation } from "./storedOperation.ts"

type Read = Operation | "missing" | "failing"

/** A table of one row, a stop to announce, and the states that a watcher has been told. */
const scene = Effect.gen(function* () {
  const row = yield* Ref.make<Read>("missing")
  const reads = yield* Queue.unbounded<Read>()
  const stopping = yield* Latch.make(false)
  const told = yield* Ref.make<ReadonlyArray<string>>([])
  const firstTold = yield* Deferred.make<void>()
  const failure = new StorageFailure({
    operation: "byId",
    fault: "connection",
    state: null,
    constraint: null
  })
  const store = Layer.mock(OperationStore)({
    byId: () =>
      Effect.flatMap(Ref.get(row), (read) => {
        Queue.offerUnsafe(reads, read)
        if (read === "failing") return Effect.fail(failure)
        return Effect.succeed(read === "missing" ? Option.none() : Option.some(read))
      })
  })
  const ahead = yield* Ref.make(0)
  const sights = Layer.mock(OperationRows)({
    queueSights: ([operation]) =>
      Effect.map(Ref.get(ahead), (count) =>
        count === 0 || operation === undefined
          ? []
          : [{ operation, queuedAtMillis: 1, node: null, allUnseenSeconds: 0, ahead: count }]
      )
  })
  const ports = Layer.mergeAll(store, sights, Layer.succeed(ServerStopping, stopping), OperationEvents.layer)
  const watch = (first: Operation) =>
    watchOperation(first).pipe(
      Stream.runForEach(({ fraction, state, waiting }) =>
        Effect.andThen(
          Ref.update(told, (before) => [
            ...before,
            `${state} ${fraction}${waiting === null ? "" : ` ${waiting.for}`}`
          ]),
          Deferred.succeed(firstTold, undefined)
        )
      )
    )
  return { ahead, row, reads, stopping, told, firstTold, ports, watch }
})

describe("operationWatch", () => {
  it.effect("a settled operation is told once, and the stream ends", () =>
    Effect.gen(function* () {
      const { ports, told, watch } = yield* scene
      yield* watch(storedOperation({ state: "failed" })).pipe(Effect.provide(ports))
      assert.deepStrictEqual(yield* Ref.get(told), ["failed 0"])
    })
  )

  it.effect("SP-TX-09 a watcher is told what the row says and not what the signal says", () =>
    Effect.gen(function* () {
      const { firstTold, ports, row, told, watch } = yield* scene
      yield* Effect.gen(function* () {
        const events = yield* OperationEvents
        yield* Ref.set(row, storedOperation())
        const watcher = yield* Effect.forkChild(watch(storedOperation()))
        yield* Deferred.await(firstTold)
        yield* TestClock.adjust(1)
        yield* Ref.set(row, storedOperation({ state: "claimed", fraction: 0.5 }))
        yield* events.publish(progressOf(storedOperation({ state: "claimed", fraction: 0.25 })))
        yield* TestClock.adjust(1)
        yield* Ref.set(row, storedOperation({ state: "succeeded", fraction: 1 }))
        yield* events.publish(progressOf(storedOperation()))
        yield* Fiber.join(watcher)
      }).pipe(Effect.provide(ports))
      assert.deepStrictEqual(yield* Ref.get(told), ["queued 0", "claimed 0.5", "succeeded 1"])
    })
  )

  it.effect("a change that nobody signalled is told after one tick", () =>
    Effect.gen(function* () {
      const { firstTold, ports, row, told, watch } = yield* scene
      yield* Ref.set(row, storedOperation())
      const watcher = yield* watch(storedOperation()).pipe(Effect.provide(ports), Effect.forkChild)
      yield* Deferred.await(firstTold)
      yield* TestClock.adjust(1)
      yield* Ref.set(row, storedOperation({ state: "succeeded", fraction: 1 }))
      yield* TestClock.adjust(operationWatchMillis)
      yield* Fiber.join(watcher)
      assert.deepStrictEqual(yield* Ref.get(told), ["queued 0", "succeeded 1"])
    })
  )

  it.effect("FC-06 what an operation waits for is told, and told again when it changes", () =>
    Effect.gen(function* () {
      const { ahead, firstTold, ports, row, told, watch } = yield* scene
      yield* Ref.set(row, storedOperation())
      yield* Ref.set(ahead, 2)
      const watcher = yield* watch(storedOperation()).pipe(Effect.provide(ports), Effect.forkChild)
      yield* Deferred.await(firstTold)
      yield* TestClock.adjust(operationWatchMillis)
      yield* Ref.set(ahead, 1)
      yield* TestClock.adjust(operationWatchMillis)
      yield* Ref.set(row, storedOperation({ state: "succeeded", fraction: 1 }))
      yield* TestClock.adjust(operationWatchMillis)
      yield* Fiber.join(watcher)
      assert.deepStrictEqual(yield* Ref.get(told), [
        "queued 0 2 operations of its queue, asked for before it",
        "queued 0 1 operation of its queue, asked for before it",
        "succeeded 1"
      ])
    })
  )

  it.effect("a read that fails or finds nothing ends nothing: the next one is told", () =>
    Effect.gen(function* () {
      const { ports, reads, row, told, watch } = yield* scene
      yield* Ref.set(row, "failing")
      const watcher = yield* watch(storedOperation()).pipe(Effect.provide(ports), Effect.forkChild)
      assert.strictEqual(yield* Queue.take(reads), "failing")
      yield* Ref.set(row, "missing")
      yield* TestClock.adjust(operationWatchMillis)
      assert.strictEqual(yield* Queue.take(reads), "missing")
      yield* Ref.set(row, storedOperation({ state: "superseded" }))
      yield* TestClock.adjust(operationWatchMillis)
      yield* Fiber.join(watcher)
      assert.deepStrictEqual(yield* Ref.get(told), ["queued 0", "superseded 0"])
    })
  )

  it.effect("a stop of the daemon ends the stream of an operation that goes on", () =>
    Effect.gen(function* () {
      const { firstTold, ports, row, stopping, watch } = yield* scene
      yield* Ref.set(row, storedOperation())
      const watcher = yield* watch(storedOperation()).pipe(Effect.provide(ports), Effect.forkChild)
      yield* Deferred.await(firstTold)
      yield* stopping.open
      yield* Fiber.join(watcher)
    })
  )
})
