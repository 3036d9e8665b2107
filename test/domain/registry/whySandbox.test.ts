import * as Files from "node:fs"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import type { WhyStep } from "../../../src/domain/registry/why.ts"
import { whySandbox } from "../../../src/domain/registry/whySandbox.ts"
import { failNext } from "../../../src/infra/guests/scriptedState.ts"
import { sandboxOf } from "./fixture.ts"
import { freshNode, on, openNode, requestOf, type TestNode } from "./guestFixture.ts"

const one = sandboxOf(1)
const wish = { reason: "user", actor: "tester" } as const

/** A running sandbox whose guest's identity stands on disk, as a real supervisor leaves it. */
const running = Effect.gen(function* () {
  const node = yield* freshNode()
  yield* on(node)(createSandbox(requestOf(1)))
  const identity = yield* on(node)(startSandbox(one))
  const folder = Path.join(node.directory, "runtime", one)
  Files.mkdirSync(folder, { recursive: true })
  Files.writeFileSync(Path.join(folder, "identity.json"), JSON.stringify(identity))
  return { node, identity }
})

const why = (node: TestNode) => on(node)(whySandbox(one))
const told = (steps: ReadonlyArray<WhyStep>, name: WhyStep["step"]) => steps.find(({ step }) => step === name)

describe("registry/whySandbox", () => {
  it.live(
    "BX-02 the chain of a living sandbox is told from its record and its identity, and asks no guest",
    () =>
      Effect.gen(function* () {
        const { identity, node } = yield* running
        node.guests.calls.length = 0
        node.disk.calls.length = 0
        const steps = yield* why(node)
        assert.strictEqual(told(steps, "guest")?.facts["pid"], identity.init.pid)
        assert.match(told(steps, "reservation")!.told, /^kept/)
        assert.deepStrictEqual([node.guests.calls, node.disk.calls], [[], []])
      })
  )

  it.live(
    "BX-02 FC-22 after its end the same chain is told from the tombstone, also by the next daemon",
    () =>
      Effect.gen(function* () {
        const { identity, node } = yield* running
        yield* on(node)(deleteSandbox(one, wish))
        const next = yield* openNode(node.directory, node.guests)
        const steps = yield* why(next)
        assert.strictEqual(told(steps, "guest")?.facts["startTicks"], identity.init.startTicks)
        assert.deepInclude(told(steps, "deletion"), { actor: "tester", facts: { reason: "user" } })
        assert.strictEqual(told(steps, "absence")?.facts["evidence"], "GroupsEmpty")
        assert.match(told(steps, "reservation")!.told, /^given back/)
        assert.isAtLeast(steps.filter(({ step }) => step === "state").length, 2)
      })
  )

  it.live("a deletion that waits for its proof is told as waiting", () =>
    Effect.gen(function* () {
      const { node } = yield* running
      failNext(node.guests, "end")
      yield* Effect.flip(on(node)(deleteSandbox(one, wish)))
      const steps = yield* why(node)
      assert.strictEqual(told(steps, "deletion")?.actor, "tester")
      assert.isNull(told(steps, "absence")?.atMillis)
      assert.match(told(steps, "reservation")!.told, /^kept until its absence is proved/)
    })
  )

  it.live("an identity that cannot be read is told as a failure, and does not hold a deletion up", () =>
    Effect.gen(function* () {
      const { node } = yield* running
      Files.writeFileSync(Path.join(node.directory, "runtime", one, "identity.json"), "torn")
      assert.strictEqual((yield* Effect.flip(why(node)))._tag, "RunStateFailure")
      yield* on(node)(deleteSandbox(one, wish))
      assert.isNull(told(yield* why(node), "guest")?.actor ?? null)
    })
  )

  it.live("a sandbox that never was is not found", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      assert.strictEqual((yield* Effect.flip(why(node)))._tag, "SandboxNotFound")
    })
  )
})
