import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { expireSandbox } from "../../../src/domain/registry/expiry.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import type { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { renewSandbox } from "../../../src/domain/registry/renewal.ts"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import {
  countCalls,
  failNext as failGuest,
  hold as holdGuest
} from "../../../src/infra/guests/scriptedState.ts"
import { makeBarrier } from "../../support/sideBySide.ts"
import { hold, lookAt, sandboxOf } from "./fixture.ts"
import { freshNode, on, openNode, requestOf, type TestNode } from "./guestFixture.ts"
import { makeSteeredClocks } from "./steeredClocks.ts"

const one = sandboxOf(1)
const lifeMillis = 600_000
const renewal = { lifeSeconds: 3_600, lifeSecondsMax: 86_400 }

const byItsEnd = (nowMillis: number) => (record: SandboxRecord) => record.expiresAtMillis <= nowMillis

/** A running sandbox whose life of ten minutes has just ended, and the clocks. */
const overdue = Effect.gen(function* () {
  const clocks = yield* makeSteeredClocks()
  const node = yield* freshNode()
  yield* clocks.provide(on(node)(createSandbox(requestOf(1))))
  yield* on(node)(startSandbox(one))
  clocks.pass(lifeMillis)
  const { expiresAtMillis } = yield* node.registry.get(one)
  const judge = Effect.succeed(byItsEnd(expiresAtMillis))
  const expire = clocks.provide(on(node)(expireSandbox(one, judge)))
  const renew = clocks.provide(on(node)(renewSandbox(one, renewal)))
  return { node, clocks, expire, renew, expiresAtMillis }
})

const tombstoneOf = (node: TestNode) =>
  on(node)(Effect.flatMap(RunState, (runState) => runState.readTombstone(one)))

describe("registry/expiry", () => {
  it.live("RG-DEL-09 RG-DEL-01 the intent is durable before the guest is touched; then all of it goes", () =>
    Effect.gen(function* () {
      const { clocks, expire, node } = yield* overdue
      const end = holdGuest(node.guests, "end")
      const expiring = yield* Effect.forkChild(expire)
      yield* end.reached
      const requestedAtMillis = (yield* node.registry.get(one)).expiresAtMillis
      assert.deepStrictEqual((yield* lookAt(node.directory)).get(one)!.deletion, {
        reason: "expired",
        actor: "node",
        requestedAtMillis
      })
      assert.isTrue(node.guests.guests.get(one)!.isAlive)
      clocks.pass(1)
      yield* end.release
      assert.strictEqual(yield* Fiber.join(expiring), "expired")
      assert.strictEqual((yield* node.registry.charges).sandboxes, 0)
      assert.isFalse(node.guests.guests.get(one)?.isAlive ?? false)
    })
  )

  it.live("FC-22 after its end the reason and the actor of an expiry can be read", () =>
    Effect.gen(function* () {
      const { expire, node } = yield* overdue
      yield* expire
      const tombstone = Option.getOrThrow(yield* tombstoneOf(node))
      assert.deepInclude(tombstone.provenance?.deletion, { reason: "expired", actor: "node" })
    })
  )

  it.live("RG-DEL-09 a life that is not over is not ended", () =>
    Effect.gen(function* () {
      const { expire, node, renew } = yield* overdue
      yield* renew
      assert.strictEqual(yield* expire, "kept")
      assert.strictEqual(countCalls(node.guests, "end"), 0)
      assert.isNull((yield* node.registry.get(one)).deletion)
    })
  )

  it.live("RG-DEL-09 a renewal that gets in while the expiry waits at the gate wins", () =>
    Effect.gen(function* () {
      const { expiresAtMillis, node, renew } = yield* overdue
      const barrier = yield* makeBarrier("the judge under the gate")
      const judge = Effect.as(barrier.arrive, byItsEnd(expiresAtMillis))
      const expiring = yield* Effect.forkChild(on(node)(expireSandbox(one, judge)))
      yield* barrier.reached
      const renewed = yield* renew
      yield* barrier.open
      assert.strictEqual(yield* Fiber.join(expiring), "kept")
      const record = yield* node.registry.get(one)
      assert.isNull(record.deletion)
      assert.strictEqual(record.expiresAtMillis, renewed.expiresAtMillis)
      assert.isTrue(node.guests.guests.get(one)!.isAlive)
    })
  )

  it.live(
    "RG-DEL-09 a renewal that is on its way to the disk wins over an expiry that is decided behind it",
    () =>
      Effect.gen(function* () {
        const { expire, node, renew } = yield* overdue
        const write = hold(node.disk, "sync")
        const renewing = yield* Effect.forkChild(renew)
        yield* write.reached
        const expiring = yield* Effect.forkChild(expire)
        yield* Effect.yieldNow
        yield* write.release
        yield* Fiber.join(renewing)
        assert.strictEqual(yield* Fiber.join(expiring), "kept")
      })
  )

  it.live("RG-DEL-09 a renewal that comes after the intent is refused, and the sandbox goes", () =>
    Effect.gen(function* () {
      const { expire, node, renew } = yield* overdue
      const write = hold(node.disk, "sync")
      const expiring = yield* Effect.forkChild(expire)
      yield* write.reached
      const renewing = yield* Effect.forkChild(Effect.flip(renew))
      yield* Effect.yieldNow
      yield* write.release
      const refusal = yield* Fiber.join(renewing)
      assert.include(["SandboxExpired", "SandboxNotFound"], refusal._tag)
      assert.strictEqual(yield* Fiber.join(expiring), "expired")
      assert.strictEqual((yield* lookAt(node.directory)).size, 0)
    })
  )

  it.live("RG-DEL-09 a sandbox that somebody works on is left to him, and asked again", () =>
    Effect.gen(function* () {
      const { expire, node } = yield* overdue
      const barrier = yield* makeBarrier("somebody at the gate")
      const working = yield* Effect.forkChild(node.registry.exclusive(one, barrier.arrive))
      yield* barrier.reached
      assert.strictEqual(yield* expire, "busy")
      assert.isNull((yield* node.registry.get(one)).deletion)
      yield* barrier.open
      yield* Fiber.join(working)
      assert.strictEqual(yield* expire, "expired")
    })
  )

  it.live(
    "RG-DEL-09 an expiry that fails keeps its intent and the charge, and a restarted node finishes it",
    () =>
      Effect.gen(function* () {
        const { expire, node } = yield* overdue
        failGuest(node.guests, "end")
        yield* Effect.flip(expire)
        assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
        assert.strictEqual((yield* node.registry.get(one)).deletion?.reason, "expired")
        const restarted = yield* openNode(node.directory, node.guests)
        yield* on(restarted)(reconcileSandboxes)
        assert.strictEqual((yield* lookAt(node.directory)).size, 0)
        assert.deepInclude(Option.getOrThrow(yield* tombstoneOf(restarted)).provenance?.deletion, {
          reason: "expired"
        })
      })
  )

  it.live("FC-22 who asked for a deletion before the expiry stays its reason and its actor", () =>
    Effect.gen(function* () {
      const { expire, node } = yield* overdue
      failGuest(node.guests, "end")
      yield* Effect.flip(on(node)(deleteSandbox(one, { reason: "user", actor: "ann" })))
      yield* expire
      assert.deepInclude(Option.getOrThrow(yield* tombstoneOf(node)).provenance?.deletion, {
        reason: "user",
        actor: "ann"
      })
    })
  )
})
