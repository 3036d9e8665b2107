import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { lookUpEndpoint } from "../../../src/domain/registry/endpoint.ts"
import { pauseSandbox, startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { countCalls, endByItself, hold } from "../../../src/infra/guests/scriptedState.ts"
import { sandboxOf, withDeletion } from "./fixture.ts"
import { becomeStranger, freshNode, on, requestOf, type TestNode } from "./guestFixture.ts"

const one = sandboxOf(1)

const running = Effect.gen(function* () {
  const node = yield* freshNode()
  yield* on(node)(createSandbox(requestOf(1)))
  yield* on(node)(startSandbox(one))
  return node
})

const refusalOf = (node: TestNode, port = 8_080) => Effect.flip(on(node)(lookUpEndpoint(one, port)))

describe("registry/endpoint", () => {
  it.live("RG-RUN-01 a port is opened with the token of the record, and asked for anew each time", () =>
    Effect.gen(function* () {
      const node = yield* running
      const { endpointToken } = yield* node.registry.get(one)
      const path = `/scripted/${one}/8080-${endpointToken.slice(0, 8)}.sock`
      assert.deepStrictEqual(yield* on(node)(lookUpEndpoint(one, 8_080)), { path })
      assert.deepStrictEqual(yield* on(node)(lookUpEndpoint(one, 8_080)), { path })
      assert.strictEqual(countCalls(node.guests, "openPort"), 2)
    })
  )

  it.live.each([0, -1, 65_536, 1.5, Number.NaN])("the port %s is refused by its name", (port) =>
    Effect.gen(function* () {
      const node = yield* running
      const refused = yield* refusalOf(node, port)
      assert.strictEqual(refused._tag, "InvalidSandboxRequest")
      assert.include(refused.message, "port")
      assert.strictEqual(countCalls(node.guests, "openPort"), 0)
      yield* on(node)(lookUpEndpoint(one, 1))
      yield* on(node)(lookUpEndpoint(one, 65_535))
    })
  )

  it.live("RG-RUN-01 what was seen before is no answer: a guest that has ended has no endpoint", () =>
    Effect.gen(function* () {
      const node = yield* running
      yield* on(node)(lookUpEndpoint(one, 8_080))
      endByItself(node.guests, one, 0)
      assert.strictEqual((yield* refusalOf(node))._tag, "EndpointUnavailable")
      assert.strictEqual(countCalls(node.guests, "openPort"), 1)
    })
  )

  it.live("RG-RUN-04 the guest of another attempt has no endpoint", () =>
    Effect.gen(function* () {
      const node = yield* running
      becomeStranger(node.guests, 1)
      assert.strictEqual((yield* refusalOf(node))._tag, "EndpointUnavailable")
      assert.strictEqual(countCalls(node.guests, "openPort"), 0)
    })
  )

  it.live("RG-RUN-01 a sandbox that is paused, or being deleted, has no endpoint", () =>
    Effect.gen(function* () {
      const node = yield* running
      yield* on(node)(pauseSandbox(one))
      assert.strictEqual((yield* refusalOf(node))._tag, "SandboxStateRefused")
      const other = yield* running
      yield* other.registry.update(one, withDeletion)
      assert.strictEqual((yield* refusalOf(other))._tag, "SandboxStateRefused")
      assert.strictEqual(countCalls(other.guests, "openPort"), 0)
    })
  )

  it.live("RG-RUN-01 an intent to delete that gets in while the port is opened fences it", () =>
    Effect.gen(function* () {
      const node = yield* running
      const opening = hold(node.guests, "openPort")
      const asked = yield* Effect.forkChild(Effect.flip(on(node)(lookUpEndpoint(one, 8_080))))
      yield* opening.reached
      yield* node.registry.update(one, withDeletion)
      yield* opening.release
      assert.strictEqual((yield* Fiber.join(asked))._tag, "SandboxStateRefused")
    })
  )

  it.effect("a sandbox whose life is over has no endpoint", () =>
    Effect.gen(function* () {
      const node = yield* running
      const { expiresAtMillis } = yield* node.registry.get(one)
      yield* TestClock.adjust(expiresAtMillis)
      assert.strictEqual((yield* refusalOf(node))._tag, "SandboxExpired")
    })
  )
})
