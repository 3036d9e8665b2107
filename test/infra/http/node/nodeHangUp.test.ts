/** What the node carries on when its caller has gone, and what goes with him. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { countCalls, hold } from "../../../../src/infra/guests/scriptedState.ts"
import { creation, type ServedNode, serveFresh } from "./nodeServer.ts"

const create = ({ client }: ServedNode) => client.sandboxes.create({ payload: creation("k") })

const soon = Schedule.max([Schedule.spaced(5), Schedule.recurs(400)])

/** Waits until it holds; it holds soon or never. */
const eventually = <E, R>(told: string, holds: Effect.Effect<boolean, E, R>) =>
  holds.pipe(
    Effect.repeat({ until: (it) => it, schedule: soon }),
    Effect.map((it) => assert.isTrue(it, told))
  )

/** Later requests are answered after the server has seen an earlier connection close. */
const othersAnswered = ({ client }: ServedNode) => Effect.repeat(client.node.readiness(), { times: 3 })

describe("node/hangUp", () => {
  it.live("RG figures a caller who hangs up cancels no creation: it goes on, and the key answers it", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const start = hold(served.node.guests, "start")
      const caller = yield* Effect.forkChild(create(served))
      yield* start.reached
      yield* Fiber.interrupt(caller)
      yield* othersAnswered(served)
      yield* start.release
      const [record] = (yield* served.node.registry.inventory).values()
      yield* eventually(
        "it runs",
        Effect.map(served.node.registry.get(record!.id), ({ status }) => status === "Running")
      )
      assert.strictEqual((yield* create(served)).sandbox, record!.id)
      assert.strictEqual(countCalls(served.node.guests, "start"), 1)
    })
  )

  it.live("RG figures a caller who hangs up cancels no deletion", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const { sandbox } = yield* create(served)
      const end = hold(served.node.guests, "end")
      const caller = yield* Effect.forkChild(served.client.sandboxes.delete({ params: { sandbox } }))
      yield* end.reached
      yield* Fiber.interrupt(caller)
      yield* othersAnswered(served)
      yield* end.release
      yield* eventually(
        "it is gone",
        Effect.map(served.node.registry.inventory, ({ size }) => size === 0)
      )
    })
  )

  it.live("a caller who hangs up ends his command", () =>
    Effect.gen(function* () {
      const [began, ended] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const served = yield* serveFresh({
        supervisor: (real) => ({
          ...real,
          execute: () =>
            Stream.fromEffect(
              Effect.andThen(Deferred.succeed(began, undefined), Effect.never).pipe(
                Effect.onInterrupt(() => Deferred.succeed(ended, undefined))
              )
            )
        })
      })
      const { sandbox } = yield* create(served)
      const payload = { argv: ["sleep"], environment: {} } as const
      const running = served.client.sandboxes
        .exec({ params: { sandbox }, payload })
        .pipe(Effect.flatMap(Stream.runDrain))
      const caller = yield* Effect.forkChild(running)
      yield* Deferred.await(began)
      yield* Fiber.interrupt(caller)
      yield* Effect.timeout(Deferred.await(ended), "5 seconds")
    })
  )
})
