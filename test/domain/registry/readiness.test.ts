import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { pauseSandbox, startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import {
  lookAtReadiness,
  requireAlive,
  requireReady,
  requireRunning
} from "../../../src/domain/registry/readiness.ts"
import { endByItself, failNext } from "../../../src/infra/guests/scriptedState.ts"
import { sandboxOf, withDeletion } from "./fixture.ts"
import { becomeStranger, freshNode, on, requestOf, type TestNode } from "./guestFixture.ts"

const one = sandboxOf(1)

const running = Effect.gen(function* () {
  const node = yield* freshNode()
  yield* on(node)(createSandbox(requestOf(1)))
  yield* on(node)(startSandbox(one))
  return node
})

const look = (node: TestNode) =>
  Effect.flatMap(node.registry.get(one), (record) => on(node)(lookAtReadiness(record)))

describe("registry/readiness", () => {
  it.live("RG-RUN-01 ready is what runs, is the record's own guest, and answers now", () =>
    Effect.gen(function* () {
      const node = yield* running
      assert.deepStrictEqual(yield* look(node), { ready: true, why: null })
      failNext(node.guests, "ping")
      assert.isFalse((yield* look(node)).ready)
      failNext(node.guests, "inspect")
      assert.isFalse((yield* look(node)).ready)
      assert.isTrue((yield* look(node)).ready, "an earlier look counts for nothing")
    })
  )

  it.live("RG-RUN-01 a guest that ended since the record was written is not ready", () =>
    Effect.gen(function* () {
      const node = yield* running
      endByItself(node.guests, one, 4)
      assert.deepStrictEqual(yield* look(node), {
        ready: false,
        why: "its guest ended with exit code 4"
      })
      assert.strictEqual((yield* node.registry.get(one)).status, "Running")
    })
  )

  it.live("RG-RUN-04 another attempt's guest in its place is not ready, and is not asked", () =>
    Effect.gen(function* () {
      const node = yield* running
      becomeStranger(node.guests, 1)
      node.guests.calls.length = 0
      assert.isFalse((yield* look(node)).ready)
      assert.deepStrictEqual(
        node.guests.calls.map(({ call }) => call),
        ["inspect"]
      )
    })
  )

  it.live("a paused one, one of another state and one that is being deleted are not ready", () =>
    Effect.gen(function* () {
      const node = yield* running
      node.guests.guests.get(one)!.isPaused = true
      assert.strictEqual((yield* look(node)).why, "its guest is paused")
      node.guests.guests.get(one)!.isPaused = false
      const record = yield* node.registry.update(one, withDeletion)
      assert.strictEqual((yield* on(node)(lookAtReadiness(record))).why, "it is being deleted")
      const refusal = yield* Effect.flip(on(node)(requireReady(record)))
      assert.deepInclude(refusal, { _tag: "EndpointUnavailable", why: "it is being deleted" })
    })
  )

  it.effect("a sandbox is alive until the very end of its life and not at it", () =>
    Effect.gen(function* () {
      const node = yield* running
      const record = yield* node.registry.get(one)
      yield* TestClock.adjust(record.expiresAtMillis - 1)
      yield* requireAlive(record)
      yield* TestClock.adjust(1)
      assert.deepInclude(yield* Effect.flip(requireAlive(record)), {
        _tag: "SandboxExpired",
        expiredAtMillis: record.expiresAtMillis
      })
    })
  )

  it.effect("work is let into a sandbox that runs, has not expired and is kept, and into no other", () =>
    Effect.gen(function* () {
      const node = yield* running
      const enter = on(node)(requireRunning(one, "exec"))
      assert.strictEqual((yield* enter).id, one)
      yield* on(node)(pauseSandbox(one))
      assert.deepInclude(yield* Effect.flip(enter), { _tag: "SandboxStateRefused", status: "Paused" })
      yield* TestClock.adjust("600 seconds")
      assert.strictEqual((yield* Effect.flip(enter))._tag, "SandboxExpired")
      yield* node.registry.update(one, withDeletion)
      assert.deepInclude(yield* Effect.flip(enter), { status: "being deleted" })
      assert.strictEqual(
        (yield* Effect.flip(on(node)(requireRunning(sandboxOf(2), "exec"))))._tag,
        "SandboxNotFound"
      )
    })
  )
})
