import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import {
  clockSettleMillis,
  deletionsAtOnceMax,
  maintenanceIntervalMillis
} from "../../../src/domain/Bounds.ts"
import { makeMaintenance, maintenanceLoop } from "../../../src/domain/registry/maintenance.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { Registry, type StorageFailed } from "../../../src/domain/registry/Registry.ts"
import { isWhollyFailed, SweepReports } from "../../../src/domain/SweepReports.ts"
import {
  countCalls,
  failNext as failGuest,
  hold as holdGuest
} from "../../../src/infra/guests/scriptedState.ts"
import { waitFor } from "../../support/waiting.ts"
import { failNext, recordOf, sandboxOf } from "./fixture.ts"
import { freshNode, type NodeServices, on, type TestNode } from "./guestFixture.ts"
import { makeSteeredClocks, startMillis } from "./steeredClocks.ts"

const lifeMillis = 600_000
const one = sandboxOf(1)

/** A node with sandboxes that were created now and live ten minutes, its maintenance, and what it logs. */
const maintained = (count: number, wallMillis: number = startMillis) =>
  Effect.gen(function* () {
    const clocks = yield* makeSteeredClocks(wallMillis)
    const node = yield* freshNode()
    for (let number = 1; number <= count; number += 1) {
      yield* node.registry.admit(
        recordOf(number, { createdAtMillis: wallMillis, expiresAtMillis: wallMillis + lifeMillis })
      )
    }
    const logged: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => void logged.push(`${logLevel} ${String(message)}`))
    const made = yield* Effect.provideContext(makeMaintenance, node.context)
    const running = <A>(look: Effect.Effect<A, StorageFailed, NodeServices>) =>
      clocks.provide(on(node)(look)).pipe(Effect.provide(Logger.layer([logger])))
    return { node, clocks, tick: running(made.tick), pass: running(made.pass), logged }
  })

const remaining = ({ registry }: TestNode) => Effect.map(registry.inventory, ({ size }) => size)

const untilRemaining = (node: TestNode, count: number) =>
  waitFor({ fact: `${count} sandboxes remain`, look: remaining(node), holds: (size) => size === count })

