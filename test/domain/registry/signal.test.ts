import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { pauseSandbox, startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { signalSandbox } from "../../../src/domain/registry/signal.ts"
import { countCalls } from "../../../src/infra/guests/scriptedState.ts"
import { sandboxOf, withDeletion } from "./fixture.ts"
import { becomeStranger, freshNode, on, requestOf } from "./guestFixture.ts"

const one = sandboxOf(1)

const running = Effect.gen(function* () {
  const node = yield* freshNode()
  yield* on(node)(createSandbox(requestOf(1)))
  yield* on(node)(startSandbox(one))
  return node
})

describe("registry/signal", () => {
  it.live("a signal goes to the running guest, and the record stays as it is", () =>
    Effect.gen(function* () {
      const node = yield* running
      const before = yield* node.registry.get(one)
      yield* on(node)(signalSandbox(one, "HUP"))
      assert.strictEqual(countCalls(node.guests, "signal"), 1)
      assert.deepStrictEqual(yield* node.registry.get(one), before)
    })
  )

  it.live("RG-RUN-04 no signal goes to the guest of another attempt", () =>
    Effect.gen(function* () {
      const node = yield* running
      becomeStranger(node.guests, 1)
      assert.strictEqual(
        (yield* Effect.flip(on(node)(signalSandbox(one, "TERM"))))._tag,
        "EndpointUnavailable"
      )
      assert.strictEqual(countCalls(node.guests, "signal"), 0)
    })
  )

  it.live("a sandbox that is paused or being deleted takes no signal", () =>
    Effect.gen(function* () {
      const node = yield* running
      yield* on(node)(pauseSandbox(one))
      assert.strictEqual(
        (yield* Effect.flip(on(node)(signalSandbox(one, "TERM"))))._tag,
        "SandboxStateRefused"
      )
      const other = yield* running
      yield* other.registry.update(one, withDeletion)
      assert.strictEqual(
        (yield* Effect.flip(on(other)(signalSandbox(one, "TERM"))))._tag,
        "SandboxStateRefused"
      )
      assert.strictEqual(countCalls(other.guests, "signal"), 0)
    })
  )
})
