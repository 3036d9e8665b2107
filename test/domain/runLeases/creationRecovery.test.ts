/** A daemon that ends between the provider's answer and the row: what was created is found by its intent, and removed. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as TestClock from "effect/testing/TestClock"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { ProviderCallFailed } from "../../../src/domain/providers/ProviderWorkers.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { sweepIn } from "./daemons.ts"
import { newEnvironment, onClone } from "./fixture.ts"
import { leaseRowsOf, sql } from "./rawRows.ts"
import { freshRuntime } from "./runtimes.ts"
import { lifecycleMethods, type RecordedCall, receiptOf } from "./scriptedWorkers.ts"

const intents = sql("select id from provider_intents")

/** Nobody waits that long for an answer. */
const longAgo = sql("update provider_intents set created_at = now() - interval '5 minutes'")

/** The process ends where it would have written the row. */
const endingProcess = EnvironmentLeaseStore.useSync((store): EnvironmentLeaseStore["Service"] => ({
  ...store,
  acquireLease: () => Effect.die(new Error("the process has ended"))
}))

/** A plugin that keeps what it made under its intents' names, as far as `lists` says. */
const namingPlugin = (lists: (name: string) => boolean) => {
  const made = new Map<string, string>()
  const nameOf = ({ params }: RecordedCall) => (params["intent"] as { name: string }).name
  return {
    entry: { supportsIntents: true },
    methods: [...lifecycleMethods, "environmentListLeases"],
    answers: {
      environmentAcquireLease: (call: RecordedCall) => {
        made.set(nameOf(call), `made-${made.size + 1}`)
        return { providerLeaseId: made.get(nameOf(call)) }
      },
      environmentListLeases: () => ({
        leases: [
          { intentName: "holdfast-test-another", providerLeaseId: "another" },
          ...[...made]
            .filter(([name]) => lists(name))
            .map(([intentName, providerLeaseId]) => ({ intentName, providerLeaseId }))
        ]
      }),
      environmentDestroyLease: (call: RecordedCall) => {
        for (const [name, id] of made) if (id === call.params["providerLeaseId"]) made.delete(name)
        return receiptOf("destroyed")(call)
      }
    },
    made
  }
}

