import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { pauseSandbox, startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { requireOwnGuest } from "../../../src/domain/registry/ownGuest.ts"
import { endByItself } from "../../../src/infra/guests/scriptedState.ts"
import { sandboxOf, withDeletion } from "./fixture.ts"
import { becomeStranger, freshNode, on, requestOf, type TestNode } from "./guestFixture.ts"

const one = sandboxOf(1)

const running = Effect.gen(function* () {
  const node = yield* freshNode()
  yield* on(node)(createSandbox(requestOf(1)))
  yield* on(node)(startSandbox(one))
  return node
})

const refusalOf = (node: TestNode) =>
  Effect.map(Effect.flip(on(node)(requireOwnGuest(one, "work"))), ({ _tag }) => _tag)

describe("registry/ownGuest", () => {
  it.live("RG-RUN-04 the record is answered while its own guest runs, and for no other guest", () =>
    Effect.gen(function* () {
      const node = yield* running
      assert.deepStrictEqual(yield* on(node)(requireOwnGuest(one, "work")), yield* node.registry.get(one))
      becomeStranger(node.guests, 1)
      assert.strictEqual(yield* refusalOf(node), "EndpointUnavailable")
    })
  )

  it.live("a guest that has ended, is paused or being deleted is not worked on", () =>
    Effect.gen(function* () {
      const ended = yield* running
      endByItself(ended.guests, one, 0)
      assert.strictEqual(yield* refusalOf(ended), "EndpointUnavailable")
      const paused = yield* running
      yield* on(paused)(pauseSandbox(one))
      assert.strictEqual(yield* refusalOf(paused), "SandboxStateRefused")
      const deleted = yield* running
      yield* deleted.registry.update(one, withDeletion)
      assert.strictEqual(yield* refusalOf(deleted), "SandboxStateRefused")
    })
  )
})
