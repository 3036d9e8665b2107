/** A small viewer: as much of the RFB protocol (RFC 6143) as proves that a display is real. */
import * as Effect from "effect/Effect"
import type * as Socket from "effect/socket/Socket"
import { inTime } from "./waiting.ts"

export interface Picture {
  readonly width: number
  readonly height: number
  /** Every pixel as a number, row by row. */
  readonly pixels: ReadonlyArray<number>
}

export interface Viewer {
  readonly width: number
  readonly height: number
  readonly name: string
  /** The whole screen as it is now. */
  readonly picture: Effect.Effect<Picture, Socket.SocketError>
  readonly pointAt: (x: number, y: number) => Effect.Effect<void, Socket.SocketError>
  /** Types letters, digits, points and line ends, each as a key pressed and released. */
  readonly type: (text: string) => Effect.Effect<void, Socket.SocketError>
}

const bytesPerPixel = 4
const returnKey = 0xff0d

/** Answers exactly so many bytes, however they come in pieces. */
const makeIntake = (pull: Socket.Reader["pull"]) => {
  let held = Buffer.alloc(0)
  return (count: number) =>
    Effect.gen(function* () {
      while (held.length < count) {
        const parts = yield* pull
        held = Buffer.concat([held, ...parts.map((part) => Buffer.from(part as Uint8Array))])
      }
      const taken = held.subarray(0, count)
      held = held.subarray(count)
      return taken
    })
}

type Take = ReturnType<typeof makeIntake>

/** Reads one update and draws its rectangles; other messages of the server's are passed over. */
const drawUpdate = Effect.fnUntraced(function* (take: Take, screen: Buffer, width: number) {
  for (;;) {
    const [kind] = yield* take(1)
    if (kind === 2) continue
    if (kind === 3) {
      const header = yield* take(7)
      yield* take(header.readUInt32BE(3))
      continue
    }
    if (kind !== 0) return yield* Effect.die(new Error(`the display sent a message of kind ${kind}`))
    const rectangles = (yield* take(3)).readUInt16BE(1)
    for (let index = 0; index < rectangles; index += 1) {
      const header = yield* take(12)
      const [x, y, wide, high] = [0, 2, 4, 6].map((at) => header.readUInt16BE(at)) as [
        number,
        number,
        number,
        number
      ]
      if (header.readInt32BE(8) !== 0) return yield* Effect.die(new Error("only raw pixels were asked for"))
      for (let row = 0; row < high; row += 1) {
        const pixels = yield* take(wide * bytesPerPixel)
        pixels.copy(screen, ((y + row) * width + x) * bytesPerPixel)
      }
    }
    return
  }
})

const shakeHands = Effect.fnUntraced(function* (take: Take, { write }: Socket.Writer) {
  const version = (yield* take(12)).toString("latin1")
  if (version !== "RFB 003.008\n")
    return yield* Effect.die(new Error(`not RFB 3.8 but ${JSON.stringify(version)}`))
  yield* write(Buffer.from(version))
  const kinds = yield* take((yield* take(1))[0]!)
  if (!kinds.includes(1)) return yield* Effect.die(new Error("the display asks for a password"))
  yield* write(Buffer.from([1]))
  const result = (yield* take(4)).readUInt32BE(0)
  if (result !== 0) return yield* Effect.die(new Error(`the display refused with ${result}`))
  yield* write(Buffer.from([1]))
  const head = yield* take(24)
  const name = (yield* take(head.readUInt32BE(20))).toString("utf8")
  return { width: head.readUInt16BE(0), height: head.readUInt16BE(2), name }
})

/** 32 bits a pixel, 8 bits a colour, and raw encoding alone. */
const formatMessage = Buffer.from([0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0])
const encodingMessage = Buffer.from([2, 0, 0, 1, 0, 0, 0, 0])

const keyMessage = (key: number, isDown: boolean): Buffer => {
  const message = Buffer.from([4, Number(isDown), 0, 0, 0, 0, 0, 0])
  message.writeUInt32BE(key, 4)
  return message
}

/** A viewer over a socket's bytes, for the time of the scope. */
export const openViewer = Effect.fnUntraced(function* (socket: Socket.Socket) {
  const { pull } = yield* socket.reader
  const writer = yield* socket.writer
  const take = makeIntake(pull)
  const { height, name, width } = yield* inTime("the handshake", shakeHands(take, writer))
  yield* writer.write(formatMessage)
  yield* writer.write(encodingMessage)
  const picture = Effect.gen(function* () {
    const request = Buffer.from([3, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    request.writeUInt16BE(width, 6)
    request.writeUInt16BE(height, 8)
    yield* writer.write(request)
    const screen = Buffer.alloc(width * height * bytesPerPixel)
    yield* inTime("a frame", drawUpdate(take, screen, width))
    const pixels = Array.from(
      { length: width * height },
      (_, at) => screen.readUInt32LE(at * bytesPerPixel) & 0xffffff
    )
    return { width, height, pixels } satisfies Picture
  })
  const pointAt = (x: number, y: number) => {
    const message = Buffer.from([5, 0, 0, 0, 0, 0])
    message.writeUInt16BE(x, 2)
    message.writeUInt16BE(y, 4)
    return writer.write(message)
  }
  const type = (text: string) =>
    Effect.forEach(
      [...text].map((letter) => (letter === "\n" ? returnKey : letter.charCodeAt(0))),
      (key) => Effect.andThen(writer.write(keyMessage(key, true)), writer.write(keyMessage(key, false))),
      { discard: true }
    )
  return { height, name, picture, pointAt, type, width } satisfies Viewer
})

export const coloursOf = ({ pixels }: Picture): ReadonlySet<number> => new Set(pixels)
