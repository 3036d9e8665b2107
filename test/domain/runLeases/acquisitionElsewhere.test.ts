/** Several daemons that are asked under one request key at the same moment: one asks the provider, the others wait for it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { acquisitionElsewhereMillisMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { ProviderCallFailed, ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { AcquisitionKeyConflict, AcquisitionUnderWay } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import { Clone } from "../../support/clone.ts"
import { makeBarrier } from "../../support/sideBySide.ts"
import { waitFor } from "../../support/waiting.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { newAgent, newEnvironment, newRun, newTenant, onClone } from "./fixture.ts"
import { runLeaseProcess } from "./leaseProcesses.ts"
import { overHandle } from "./leaseStores.ts"
import { leaseRowsOf, sql } from "./rawRows.ts"
import { freshRuntime, type RuntimeParts } from "./runtimes.ts"
import { installScripted, orderFaults, resourcesIn, stateDirectory } from "./scriptedProvider.ts"

const requestKey = RequestKey.make("request-1")

/** A second daemon: a runtime over stores on a handle of its own. `leases` sees that daemon's store. */
const secondDaemon = (
  parts: RuntimeParts,
  leases: (store: EnvironmentLeaseStore["Service"]) => EnvironmentLeaseStore["Service"] = (store) => store
) =>
  Effect.gen(function* () {
    const db = yield* Effect.flatMap(Clone, ({ openDb }) => openDb())
    const context = yield* Layer.build(
      Layer.fresh(overHandle).pipe(Layer.provide(Layer.succeed(PluginDb, db)))
    )
    return yield* EnvironmentLeaseStore.pipe(
      Effect.flatMap((store) => freshRuntime({ ...parts, leases: leases(store) })),
      Effect.provideContext(context)
    )
  })

/** A provider that answers no acquisition before the gate is opened. */
const gatedScene = Effect.gen(function* () {
  const gate = yield* Latch.make()
  const scene = yield* leasedPlugin({
    answers: {
      environmentAcquireLease: () => Effect.as(gate.await, { providerLeaseId: "sandbox-1" })
    }
  })
  const asked = { ...acquisitionOf(scene), requestKey }
  const isAsked = waitFor({
    fact: "the provider is asked",
    look: Effect.sync(() => scene.workers.calls.length),
    holds: (calls) => calls > 0
  })
  /** One more daemon. A test that fails opens the gate too: what is asked of a provider is not cut off. */
  const daemon = (leases?: Parameters<typeof secondDaemon>[1]) =>
    Effect.tap(secondDaemon({ workers: scene.workers.manager }, leases), () =>
      Effect.addFinalizer(() => gate.open)
    )
  return { ...scene, gate, asked, isAsked, daemon }
})

/** Counts how often a daemon looks who has the key, and can hold that look, or its intent, at a barrier. */
const watched = (at: "intend" | "look" = "intend", held: Effect.Effect<void> = Effect.void) => {
  const seen = { looks: 0 }
  const leases = (store: EnvironmentLeaseStore["Service"]): EnvironmentLeaseStore["Service"] => ({
    ...store,
    intend: (intent) => Effect.andThen(at === "intend" ? held : Effect.void, store.intend(intent)),
    holderOfRequest: (tenant, key) =>
      Effect.andThen(at === "look" ? held : Effect.void, store.holderOfRequest(tenant, key)).pipe(
        Effect.tap(() => Effect.sync(() => void (seen.looks += 1)))
      )
  })
  const hasWaited = (times: number) =>
    waitFor({
      fact: "the second daemon has looked who has the key",
      look: Effect.sync(() => seen.looks),
      holds: (looks) => looks >= times
    })
  return { leases, hasWaited }
}

