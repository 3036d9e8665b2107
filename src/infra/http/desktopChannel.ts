/**
 * Joins a viewer's WebSocket and his connection to a display: the bytes of each binary message go on as they are, both ways,
 * each way at the pace of whoever reads slower. Nothing of them is looked at or kept. Source: SP-DESK-05.
 */
import * as Effect from "effect/Effect"
import type * as Socket from "effect/socket/Socket"
import * as Stream from "effect/Stream"
import { type DisplayConnection, DisplayLost } from "../../domain/desktop/Displays.ts"

/** Completes the handshake and carries bytes until either side hangs up or `over` returns. */
export const carryViewer = Effect.fnUntraced(function* <R>(
  viewer: Socket.Socket,
  display: DisplayConnection,
  over: Effect.Effect<void, never, R>
) {
  const { pull } = yield* viewer.reader
  const { write } = yield* viewer.writer
  // A text is no message of the protocol's: whoever sends one is no viewer.
  const take = (message: Uint8Array | string): Effect.Effect<void, DisplayLost> =>
    typeof message === "string" ? Effect.fail(new DisplayLost()) : display.write(message)
  const toDisplay = Effect.forever(
    Effect.flatMap(pull, (messages) => Effect.forEach(messages, take, { discard: true }))
  )
  const toViewer = Stream.runForEach(display.incoming, write)
  yield* Effect.raceFirst(Effect.ignore(Effect.raceFirst(toDisplay, toViewer)), over)
}, Effect.scoped)
