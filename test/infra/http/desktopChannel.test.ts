/** A viewer and a display joined: what goes on, and what ends it. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Socket from "effect/socket/Socket"
import * as Stream from "effect/Stream"
import { DisplayLost } from "../../../src/domain/desktop/Displays.ts"
import { carryViewer } from "../../../src/infra/http/desktopChannel.ts"
import { inTime, waitFor } from "../../support/waiting.ts"

const scene = Effect.gen(function* () {
  const sent = yield* Queue.make<Uint8Array | string>()
  const shown = yield* Queue.make<Uint8Array>()
  const seen = { byViewer: [] as Array<unknown>, byDisplay: [] as Array<Uint8Array> }
  const note = (chunk: unknown) => Effect.sync(() => void seen.byViewer.push(chunk))
  const viewer = Socket.make({
    reader: Effect.succeed({
      pull: Effect.map(Queue.take(sent), (message) => [message] as const),
      upgrade: () => Effect.never
    }),
    writer: Effect.succeed({
      write: note,
      writeAll: (chunks) => Effect.forEach(chunks, note, { discard: true })
    })
  })
  const display = {
    incoming: Stream.fromQueue(shown),
    write: (bytes: Uint8Array) => Effect.sync(() => void seen.byDisplay.push(bytes))
  }
  return { display, seen, sent, shown, viewer }
})

const bytes = (...values: ReadonlyArray<number>) => new Uint8Array(values)

describe("desktopChannel", () => {
  it.live("SP-DESK-05 bytes go on as they are, both ways, until the desktop is over", () =>
    Effect.gen(function* () {
      const { display, seen, sent, shown, viewer } = yield* scene
      const over = yield* Deferred.make<void>()
      const carrying = yield* Effect.forkChild(carryViewer(viewer, display, Deferred.await(over)))
      yield* Queue.offer(sent, bytes(1, 0, 255))
      yield* Queue.offer(shown, bytes(9))
      yield* waitFor({
        fact: "both have come",
        look: Effect.sync(() => seen.byViewer.length + seen.byDisplay.length),
        holds: (count) => count === 2
      })
      assert.deepStrictEqual(seen, { byViewer: [bytes(9)], byDisplay: [bytes(1, 0, 255)] })
      assert.isUndefined(carrying.pollUnsafe())
      yield* Deferred.succeed(over, undefined)
      yield* inTime("it ends", Fiber.join(carrying))
    })
  )

  it.live("SP-DESK-05 a text, and a display that is lost, end it", () =>
    Effect.gen(function* () {
      const { display, seen, sent, viewer } = yield* scene
      yield* Queue.offer(sent, "GET / HTTP/1.1")
      yield* inTime("a text ends it", carryViewer(viewer, display, Effect.never))
      assert.deepStrictEqual(seen.byDisplay, [])
      const lost = { ...display, incoming: Stream.fail(new DisplayLost()) }
      yield* inTime("a lost display ends it", carryViewer(viewer, lost, Effect.never))
    })
  )
})
