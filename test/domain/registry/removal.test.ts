import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { SandboxRecord, SandboxStatus } from "../../../src/domain/registry/Record.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import {
  countCalls,
  failNext as failGuest,
  hold,
  type ScriptedCall
} from "../../../src/infra/guests/scriptedState.ts"
import { failNext, lookAt, sandboxOf } from "./fixture.ts"
import { freshNode, on, openNode, requestOf, type TestNode } from "./guestFixture.ts"

const one = sandboxOf(1)
const wish = { reason: "user", actor: "tester" } as const

const started = Effect.gen(function* () {
  const node = yield* freshNode()
  yield* on(node)(createSandbox(requestOf(1)))
  yield* on(node)(startSandbox(one))
  return node
})

/** The record has gone with its charge, and the guest with it. */
const isAllGone = Effect.fnUntraced(function* (node: TestNode) {
  assert.strictEqual((yield* lookAt(node.directory)).size, 0)
  assert.strictEqual((yield* node.registry.charges).sandboxes, 0)
  assert.isFalse(node.guests.guests.get(one)?.isAlive ?? false)
})

describe("registry/removal", () => {
  it.live(
    "RG-DEL-01 the intent is durable before the guest is touched, and the charge goes only after the proof",
    () =>
      Effect.gen(function* () {
        const node = yield* started
        const end = hold(node.guests, "end")
        const groups = hold(node.guests, "removeGroups")
        const deleting = yield* Effect.forkChild(on(node)(deleteSandbox(one, wish)))
        yield* end.reached
        assert.deepInclude((yield* lookAt(node.directory)).get(one)!.deletion, wish)
        assert.isTrue(node.guests.guests.get(one)!.isAlive)
        yield* end.release
        yield* groups.reached
        assert.isFalse(node.guests.guests.get(one)!.isAlive)
        assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
        yield* groups.release
        const proof = yield* Fiber.join(deleting)
        assert.strictEqual(proof.sandbox, one)
        yield* isAllGone(node)
      })
  )

  it.live("RG-DEL-01 no guest is touched when the intent could not be made durable", () =>
    Effect.gen(function* () {
      const node = yield* started
      failNext(node.disk, "create")
      assert.strictEqual((yield* Effect.flip(on(node)(deleteSandbox(one, wish))))._tag, "RegistryWriteFailed")
      assert.strictEqual(countCalls(node.guests, "end"), 0)
      assert.isNull((yield* node.registry.get(one)).deletion)
    })
  )

  it.live(
    "a deletion repeated, at once and over a restart, answers the same proof and ends the guest once",
    () =>
      Effect.gen(function* () {
        const node = yield* started
        const proofs = yield* Effect.all(
          Array.from({ length: 5 }, () => on(node)(deleteSandbox(one, wish))),
          { concurrency: "unbounded" }
        )
        proofs.push(yield* on(yield* openNode(node.directory, node.guests))(deleteSandbox(one, wish)))
        assert.strictEqual(new Set(proofs.map((proof) => JSON.stringify(proof))).size, 1)
        assert.strictEqual(countCalls(node.guests, "end"), 1)
      })
  )

  it.live("a sandbox that never was here is not found, and no proof is made for it", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      assert.strictEqual((yield* Effect.flip(on(node)(deleteSandbox(one, wish))))._tag, "SandboxNotFound")
      assert.deepStrictEqual(node.guests.calls, [])
    })
  )

  it.live("FC-22 the first asker's reason and actor stay on the record", () =>
    Effect.gen(function* () {
      const node = yield* started
      failGuest(node.guests, "end")
      yield* Effect.flip(on(node)(deleteSandbox(one, wish)))
      failGuest(node.guests, "end")
      yield* Effect.flip(on(node)(deleteSandbox(one, { reason: "project", actor: "other" })))
      assert.deepInclude((yield* node.registry.get(one)).deletion, wish)
    })
  )

  it.live.each([
    "end",
    "inspect",
    "lockOwner",
    "removeGroups"
  ] as const satisfies ReadonlyArray<ScriptedCall>)(
    "RG-DEL-05 FC-01 a deletion that fails at %s keeps record and charge, and the next one finishes it",
    (call) =>
      Effect.gen(function* () {
        // The double's lock that fails after it was taken stays taken until a restart.
        for (const when of call === "lockOwner" ? (["before"] as const) : (["before", "after"] as const)) {
          const node = yield* started
          failGuest(node.guests, call, when)
          assert.strictEqual((yield* Effect.flip(on(node)(deleteSandbox(one, wish))))._tag, "GuestFailure")
          assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
          assert.isTrue((yield* lookAt(node.directory)).has(one))
          yield* on(node)(deleteSandbox(one, wish))
          yield* isAllGone(node)
        }
      })
  )

  it.live("RG-DEL-06 RG-DEL-02 a guest whose absence is uncertain keeps its record and its charge", () =>
    Effect.gen(function* () {
      const node = yield* started
      node.guests.guests.get(one)!.groups = "replaced"
      assert.strictEqual((yield* Effect.flip(on(node)(deleteSandbox(one, wish))))._tag, "AbsenceNotProved")
      assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
    })
  )

  it.live.each(SandboxStatus.literals)("FC-08 a deletion is accepted from the state %s", (status) =>
    Effect.gen(function* () {
      const node = yield* started
      yield* node.registry.update(one, (record) => Result.succeed(new SandboxRecord({ ...record, status })))
      yield* on(node)(deleteSandbox(one, wish))
      yield* isAllGone(node)
    })
  )

  it.live("RG-DEL-05 a daemon that dies at any step of a deletion finishes it at its next start", () =>
    Effect.gen(function* () {
      const steps: Array<string> = []
      const observe = (at: number) => ({
        before: (program: string, step: string) => die(at, `before ${program} ${step}`),
        after: (program: string, step: string) => die(at, `after ${program} ${step}`)
      })
      const die = (at: number, step: string) =>
        Effect.suspend(() => {
          steps.push(step)
          return steps.length - 1 === at ? Effect.die("the daemon died here") : Effect.void
        })
      for (let at = 0; ; at += 1) {
        steps.length = 0
        const node = yield* started
        const exit = yield* Effect.exit(
          on(node)(deleteSandbox(one, wish)).pipe(Effect.provideService(StepObserver, observe(at)))
        )
        const restarted = yield* openNode(node.directory, node.guests)
        if (Exit.isSuccess(exit)) break
        const survives = steps.at(-1) === "before registry.deleteSandbox intent"
        yield* on(restarted)(reconcileSandboxes)
        if (survives) assert.isTrue(node.guests.guests.get(one)!.isAlive)
        else yield* isAllGone(restarted)
      }
      assert.isAtLeast(steps.length, 16)
    })
  )
})
