/**
 * Serves the API on a UNIX socket that only the daemon's user can open. The socket is bound in a private directory
 * and linked to its public path once its mode is 0600 and the routes answer, so nobody ever meets it open to others
 * or deaf. What is served is told by whoever makes the layer.
 *
 *     HOME/.socket-<drawn>/s   0700/0600   bound here first, removed after the link
 *     HOME/holdfast.sock       0600        the same inode, published by link(2), which never replaces anything
 */
import * as Fs from "node:fs/promises"
import * as Http from "node:http"
import * as Net from "node:net"
import * as Path from "node:path"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as ByteSize from "effect/ByteSize"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import type * as HttpServerError from "effect/http/HttpServerError"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as NetAddress from "effect/net/NetAddress"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { requestBodyBytesMax, socketPathBytesMax, socketAnswerMillisMax } from "../../domain/Bounds.ts"
import { drawnSuffix } from "../filesystem/privateFiles.ts"
import { withErrorBodies } from "./middleware.ts"

/** The socket's path cannot be taken. Nothing at the path was changed. */
export class SocketRefused extends Schema.TaggedError<SocketRefused>()("SocketRefused", {
  path: Schema.String,
  why: Schema.Literals(["in_use", "not_a_socket", "too_long", "unusable"])
}) {
  readonly code = "socket_refused"
  override get message(): string {
    const told = {
      in_use: "a daemon answers there: stop it, or give this one another --home",
      not_a_socket: "something that is no socket is there: move it away",
      too_long: `a socket's path has fewer than ${socketPathBytesMax} bytes: give a shorter --home`,
      unusable: "its directory cannot be written: give another --home"
    }
    return `the socket ${this.path} cannot be taken: ${told[this.why]}`
  }
}

/**
 * Opens when the server begins to stop. Streams that would go on for ever end then (`Stream.interruptWhen`), so
 * that a stop waits for requests and not for watchers.
 */
export class ServerStopping extends Context.Service<ServerStopping, Latch.Latch>()(
  "holdfast/infra/http/socketServer/ServerStopping"
) {}

/** Whether somebody accepts connections there. A full backlog or a slow answer counts as somebody. */
const somebodyListens = (path: string): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    const socket = Net.connect(path)
    const settle = (answer: boolean) => {
      socket.destroy()
      resume(Effect.succeed(answer))
    }
    socket.setTimeout(socketAnswerMillisMax, () => settle(true))
    socket.once("connect", () => settle(true))
    socket.once("error", (error: NodeJS.ErrnoException) =>
      settle(error.code !== "ECONNREFUSED" && error.code !== "ENOENT")
    )
  })

const refused = (path: string, why: SocketRefused["why"]) => new SocketRefused({ path, why })

const attempt = <A>(path: string, act: () => Promise<A>): Effect.Effect<A, SocketRefused> =>
  Effect.tryPromise({ try: act, catch: () => refused(path, "unusable") })

const statOf = (path: string) =>
  attempt(path, () =>
    Fs.lstat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined
      throw error
    })
  )

/** Removes a socket that a dead daemon left. A live one and everything that is no socket is refused. */
export const clearStaleSocket = Effect.fn("http.clearStaleSocket")(function* (path: string) {
  const found = yield* statOf(path)
  if (found === undefined) return
  if (!found.isSocket()) return yield* refused(path, "not_a_socket")
  if (yield* somebodyListens(path)) return yield* refused(path, "in_use")
  yield* attempt(path, () => Fs.unlink(path))
})

/** A private directory beside the public path; removed with the scope. */
export const privateDirectory = (path: string) =>
  Effect.acquireRelease(
    attempt(path, () => Fs.mkdtemp(Path.join(Path.dirname(path), ".socket-"))),
    (directory) => Effect.promise(() => Fs.rm(directory, { recursive: true, force: true }))
  )

/** Unlinks the public path on release, if it is still the socket that was published. */
export const publish = (path: string, bound: string): Effect.Effect<void, SocketRefused, Scope.Scope> =>
  Effect.acquireRelease(
    attempt(path, async () => {
      await Fs.chmod(bound, 0o600)
      await Fs.link(bound, path)
      return await Fs.lstat(path)
    }),
    (published) =>
      Effect.promise(async () => {
        const now = await Fs.lstat(path).catch(() => undefined)
        if (now !== undefined && now.ino === published.ino && now.dev === published.dev) await Fs.unlink(path)
      })
  ).pipe(Effect.asVoid)

interface SocketOptions {
  readonly path: string
  /** How long a stop waits for requests under way before it interrupts them. */
  readonly stopGraceMillis: number
}

interface Bound extends SocketOptions {
  readonly boundPath: string
}

class BoundSocket extends Context.Service<BoundSocket, Bound>()(
  "holdfast/infra/http/socketServer/BoundSocket"
) {}

const boundSocket = Effect.fnUntraced(function* (options: SocketOptions) {
  // The private path is longer than the public one and has the same bound.
  const privateBytes = Buffer.byteLength(Path.join(Path.dirname(options.path), `.socket-${drawnSuffix}`, "s"))
  if (Math.max(privateBytes, Buffer.byteLength(options.path)) >= socketPathBytesMax) {
    return yield* refused(options.path, "too_long")
  }
  yield* clearStaleSocket(options.path)
  const directory = yield* privateDirectory(options.path)
  return BoundSocket.of({ ...options, boundPath: Path.join(directory, "s") })
})

const layerServer: Layer.Layer<HttpServer.HttpServer, HttpServerError.ServeError, BoundSocket> = Layer.effect(
  HttpServer.HttpServer,
  Effect.gen(function* () {
    const { boundPath, path, stopGraceMillis } = yield* BoundSocket
    const server = yield* NodeHttpServer.make(() => Http.createServer(), {
      path: boundPath,
      gracefulShutdownTimeout: stopGraceMillis,
      websocket: { maxPayload: requestBodyBytesMax }
    })
    return HttpServer.make({ address: NetAddress.unixPathAddress(path), serve: server.serve })
  })
)

/** Built last, so released first: the path goes and the watchers end before the server waits for requests. */
const layerPublished: Layer.Layer<never, SocketRefused, BoundSocket | ServerStopping> = Layer.effectDiscard(
  Effect.gen(function* () {
    const { boundPath, path } = yield* BoundSocket
    const stopping = yield* ServerStopping
    yield* publish(path, boundPath)
    yield* Effect.addFinalizer(() => stopping.open)
  })
)

const layerBodyBound = Layer.succeed(
  HttpIncomingMessage.MaxBodySize,
  ByteSize.fromInputUnsafe(requestBodyBytesMax)
)

/** Serves whatever routes were added, inside the last net. */
const layerServed = Layer.unwrap(
  Effect.map(HttpRouter.HttpRouter, (router) => HttpServer.serve(withErrorBodies(router.asHttpEffect())))
)

/**
 * Serves the routes on the socket while the layer lives. Refuses a path that is in use, no socket, or too long.
 * Bodies and messages of WebSockets are bounded by `requestBodyBytesMax`; a stop ends event streams at once and waits `stopGraceMillis` for
 * the other requests.
 */
export const layer = <A, E, R>(routes: Layer.Layer<A, E, R>, options: SocketOptions) =>
  layerPublished.pipe(
    Layer.provide(layerServed),
    Layer.provideMerge(routes),
    Layer.provide([HttpRouter.layer, layerServer, NodeHttpServer.layerHttpServices, layerBodyBound]),
    Layer.provide([
      Layer.effect(ServerStopping, Latch.make(false)),
      Layer.effect(BoundSocket, boundSocket(options))
    ])
  )
