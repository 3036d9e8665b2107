import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { GuestCapabilities } from "../../../src/domain/guests/GuestSpec.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { pauseSandbox, resumeSandbox, startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { countCalls, failNext as failGuest, hold } from "../../../src/infra/guests/scriptedState.ts"
import { lookAt, sandboxOf, withDeletion } from "./fixture.ts"
import { freshNode, on, requestOf } from "./guestFixture.ts"

const one = sandboxOf(1)
const started = (options: Parameters<typeof freshNode>[0] = {}) =>
  Effect.gen(function* () {
    const node = yield* freshNode(options)
    yield* on(node)(createSandbox(requestOf(1)))
    yield* on(node)(startSandbox(one))
    return node
  })
const statusOf = (node: Effect.Success<ReturnType<typeof started>>) =>
  Effect.map(lookAt(node.directory), (inventory) => inventory.get(one)!.status)

describe("registry/lifecycle, pausing", () => {
  it.live.each([
    ["pause", "Pausing", "Paused"],
    ["resume", "Resuming", "Running"]
  ] as const)("a %s is %s on disk before the guest is touched, then %s", ([call, through, to]) =>
    Effect.gen(function* () {
      const node = yield* started()
      if (call === "resume") yield* on(node)(pauseSandbox(one))
      const held = hold(node.guests, call)
      const program = call === "pause" ? pauseSandbox(one) : resumeSandbox(one)
      const turning = yield* Effect.forkChild(on(node)(program))
      yield* held.reached
      assert.strictEqual(yield* statusOf(node), through)
      yield* held.release
      assert.strictEqual((yield* Fiber.join(turning)).status, to)
      assert.strictEqual(yield* statusOf(node), to)
      assert.strictEqual((yield* node.registry.charges).cpuMillis, 100)
      yield* on(node)(program)
      assert.strictEqual(countCalls(node.guests, call), 1)
    })
  )

  it.live.each([
    ["before", "Running"],
    ["after", "Paused"]
  ] as const)("a pause that fails %s it was done leaves the record as the guest is: %s", ([when, status]) =>
    Effect.gen(function* () {
      const node = yield* started()
      failGuest(node.guests, "pause", when)
      assert.strictEqual((yield* Effect.flip(on(node)(pauseSandbox(one))))._tag, "GuestFailure")
      assert.strictEqual(yield* statusOf(node), status)
    })
  )

  it.live("a pause that the daemon did not survive is taken up again", () =>
    Effect.gen(function* () {
      const node = yield* started()
      failGuest(node.guests, "pause")
      failGuest(node.guests, "inspect")
      yield* Effect.flip(on(node)(pauseSandbox(one)))
      assert.strictEqual(yield* statusOf(node), "Pausing")
      yield* on(node)(pauseSandbox(one))
      assert.strictEqual(yield* statusOf(node), "Paused")
    })
  )

  it.live(
    "a sandbox that does not run, is being deleted, or whose supervisor cannot pause, is refused untouched",
    () =>
      Effect.gen(function* () {
        const node = yield* freshNode()
        yield* on(node)(createSandbox(requestOf(1)))
        assert.strictEqual((yield* Effect.flip(on(node)(pauseSandbox(one))))._tag, "SandboxStateRefused")
        assert.strictEqual((yield* Effect.flip(on(node)(resumeSandbox(one))))._tag, "SandboxStateRefused")
        const deleting = yield* started()
        yield* deleting.registry.update(one, withDeletion)
        assert.strictEqual((yield* Effect.flip(on(deleting)(pauseSandbox(one))))._tag, "SandboxStateRefused")
        const unable = yield* started({
          supervisor: (real) => ({
            ...real,
            capabilities: new GuestCapabilities({ ...real.capabilities, pause: false })
          })
        })
        assert.strictEqual((yield* Effect.flip(on(unable)(pauseSandbox(one))))._tag, "GuestCallUnsupported")
        for (const each of [node, deleting, unable]) assert.strictEqual(countCalls(each.guests, "pause"), 0)
        assert.strictEqual(yield* statusOf(unable), "Running")
      })
  )
})