describe("acquisitions elsewhere", () => {
  it.live.each([
    ["the first", false],
    ["the second", true]
  ] as const)(
    "FC-04 who comes while %s daemon waits for its provider gets that one's lease",
    ([, isTurned]) =>
      Effect.gen(function* () {
        const scene = yield* gatedScene
        const watch = watched()
        const one = yield* scene.daemon(isTurned ? watch.leases : undefined)
        const other = yield* scene.daemon(isTurned ? undefined : watch.leases)
        const [winner, loser] = isTurned ? [other, one] : [one, other]
        const first = yield* Effect.forkChild(winner.acquireRunLease(scene.asked))
        yield* scene.isAsked
        const second = yield* Effect.forkChild(loser.acquireRunLease(scene.asked))
        yield* watch.hasWaited(2)
        yield* scene.gate.open
        assert.deepStrictEqual(yield* Fiber.join(second), yield* Fiber.join(first))
        assert.deepStrictEqual(scene.workers.methods(), ["environmentAcquireLease"])
        assert.strictEqual((yield* leaseRowsOf(scene.environment.id)).length, 2)
      }).pipe(onClone)
  )

  it.live.each([
    ["has its intent", false],
    ["has its lease", true]
  ] as const)(
    "FC-04 who has seen nobody, and intends when the other one %s, asks no provider",
    ([, isAnswered]) =>
      Effect.gen(function* () {
        const scene = yield* gatedScene
        const barrier = yield* makeBarrier("the second daemon's intent")
        const watch = watched("intend", barrier.arrive)
        const other = yield* scene.daemon(watch.leases)
        const second = yield* Effect.forkChild(other.acquireRunLease(scene.asked))
        yield* barrier.reached
        const first = yield* Effect.forkChild(scene.runtime.acquireRunLease(scene.asked))
        yield* scene.isAsked
        if (isAnswered) {
          yield* scene.gate.open
          yield* Fiber.join(first)
        }
        yield* barrier.open
        if (!isAnswered) yield* watch.hasWaited(2)
        yield* scene.gate.open
        assert.deepStrictEqual(yield* Fiber.join(second), yield* Fiber.join(first))
        assert.deepStrictEqual(scene.workers.methods(), ["environmentAcquireLease"])
        assert.deepStrictEqual(yield* sql("select id from provider_intents"), [])
      }).pipe(onClone)
  )

  it.live("FC-04 who looks for the other one while that one gets its lease answers it as it is", () =>
    Effect.gen(function* () {
      const scene = yield* gatedScene
      const barrier = yield* makeBarrier("the second daemon's look")
      const other = yield* scene.daemon(watched("look", barrier.arrive).leases)
      const second = yield* Effect.forkChild(other.acquireRunLease(scene.asked))
      yield* barrier.reached
      yield* scene.gate.open
      const first = yield* scene.runtime.acquireRunLease(scene.asked)
      yield* barrier.open
      assert.deepStrictEqual(yield* Fiber.join(second), first)
      assert.deepStrictEqual(scene.workers.methods(), ["environmentAcquireLease"])
    }).pipe(onClone)
  )

  it.live(
    "FC-04 the same key with another request is refused while another daemon carries the first out",
    () =>
      Effect.gen(function* () {
        const scene = yield* gatedScene
        const other = yield* scene.daemon()
        const first = yield* Effect.forkChild(scene.runtime.acquireRunLease(scene.asked))
        yield* scene.isAsked
        const refused = yield* Effect.flip(
          other.acquireRunLease({ ...scene.asked, executionWorkspace: null })
        )
        assert.instanceOf(refused, AcquisitionKeyConflict)
        yield* scene.gate.open
        yield* Fiber.join(first)
      }).pipe(onClone)
  )

  it.effect("FC-04 the wait for another daemon has a bound, and the caller may ask again", () =>
    Effect.gen(function* () {
      const scene = yield* gatedScene
      const watch = watched()
      const other = yield* scene.daemon(watch.leases)
      const first = yield* Effect.forkChild(scene.runtime.acquireRunLease(scene.asked))
      yield* scene.isAsked
      const second = yield* Effect.forkChild(Effect.flip(other.acquireRunLease(scene.asked)))
      yield* watch.hasWaited(1)
      yield* TestClock.adjust(acquisitionElsewhereMillisMax - 1)
      yield* watch.hasWaited(2)
      assert.isUndefined(second.pollUnsafe())
      yield* TestClock.adjust(acquisitionElsewhereMillisMax)
      const refused = yield* Fiber.join(second)
      assert.instanceOf(refused, AcquisitionUnderWay)
      assert.deepInclude(refused, { status: 409, code: "request_key_under_way" })
      yield* scene.gate.open
      const { lease } = yield* Fiber.join(first)
      assert.strictEqual((yield* other.acquireRunLease(scene.asked)).lease.id, lease.id)
      assert.strictEqual(scene.workers.calls.length, 1)
    }).pipe(onClone)
  )

  it.live.each([
    ["failed", new ProviderRpcError({ code: -32000, message: "no room" }), 0],
    ["was lost", new ProviderCallFailed({ method: "environmentAcquireLease", why: "crashed" }), 1]
  ] as const)("FC-04 another daemon may make a request whose creation %s again", ([, failure, intents]) =>
    Effect.gen(function* () {
      let tries = 0
      const scene = yield* leasedPlugin({
        entry: { supportsIntents: true },
        answers: {
          environmentAcquireLease: () => ((tries += 1) === 1 ? failure : { providerLeaseId: "sandbox-1" })
        }
      })
      const asked = { ...acquisitionOf(scene), requestKey }
      const other = yield* secondDaemon({ workers: scene.workers.manager })
      assert.strictEqual(yield* Effect.flip(scene.runtime.acquireRunLease(asked)), failure)
      assert.strictEqual((yield* other.acquireRunLease(asked)).lease.providerLeaseId, "sandbox-1")
      assert.strictEqual((yield* sql("select id from provider_intents")).length, intents)
    }).pipe(onClone)
  )
})

