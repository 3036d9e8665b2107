/** Letting a guest go on that stands still, however far its pause had come. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { guestResumeTriesMax } from "../../../src/domain/Bounds.ts"
import { SandboxId } from "../../../src/domain/Identity.ts"
import { letGoOn } from "../../../src/domain/operations/guestPause.ts"
import { pauseSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { countCalls, endByItself, failNext, hold } from "../../../src/infra/guests/scriptedState.ts"
import { Scripted, undispatched } from "../removal/fixture.ts"
import { goesOn, guestOf, standsStill, withWorkspace } from "./snapshotFixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const statusOf = (sandbox: SandboxId) =>
  Effect.flatMap(Registry, (registry) => Effect.map(registry.get(sandbox), ({ status }) => status))

describe("operations/guestPause", () => {
  layer(
    undispatched,
    live
  )((it) => {
    it.effect("a guest whose pause was cut off half way runs, and its record says so", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const { guests } = yield* Scripted
        const barrier = hold(guests, "pause")
        const pausing = yield* Effect.forkChild(pauseSandbox(scene.sandbox))
        yield* barrier.reached
        yield* Fiber.interrupt(pausing)
        yield* barrier.release
        assert.strictEqual(yield* statusOf(scene.sandbox), "Pausing")
        guests.guests.get(scene.sandbox)!.isPaused = true
        yield* letGoOn(scene.sandbox)
        assert.deepStrictEqual([yield* guestOf(scene), yield* statusOf(scene.sandbox)], [goesOn, "Running"])
      })
    )

    it.effect("one that never goes on is told so, behind a bounded number of tries", () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const { guests } = yield* Scripted
        yield* pauseSandbox(scene.sandbox)
        for (let at = 0; at < guestResumeTriesMax; at += 1) failNext(guests, "resume")
        const failure = yield* Effect.flip(letGoOn(scene.sandbox))
        assert.strictEqual(failure.code, "guest_failure")
        assert.strictEqual(countCalls(guests, "resume", scene.sandbox), guestResumeTriesMax)
        assert.deepStrictEqual(yield* guestOf(scene), standsStill)
        yield* letGoOn(scene.sandbox)
        assert.deepStrictEqual(yield* guestOf(scene), goesOn)
      })
    )

    it.effect(
      "one that runs, one that has ended while it stood still and one that never was need nothing",
      () =>
        Effect.gen(function* () {
          const scene = yield* withWorkspace
          const { guests } = yield* Scripted
          yield* letGoOn(scene.sandbox)
          assert.strictEqual(countCalls(guests, "resume", scene.sandbox), 0)
          yield* pauseSandbox(scene.sandbox)
          endByItself(guests, scene.sandbox, 1)
          yield* letGoOn(scene.sandbox)
          yield* letGoOn(SandboxId.make("sb-00000000-0000-4000-8000-0000000000ff"))
        })
    )
  })
})