describe("registry/maintenance", () => {
  it.live("RG-DEL-09 what has expired is deleted by the node itself, and nothing else", () =>
    Effect.gen(function* () {
      const { clocks, node, tick } = yield* maintained(2)
      yield* node.registry.admit(
        recordOf(3, { createdAtMillis: startMillis, expiresAtMillis: startMillis + lifeMillis + 1 })
      )
      clocks.pass(lifeMillis - 1)
      assert.strictEqual(yield* tick, 0)
      clocks.pass(1)
      assert.strictEqual(yield* tick, 2)
      yield* untilRemaining(node, 1)
      assert.isTrue((yield* node.registry.inventory).has(sandboxOf(3)))
      clocks.pass(1)
      assert.strictEqual(yield* tick, 1)
      yield* untilRemaining(node, 0)
    })
  )

  it.live("RG-DEL-09 at most eight are deleted at once, none twice, and a tick does not wait for them", () =>
    Effect.gen(function* () {
      const { clocks, node, tick } = yield* maintained(deletionsAtOnceMax + 3)
      const end = holdGuest(node.guests, "end")
      clocks.pass(lifeMillis)
      assert.strictEqual(yield* tick, deletionsAtOnceMax + 3)
      yield* waitFor({
        fact: "eight deletions have begun",
        look: Effect.sync(() => countCalls(node.guests, "end")),
        holds: (count) => count === deletionsAtOnceMax
      })
      clocks.pass(1_000)
      assert.strictEqual(yield* tick, 0)
      assert.strictEqual(countCalls(node.guests, "end"), deletionsAtOnceMax)
      yield* end.release
      yield* untilRemaining(node, 0)
      assert.strictEqual(countCalls(node.guests, "end"), deletionsAtOnceMax + 3)
    })
  )

  it.live(
    "RG-DEL-09 one that fails holds up no other, is told, and is left to the sweep with its intent",
    () =>
      Effect.gen(function* () {
        const { clocks, logged, node, tick } = yield* maintained(2)
        failGuest(node.guests, "end")
        clocks.pass(lifeMillis)
        yield* tick
        yield* untilRemaining(node, 1)
        const [kept] = (yield* node.registry.inventory).values()
        assert.strictEqual(kept!.deletion?.reason, "expired")
        assert.strictEqual(yield* tick, 0)
        assert.isTrue(logged.some((line) => line.startsWith("Warn") && line.includes(kept!.id)))
      })
  )

  it.live("FC-05 expired ones that cannot be deleted are told as failed until they are gone", () =>
    Effect.gen(function* () {
      const { clocks, logged, node, pass } = yield* maintained(2)
      clocks.pass(lifeMillis)
      failGuest(node.guests, "end")
      failGuest(node.guests, "end")
      yield* pass
      yield* waitFor({
        fact: "both failures are told",
        look: Effect.sync(() => logged.filter((line) => line.includes("still there")).length),
        holds: (count) => count === 2
      })
      const failed = yield* pass
      assert.deepStrictEqual(failed, { attempted: 2, done: 0, failed: 2 })
      // Nothing new has expired, and those are there yet.
      assert.deepStrictEqual(yield* pass, failed)
      yield* clocks.provide(on(node)(reconcileSandboxes))
      yield* untilRemaining(node, 0)
      assert.deepStrictEqual(yield* pass, { attempted: 0, done: 0, failed: 0 })
    })
  )

  it.live("FC-05 those that were deleted are told once", () =>
    Effect.gen(function* () {
      const { clocks, node, pass } = yield* maintained(2)
      clocks.pass(lifeMillis)
      yield* pass
      yield* untilRemaining(node, 0)
      let told = 0
      yield* waitFor({
        fact: "both are told",
        look: Effect.map(pass, ({ done }): number => (told += done)),
        holds: () => told >= 2
      })
      assert.deepStrictEqual(yield* pass, { attempted: 0, done: 0, failed: 0 })
    })
  )

  it.live("RG-DEL-09 one whose intent was not written is tried again by the next tick", () =>
    Effect.gen(function* () {
      const { clocks, logged, node, tick } = yield* maintained(1)
      failNext(node.disk, "create", "before", "ENOSPC")
      clocks.pass(lifeMillis)
      yield* tick
      yield* waitFor({
        fact: "the failure is told",
        look: Effect.sync(() => logged.length),
        holds: (count) => count > 0
      })
      assert.isNull((yield* node.registry.get(one)).deletion)
      assert.strictEqual(yield* tick, 1)
      yield* untilRemaining(node, 0)
    })
  )

  it.live("FC-23 a clock of 1970 ends nothing, is told once, and what was created by it lives its life", () =>
    Effect.gen(function* () {
      const { clocks, logged, node, tick } = yield* maintained(1, 5_000)
      yield* tick
      clocks.pass(10 * lifeMillis)
      assert.strictEqual(yield* tick, 0)
      assert.strictEqual(yield* tick, 0)
      assert.strictEqual(logged.length, 1)
      assert.match(logged[0]!, /^Warn no sandbox expires: .*before this release.*set the clock/)
      clocks.set(startMillis)
      assert.strictEqual(yield* tick, 1)
      yield* untilRemaining(node, 0)
    })
  )

  it.live("FC-23 a clock that was 1970 at the start, and is set then, ends nothing at that moment", () =>
    Effect.gen(function* () {
      const { clocks, node, tick } = yield* maintained(1, 5_000)
      yield* tick
      clocks.set(startMillis)
      clocks.pass(lifeMillis - 1)
      assert.strictEqual(yield* tick, 0)
      clocks.pass(1)
      assert.strictEqual(yield* tick, 1)
      yield* untilRemaining(node, 0)
    })
  )

  it.live("FC-23 a clock that jumps ahead and back again has ended nothing, and is told", () =>
    Effect.gen(function* () {
      const { clocks, logged, node, tick } = yield* maintained(1)
      yield* tick
      clocks.set(startMillis + 1_000 * lifeMillis)
      assert.strictEqual(yield* tick, 0)
      clocks.set(startMillis)
      assert.strictEqual(yield* tick, 0)
      assert.strictEqual(yield* remaining(node), 1)
      assert.match(logged[0]!, /^Warn no sandbox expires: .*has jumped/)
    })
  )

  it.live("FC-23 a start by a clock of another century ends nothing until it has stayed", () =>
    Effect.gen(function* () {
      const { clocks, logged, node, tick } = yield* maintained(1)
      clocks.set(startMillis + 80 * 365 * 86_400_000)
      assert.strictEqual(yield* tick, 0)
      assert.match(logged[0]!, /^Warn no sandbox expires: .*ahead of the newest/)
      clocks.pass(clockSettleMillis - 1)
      assert.strictEqual(yield* tick, 0)
      clocks.pass(1)
      assert.strictEqual(yield* tick, 1)
      yield* untilRemaining(node, 0)
    })
  )

  it.live(
    "FC-23 the clock is asked again under the gate: one that jumps between tick and turn ends nothing",
    () =>
      Effect.gen(function* () {
        const { clocks, node, tick } = yield* maintained(deletionsAtOnceMax + 1)
        const end = holdGuest(node.guests, "end")
        clocks.pass(lifeMillis)
        yield* tick
        yield* end.reached
        clocks.set(startMillis + 1_000 * lifeMillis)
        yield* end.release
        yield* untilRemaining(node, 1)
        const [kept] = (yield* node.registry.inventory).values()
        assert.isNull(kept!.deletion)
      })
  )

  const counted = Effect.gen(function* () {
    const { context, registry } = yield* freshNode()
    const seen = { ticks: 0, gate: Deferred.makeUnsafe<void>(), isHeld: false }
    const counting = Registry.of({
      ...registry,
      inventory: Effect.suspend(() => {
        seen.ticks += 1
        return Effect.andThen(seen.isHeld ? Deferred.await(seen.gate) : Effect.void, registry.inventory)
      })
    })
    return { seen, context: Context.add(context, Registry, counting) }
  })

  it.effect("RG-DEL-09 it looks every second, and looks that were missed are not made up for", () =>
    Effect.gen(function* () {
      const { context, seen } = yield* counted
      const loop = yield* Effect.forkChild(
        Effect.scoped(Effect.provideContext(maintenanceLoop, context)).pipe(
          Effect.provide(SweepReports.layer)
        )
      )
      const pass = (millis: number) => TestClock.adjust(millis)
      yield* pass(0)
      assert.strictEqual(seen.ticks, 1)
      yield* pass(maintenanceIntervalMillis)
      assert.strictEqual(seen.ticks, 2)
      yield* pass(maintenanceIntervalMillis - 1)
      assert.strictEqual(seen.ticks, 2)
      seen.isHeld = true
      yield* pass(1)
      assert.strictEqual(seen.ticks, 3)
      yield* pass(10 * maintenanceIntervalMillis + 500)
      seen.isHeld = false
      yield* Deferred.succeed(seen.gate, undefined)
      yield* pass(0)
      assert.isAtMost(seen.ticks, 4)
      yield* pass(maintenanceIntervalMillis)
      assert.isAtMost(seen.ticks, 5)
      yield* Fiber.interrupt(loop)
    })
  )

  it.effect("RG-COM-05 FC-05 a registry whose latch is closed fails every pass, and it is logged once", () =>
    Effect.gen(function* () {
      const { logged, node } = yield* maintained(1)
      failNext(node.disk, "sync")
      yield* Effect.flip(node.registry.admit(recordOf(2)))
      const logger = Logger.make(({ message }) => void logged.push(String(message)))
      const loop = yield* Effect.forkChild(
        Effect.scoped(Effect.provideContext(maintenanceLoop, node.context)).pipe(
          Effect.provide(Logger.layer([logger]))
        )
      )
      for (let second = 0; second < 3; second += 1) yield* TestClock.adjust(maintenanceIntervalMillis)
      const [report] = yield* (yield* SweepReports).all
      assert.deepInclude(report, { sweep: "expired sandboxes", done: 0, failed: 1 })
      assert.isAbove(report?.atMillis ?? 0, maintenanceIntervalMillis)
      assert.isTrue(report !== undefined && isWhollyFailed(report))
      assert.lengthOf(
        logged.filter((line) => line.includes("the sweep of expired sandboxes failed")),
        1
      )
      yield* Fiber.interrupt(loop)
    }).pipe(Effect.provide(SweepReports.layer))
  )
})
