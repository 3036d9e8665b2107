/** Requests that are repeated under a key, also when their answers get lost. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { notedRequest } from "../../../src/domain/runLeases/acquisitionKey.ts"
import { AcquisitionKeyConflict } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import { waitFor } from "../../support/waiting.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { newRun, onClone, reuseFixture } from "./fixture.ts"

const requestKey = RequestKey.make("request-1")

/** A provider that answers no acquisition before the gate is opened. */
const gatedScene = Effect.gen(function* () {
  const gate = yield* Latch.make()
  let made = 0
  const scene = yield* leasedPlugin({
    answers: {
      environmentAcquireLease: () =>
        Effect.suspend(() => {
          const providerLeaseId = `sandbox-${(made += 1)}`
          return Effect.as(gate.await, { providerLeaseId })
        })
    }
  })
  return { ...scene, gate, asked: { ...acquisitionOf(scene), requestKey } }
})

describe("SharedAcquisitions", () => {
  it.live("FC-04 twenty requests under one key are one creation, though most answers are dropped", () =>
    Effect.gen(function* () {
      const scene = yield* gatedScene
      const callers = yield* Effect.forEach(Array.from({ length: 20 }), () =>
        Effect.forkChild(scene.runtime.acquireRunLease(scene.asked))
      )
      yield* waitFor({
        fact: "the provider is asked",
        look: Effect.sync(() => scene.workers.calls.length),
        holds: (calls) => calls > 0
      })
      yield* Effect.forEach(callers.slice(0, 17), Fiber.interrupt)
      yield* scene.gate.open
      const answers = yield* Effect.forEach(callers.slice(17), Fiber.join)
      const again = yield* scene.runtime.acquireRunLease(scene.asked)
      const later = yield* (yield* scene.another).acquireRunLease(scene.asked)
      const ids = new Set([...answers, again, later].map(({ lease }) => lease.id))
      assert.strictEqual(ids.size, 1)
      assert.deepStrictEqual(scene.workers.methods(), ["environmentAcquireLease"])
      for (const answer of [...answers, again, later]) assert.deepStrictEqual(answer, answers[0])
    }).pipe(onClone)
  )

  it.live("FC-04 the work goes on when everybody who waited for it has gone", () =>
    Effect.gen(function* () {
      const scene = yield* gatedScene
      const caller = yield* Effect.forkChild(scene.runtime.acquireRunLease(scene.asked))
      yield* waitFor({
        fact: "the provider is asked",
        look: Effect.sync(() => scene.workers.calls.length),
        holds: (calls) => calls === 1
      })
      yield* Fiber.interrupt(caller)
      yield* scene.gate.open
      const { lease } = yield* scene.runtime.acquireRunLease(scene.asked)
      assert.strictEqual(lease.providerLeaseId, "sandbox-1")
      assert.strictEqual(scene.workers.calls.length, 1)
    }).pipe(onClone)
  )

  it.live.each([
    ["while the first one is carried out", true],
    ["after it is done, in a later process", false]
  ])("FC-04 the same key with another request is refused with 409: %s", ([, isUnderWay]) =>
    Effect.gen(function* () {
      const scene = yield* gatedScene
      const first = yield* Effect.forkChild(scene.runtime.acquireRunLease(scene.asked))
      yield* waitFor({
        fact: "the provider is asked",
        look: Effect.sync(() => scene.workers.calls.length),
        holds: (calls) => calls === 1
      })
      if (isUnderWay !== true) {
        yield* scene.gate.open
        yield* Fiber.join(first)
      }
      const runtime = isUnderWay === true ? scene.runtime : yield* scene.another
      const otherRun = (yield* newRun(scene.tenant, scene.agent)).id
      for (const other of [{ executionWorkspace: null }, { run: otherRun }, { task: scene.task }]) {
        const refused = yield* Effect.flip(runtime.acquireRunLease({ ...scene.asked, ...other }))
        assert.instanceOf(refused, AcquisitionKeyConflict)
        assert.deepInclude(refused, { status: 409, code: "request_key_conflict" })
      }
      yield* scene.gate.open
      yield* Fiber.join(first)
      assert.strictEqual(scene.workers.calls.length, 1)
    }).pipe(onClone)
  )

  it.live("FC-04 a request that failed may be made again under its key", () =>
    Effect.gen(function* () {
      let tries = 0
      const failure = new Error("no room")
      const scene = yield* leasedPlugin({
        answers: { environmentAcquireLease: () => ((tries += 1) === 1 ? failure : { providerLeaseId: "s" }) }
      })
      const asked = { ...acquisitionOf(scene), requestKey }
      assert.strictEqual(yield* Effect.flip(scene.runtime.acquireRunLease(asked)), failure)
      assert.strictEqual((yield* scene.runtime.acquireRunLease(asked)).lease.providerLeaseId, "s")
    }).pipe(onClone)
  )

  it.live(
    "FC-04 two requests are the same when everything that is asked for is, whatever the config has become",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture()
        const asked = { ...acquisitionOf(scene), requestKey }
        const text = (each: typeof asked) => JSON.stringify(notedRequest((all) => all, each).note)
        const environment = { ...scene.environment, config: {} }
        assert.strictEqual(text({ ...asked, environment }), text(asked))
        for (const other of [
          { adapterType: "x" },
          { requestedExpiresAtMillis: 1 },
          { assertTenantBinding: true }
        ]) {
          assert.notStrictEqual(text({ ...asked, ...other }), text(asked))
        }
        assert.isUndefined(notedRequest((all) => all, acquisitionOf(scene)).note)
      }).pipe(onClone)
  )
})
