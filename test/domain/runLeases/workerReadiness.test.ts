/** Waiting for a provider's worker: how often it is looked at, and what is told when it does not come. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { onClone, reuseFixture } from "./fixture.ts"
import { freshRuntime } from "./runtimes.ts"
import { answering, scriptedWorkers } from "./scriptedWorkers.ts"

describe("workerReadiness", () => {
  it.live("RL-ACQ-07 a process without workers says that it has none", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const runtime = yield* freshRuntime({ workers: null })
      const asked = { ...acquisitionOf(scene), executionWorkspace: null }
      const refused = yield* Effect.flip(runtime.acquireRunLease(asked))
      assert.strictEqual(
        refused.message,
        'Sandbox provider "fake-plugin" is installed, but sandbox provider workers are unavailable in this server process.'
      )
    }).pipe(onClone)
  )

  it.live("RL-ACQ-08 a worker that does not run is told apart, and nothing is called", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const workers = scriptedWorkers({ isRunning: () => false })
      const runtime = yield* freshRuntime({ workers: workers.manager })
      const refused = yield* Effect.flip(runtime.acquireRunLease(acquisitionOf(scene)))
      assert.include(refused.message, "its worker is not running")
      assert.deepStrictEqual([workers.counts.checks, workers.calls.length], [1, 0])
    }).pipe(onClone)
  )

  /** Lets the clock of the test go on by a millisecond each time, until the acquisition has ended. */
  const waited = <A, E>(acquisition: Effect.Effect<A, E>) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Effect.exit(acquisition))
      while (fiber.pollUnsafe() === undefined) {
        yield* TestClock.adjust(1)
        yield* TestClock.withLive(Effect.sleep(1))
      }
      return yield* yield* Fiber.join(fiber)
    })

  it.effect("RL-ACQ-08 a worker that never comes is waited for until the deadline and no longer", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      const workers = scriptedWorkers({ isRunning: () => false })
      const runtime = yield* freshRuntime({
        workers: workers.manager,
        settings: { providerWorkerReadyMillis: 25, providerWorkerReadyPollMillis: 1 }
      })
      const refused = yield* Effect.flip(waited(runtime.acquireRunLease(acquisitionOf(scene))))
      assert.match(refused.message, /worker is not running/)
      assert.strictEqual(workers.counts.checks, 26)
      assert.deepStrictEqual(workers.calls, [])
    }).pipe(onClone)
  )

  it.effect.each([
    ["T58", 3, 25, "sandbox-1"],
    ["T60", 8, 200, "sandbox-registered-late"]
  ] as const)(
    "RL-ACQ-09 %s: one check a poll, as many as it takes",
    ([, check, readyMillis, providerLeaseId]) =>
      Effect.gen(function* () {
        const scene = yield* leasedPlugin({
          config: { provider: "fake-plugin", image: "i", timeoutMs: 1234, reuseLease: false }
        })
        const workers = scriptedWorkers({
          isRunning: (_plugin, checked) => checked >= check,
          call: answering({ environmentAcquireLease: { providerLeaseId } })
        })
        const runtime = yield* freshRuntime({
          workers: workers.manager,
          settings: { providerWorkerReadyMillis: readyMillis, providerWorkerReadyPollMillis: 1 }
        })
        const { lease } = yield* waited(runtime.acquireRunLease(acquisitionOf(scene)))
        assert.strictEqual(lease.providerLeaseId, providerLeaseId)
        assert.strictEqual(workers.counts.checks, check)
        assert.deepStrictEqual(
          workers.calls.map(({ given, method }) => [method, given.length, given[3]]),
          [["environmentAcquireLease", 4, 31_234]]
        )
      }).pipe(onClone)
  )
})
