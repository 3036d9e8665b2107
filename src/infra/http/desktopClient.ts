/**
 * A viewer's end of the channel to a Project's desktop, over the daemon's UNIX socket, and a private socket at which any
 * viewer gets to it. A browser does the same with its own WebSocket.
 */
import { connect } from "node:net"
import * as Path from "node:path"
import * as NodeSocketServer from "@effect/platform-node/NodeSocketServer"
import * as NodeWS from "@effect/platform-node/NodeWS"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import * as Socket from "effect/socket/Socket"
import { desktopViewersMax, requestBodyBytesMax } from "../../domain/Bounds.ts"
import { clearStaleSocket, privateDirectory, publish, SocketRefused } from "./socketServer.ts"

/** Opens when its reader is acquired; a refusal of the daemon's fails that. Binary messages are the display's bytes. */
export const desktopChannel = (socketPath: string, project: string): Effect.Effect<Socket.Socket> =>
  Socket.fromWebSocket(
    Effect.acquireRelease(
      Effect.sync(() => {
        const socket = new NodeWS.WebSocket(
          `ws://localhost/projects/${encodeURIComponent(project)}/desktop/channel`,
          {
            createConnection: () => connect(socketPath),
            perMessageDeflate: false,
            maxPayload: requestBodyBytesMax
          }
        )
        // One that is closed before it is open says so, to nobody.
        socket.on("error", () => undefined)
        return socket
      }),
      (socket) => Effect.sync(() => socket.close())
    )
  )

const carry = (from: Socket.Reader, to: Socket.Writer) =>
  Effect.forever(Effect.flatMap(from.pull, (parts) => to.writeAll(parts)))

/** Carries bytes both ways until one of the two hangs up. */
export const joinSockets = Effect.fnUntraced(function* (one: Socket.Socket, other: Socket.Socket) {
  const [oneReader, otherReader] = [yield* one.reader, yield* other.reader]
  const [oneWriter, otherWriter] = [yield* one.writer, yield* other.writer]
  yield* Effect.raceFirst(carry(oneReader, otherWriter), carry(otherReader, oneWriter))
}, Effect.scoped)

/**
 * Listens at a path, for its owner alone (mode 0600), and answers what serves each viewer there with a channel of his own,
 * as many at a time as a desktop may have. The path is refused as that of a daemon's socket, and gone with the scope.
 */
export const listenForViewers = Effect.fn("desktop.listen")(function* (
  path: string,
  channel: Effect.Effect<Socket.Socket>
) {
  yield* clearStaleSocket(path)
  const bound = Path.join(yield* privateDirectory(path), "s")
  const server = yield* NodeSocketServer.make({ path: bound }).pipe(
    Effect.mapError(() => new SocketRefused({ path, why: "unusable" }))
  )
  yield* publish(path, bound)
  const places = Semaphore.makeUnsafe(desktopViewersMax)
  const serve = (viewer: Socket.Socket) =>
    Effect.flatMap(channel, (display) => Effect.ignore(joinSockets(viewer, display))).pipe(
      places.withPermitsIfAvailable(1)
    )
  return server.run(serve).pipe(Effect.mapError(() => new SocketRefused({ path, why: "unusable" })))
})