describe("creationRecovery", () => {
  it.live(
    "FC-02 a plugin's machine is found by its name after the process has ended, and removed by the sweep",
    () =>
      Effect.gen(function* () {
        const { made, ...plugin } = namingPlugin(() => true)
        const scene = yield* leasedPlugin({ ...plugin, parts: { leases: yield* endingProcess } })
        assert.isTrue(Exit.isFailure(yield* Effect.exit(scene.runtime.acquireRunLease(acquisitionOf(scene)))))
        assert.deepStrictEqual([made.size, (yield* intents).length], [1, 1])
        yield* longAgo
        const workers = scene.workers.manager
        const after = yield* freshRuntime({ workers, liveness: "dead" })
        assert.deepStrictEqual(yield* after.recoverLostCreations, { found: 1, dropped: 0, waiting: 0 })
        assert.deepStrictEqual(yield* intents, [])
        const row = (yield* leaseRowsOf(scene.environment.id)).at(-1)
        assert.deepInclude(row, {
          status: "pending_cleanup",
          cleanup_status: "failed",
          failure_reason: "creation_lost",
          provider_lease_id: "made-1",
          tenant_id: scene.tenant,
          run_id: scene.run
        })
        yield* sweepIn({ workers })
        assert.strictEqual(made.size, 0)
        assert.strictEqual((yield* leaseRowsOf(scene.environment.id)).at(-1)?.["status"], "expired")
        assert.deepStrictEqual(yield* after.recoverLostCreations, { found: 0, dropped: 0, waiting: 0 })
      }).pipe(onClone)
  )

  it.live("FC-02 so is a built-in provider's", () =>
    Effect.gen(function* () {
      const scene = yield* leasedPlugin()
      const fake = makeFakeProvider()
      const builtIns = [fake.provider]
      const environment = yield* newEnvironment("sandbox", { provider: "fake" })
      const ending = yield* freshRuntime({ builtIns, leases: yield* endingProcess })
      yield* Effect.exit(ending.acquireRunLease({ ...acquisitionOf(scene), environment }))
      yield* longAgo
      const after = yield* freshRuntime({ builtIns, liveness: "dead" })
      assert.strictEqual((yield* after.recoverLostCreations).found, 1)
      yield* sweepIn({ builtIns })
      assert.deepStrictEqual(fake.sandboxes(), [])
    }).pipe(onClone)
  )

  it.live.each([
    ["its process lives and still waits", "alive", true],
    ["its process is another node's", "elsewhere", true],
    ["it is not old enough", "dead", false]
  ] as const)("BX-01 an intent is left alone while %s", ([, liveness, isOld]) =>
    Effect.gen(function* () {
      const { made: _made, ...plugin } = namingPlugin(() => true)
      const scene = yield* leasedPlugin({ ...plugin, parts: { leases: yield* endingProcess } })
      yield* Effect.exit(scene.runtime.acquireRunLease(acquisitionOf(scene)))
      if (isOld) yield* longAgo
      const after = yield* freshRuntime({ workers: scene.workers.manager, liveness })
      assert.deepStrictEqual(yield* after.recoverLostCreations, { found: 0, dropped: 0, waiting: 0 })
      assert.strictEqual((yield* intents).length, 1)
    }).pipe(onClone)
  )

  it.live("FC-02 a lost answer is seen to by the very process that lost it", () =>
    Effect.gen(function* () {
      const { answers, made, ...plugin } = namingPlugin(() => true)
      const lost = new ProviderCallFailed({ method: "environmentAcquireLease", why: "crashed" })
      const acquired = (call: RecordedCall) => {
        answers.environmentAcquireLease(call)
        return lost
      }
      const scene = yield* leasedPlugin({
        ...plugin,
        answers: { ...answers, environmentAcquireLease: acquired }
      })
      assert.strictEqual(yield* Effect.flip(scene.runtime.acquireRunLease(acquisitionOf(scene))), lost)
      yield* longAgo
      assert.strictEqual((yield* scene.runtime.recoverLostCreations).found, 1)
      assert.strictEqual(made.size, 1)
    }).pipe(onClone)
  )

  it.effect(
    "BX-03 what is not listed is given up after two observations apart, and what cannot be asked never",
    () =>
      Effect.gen(function* () {
        const { made: _made, ...plugin } = namingPlugin(() => false)
        const scene = yield* leasedPlugin({ ...plugin, parts: { leases: yield* endingProcess } })
        yield* Effect.exit(scene.runtime.acquireRunLease(acquisitionOf(scene)))
        yield* longAgo
        const after = yield* freshRuntime({ workers: scene.workers.manager, liveness: "dead" })
        const waiting = { found: 0, dropped: 0, waiting: 1 }
        scene.workers.script.isRunning = () => false
        assert.deepStrictEqual(yield* after.recoverLostCreations, waiting)
        yield* TestClock.adjust("1 hour")
        assert.deepStrictEqual(yield* after.recoverLostCreations, waiting)
        scene.workers.script.isRunning = () => true
        assert.deepStrictEqual(yield* after.recoverLostCreations, waiting)
        yield* TestClock.adjust(59_999)
        assert.deepStrictEqual(yield* after.recoverLostCreations, waiting)
        const other = yield* freshRuntime({ workers: scene.workers.manager, liveness: "dead" })
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(yield* other.recoverLostCreations, waiting)
        assert.deepStrictEqual(yield* after.recoverLostCreations, { found: 0, dropped: 1, waiting: 0 })
        assert.deepStrictEqual(yield* intents, [])
      }).pipe(onClone)
  )

  it.live("BX-03 what becomes visible late is found all the same", () =>
    Effect.gen(function* () {
      let isVisible = false
      const { made: _made, ...plugin } = namingPlugin(() => isVisible)
      const scene = yield* leasedPlugin({ ...plugin, parts: { leases: yield* endingProcess } })
      yield* Effect.exit(scene.runtime.acquireRunLease(acquisitionOf(scene)))
      yield* longAgo
      const after = yield* freshRuntime({ workers: scene.workers.manager, liveness: "dead" })
      assert.strictEqual((yield* after.recoverLostCreations).waiting, 1)
      isVisible = true
      assert.strictEqual((yield* after.recoverLostCreations).found, 1)
    }).pipe(onClone)
  )
})