const scriptedPlace = Effect.gen(function* () {
  const tenant = yield* newTenant
  const run = (yield* newRun(tenant, (yield* newAgent(tenant)).id)).id
  yield* installScripted
  const directory = yield* stateDirectory
  const config = { provider: "scripted", stateDirectory: directory }
  const environment = (yield* newEnvironment("sandbox", config)).id
  return { tenant, run, environment, directory, requestKey }
})

const leaseIn = (output: string): unknown => {
  const told: { readonly lease?: unknown } = JSON.parse(output.trim().split("\n").at(-1) ?? "{}")
  return told.lease
}

const processesMillisMax = 60_000

describe("acquisitions of real processes", () => {
  it.live(
    "FC-04 three processes under one key at the same moment make one resource and get one lease",
    () =>
      Effect.gen(function* () {
        const own = yield* scriptedPlace
        yield* orderFaults(own.directory, { environmentAcquireLease: [{ fault: "slow", millis: 300 }] })
        const ended = yield* Effect.forEach([1, 2, 3], () => runLeaseProcess({ ...own, action: "acquire" }), {
          concurrency: "unbounded"
        })
        for (const { ended: code, output } of ended) assert.strictEqual(code, 0, output)
        assert.strictEqual(new Set(ended.map(({ output }) => leaseIn(output))).size, 1)
        const resources = Object.values(resourcesIn(own.directory))
        assert.deepStrictEqual(
          resources.map(({ creates }) => creates),
          [1]
        )
        assert.strictEqual((yield* leaseRowsOf(own.environment)).length, 1)
      }).pipe(onClone),
    processesMillisMax
  )

  it.live(
    "FC-04 FC-02 a process takes the request of a killed one over, and what that one made is removed later",
    () =>
      Effect.gen(function* () {
        const own = yield* scriptedPlace
        const killAt = {
          boundary: "after",
          program: "runLeases.provision",
          step: "create",
          occurrence: 1
        } as const
        const killed = yield* runLeaseProcess({ ...own, action: "acquire", killAt })
        assert.strictEqual(killed.ended, "SIGKILL", killed.output)
        const [lost] = Object.keys(resourcesIn(own.directory))
        const after = yield* runLeaseProcess({ ...own, action: "acquire" })
        assert.strictEqual(after.ended, 0, after.output)
        assert.strictEqual(Object.keys(resourcesIn(own.directory)).length, 2)
        yield* sql("update provider_intents set created_at = created_at - interval '1 hour'")
        const recovery = yield* runLeaseProcess({ ...own, action: "recover" })
        assert.strictEqual(recovery.ended, 0, recovery.output)
        const lease = yield* EnvironmentLeaseStore.use((store) =>
          store.leaseOfRequest(own.tenant, requestKey)
        )
        assert.deepInclude(lease, { _tag: "Some" })
        const rows = yield* leaseRowsOf(own.environment)
        assert.deepStrictEqual(rows.map(({ status }) => status).toSorted(), ["active", "expired"])
        const held = rows.find(({ status }) => status === "active")?.["provider_lease_id"]
        assert.deepStrictEqual(Object.keys(resourcesIn(own.directory)), [String(held)])
        assert.notStrictEqual(held, lost)
        assert.strictEqual(leaseIn(after.output), rows.find(({ status }) => status === "active")?.["id"])
      }).pipe(onClone),
    processesMillisMax
  )
})
