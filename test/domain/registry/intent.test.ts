import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { expireSandbox } from "../../../src/domain/registry/expiry.ts"
import { withIntent } from "../../../src/domain/registry/intent.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { lookAt, recordOf, sandboxOf } from "./fixture.ts"
import { freshNode, on, openNode, requestOf } from "./guestFixture.ts"

const one = sandboxOf(1)
const wish = { reason: "user", actor: "uid:0" } as const

/** A node whose registry has not one byte left, with two sandboxes. */
const fullNode = Effect.gen(function* () {
  const roomy = yield* freshNode()
  for (const number of [1, 2]) {
    yield* on(roomy)(createSandbox(requestOf(number, { metadata: { team: "a".repeat(200) } })))
    yield* on(roomy)(startSandbox(sandboxOf(number)))
  }
  const { snapshotBytes } = yield* roomy.registry.charges
  return yield* openNode(roomy.directory, roomy.guests, { budgetBytes: snapshotBytes })
})

describe("registry/intent", () => {
  it("the first intent stays", () => {
    const first = withIntent(recordOf(1), { ...wish, requestedAtMillis: 1 })
    assert.strictEqual(withIntent(first, { reason: "expired", actor: "node", requestedAtMillis: 2 }), first)
  })

  it.live("RG-DEL-01 a full registry takes the intent to delete, before anything native is touched", () =>
    Effect.gen(function* () {
      const node = yield* fullNode
      const grown = yield* Effect.flip(
        node.registry.update(one, (record) =>
          Result.succeed(recordOf(1, { ...record, statusReason: "longer" }))
        )
      )
      assert.strictEqual(grown._tag, "RegistryFull")
      yield* on(node)(deleteSandbox(one, wish))
      assert.isFalse((yield* lookAt(node.directory)).has(one))
      assert.isTrue((yield* lookAt(node.directory)).has(sandboxOf(2)))
      yield* on(node)(createSandbox(requestOf(3)))
    })
  )

  it.live("RG-DEL-09 a full registry lets go of what has expired", () =>
    Effect.gen(function* () {
      const node = yield* fullNode
      assert.strictEqual(
        yield* on(node)(
          expireSandbox(
            one,
            Effect.succeed(() => true)
          )
        ),
        "expired"
      )
      assert.isFalse((yield* lookAt(node.directory)).has(one))
    })
  )
})
