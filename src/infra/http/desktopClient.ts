/**
 * A viewer's end of the channel to a Project's desktop, over the daemon's UNIX socket: what the CLI and consumers carry the
 * RFB protocol through. A browser does the same with its own WebSocket.
 */
import { connect } from "node:net"
import * as NodeWS from "@effect/platform-node/NodeWS"
import * as Effect from "effect/Effect"
import * as Socket from "effect/socket/Socket"
import { requestBodyBytesMax } from "../../domain/Bounds.ts"

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
