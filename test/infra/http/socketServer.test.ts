import * as Fs from "node:fs"
import * as Net from "node:net"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { ApiClient, layer as layerClient } from "../../../src/infra/http/apiClient.ts"
import { layer as layerSocket, ServerStopping } from "../../../src/infra/http/socketServer.ts"
import { hanging, scriptedRoutes, serveScript, temporaryDirectory } from "./scriptedServer.ts"

const serveAt = (path: string, stopGraceMillis = 200) =>
  Layer.build(layerSocket(scriptedRoutes(), { path, stopGraceMillis }))

const modeOf = (path: string) => Fs.lstatSync(path).mode & 0o777

/** Binds a socket and dies without unlinking it, as a killed daemon does. */
const leaveStaleSocket = (path: string) =>
  Effect.callback<void>((resume) => {
    const server = Net.createServer()
    const bound = `${path}.bound`
    server.listen(bound, () => {
      Fs.renameSync(bound, path)
      server.close(() => resume(Effect.void))
    })
  })

const clientAt = (path: string) =>
  Effect.flatMap(Layer.build(layerClient(path)), (context) => Effect.provideContext(ApiClient, context))

describe("socketServer", () => {
  it.live("the socket has mode 0600 whatever the umask, and nothing else stays in its directory", () =>
    Effect.gen(function* () {
      const before = process.umask(0)
      yield* Effect.addFinalizer(() => Effect.sync(() => process.umask(before)))
      const path = yield* serveScript()
      assert.strictEqual(modeOf(path), 0o600)
      const directory = Path.dirname(path)
      for (const name of Fs.readdirSync(directory).filter((entry) => entry.startsWith(".socket-"))) {
        assert.strictEqual(modeOf(Path.join(directory, name)), 0o700)
      }
      assert.strictEqual((yield* (yield* clientAt(path)).system.health()).status, "ok")
    })
  )

  it.live("a stop removes the socket and the private directory", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* Effect.scoped(serveAt(Path.join(directory, "d.sock")))
      assert.deepStrictEqual(Fs.readdirSync(directory), [])
    })
  )

  it.live("a socket that a dead daemon left is replaced", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, "d.sock")
      yield* leaveStaleSocket(path)
      yield* serveAt(path)
      assert.strictEqual((yield* (yield* clientAt(path)).system.health()).status, "ok")
    })
  )

  it.live("a socket at which a daemon answers is refused and goes on answering", () =>
    Effect.gen(function* () {
      const path = yield* serveScript()
      const error = yield* Effect.flip(Effect.scoped(serveAt(path)))
      assert.deepStrictEqual([error._tag, "why" in error ? error.why : ""], ["SocketRefused", "in_use"])
      assert.strictEqual((yield* (yield* clientAt(path)).system.health()).status, "ok")
    })
  )

  it.live("a file or a link at the socket's path is refused and left as it is", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const [file, link] = [Path.join(directory, "file"), Path.join(directory, "link")]
      Fs.writeFileSync(file, "precious")
      Fs.symlinkSync(file, link)
      for (const path of [file, link]) {
        const error = yield* Effect.flip(Effect.scoped(serveAt(path)))
        assert.deepStrictEqual(
          [error._tag, "why" in error ? error.why : ""],
          ["SocketRefused", "not_a_socket"]
        )
      }
      assert.strictEqual(Fs.readFileSync(file, "utf8"), "precious")
      assert.isTrue(Fs.lstatSync(link).isSymbolicLink())
    })
  )

  it.live("a path that is too long for a socket is refused before anything is made", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const error = yield* Effect.flip(Effect.scoped(serveAt(Path.join(directory, "x".repeat(90)))))
      assert.deepStrictEqual([error._tag, "why" in error ? error.why : ""], ["SocketRefused", "too_long"])
      assert.deepStrictEqual(Fs.readdirSync(directory), [])
    })
  )

  it.live("a socket's path has 103 bytes at most", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const path = (bytes: number) => Path.join(directory, "x".repeat(bytes - directory.length - 1))
      const error = yield* Effect.flip(Effect.scoped(serveAt(path(104))))
      assert.deepStrictEqual([error._tag, "why" in error ? error.why : ""], ["SocketRefused", "too_long"])
      yield* serveAt(path(103))
      assert.strictEqual(modeOf(path(103)), 0o600)
    })
  )

  it.live("a stop leaves the socket of a successor alone", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, "d.sock")
      const scope = yield* Scope.make()
      yield* Scope.provide(serveAt(path), scope)
      Fs.unlinkSync(path)
      yield* serveAt(path)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* (yield* clientAt(path)).system.health()).status, "ok")
    })
  )

  it.live("a client that hangs up interrupts the command's stream", () =>
    Effect.gen(function* () {
      const { ended, stream } = yield* hanging
      const path = yield* serveScript({ run: () => Effect.succeed(stream) })
      const client = yield* clientAt(path)
      const started = yield* Deferred.make<void>()
      const fiber = yield* client.executions
        .run({ params: { project: "web" }, payload: { argv: ["sleep"], environment: {} } })
        .pipe(
          Effect.flatMap((lines) => Stream.runForEach(lines, () => Deferred.succeed(started, undefined))),
          Effect.forkChild
        )
      yield* Deferred.await(started)
      assert.isFalse(yield* Deferred.isDone(ended))
      yield* Fiber.interrupt(fiber)
      yield* Effect.timeout(Deferred.await(ended), "5 seconds")
    })
  )

  it.live("a stop interrupts the streams that are still open, and does not wait for ever", () =>
    Effect.gen(function* () {
      const { ended, stream } = yield* hanging
      const path = Path.join(yield* temporaryDirectory, "d.sock")
      const scope = yield* Scope.make()
      const routes = scriptedRoutes({ run: () => Effect.succeed(stream) })
      yield* Scope.provide(Layer.build(layerSocket(routes, { path, stopGraceMillis: 100 })), scope)
      const client = yield* clientAt(path)
      const started = yield* Deferred.make<void>()
      yield* client.executions
        .run({ params: { project: "web" }, payload: { argv: ["sleep"], environment: {} } })
        .pipe(
          Effect.flatMap((lines) => Stream.runForEach(lines, () => Deferred.succeed(started, undefined))),
          Effect.forkChild
        )
      yield* Deferred.await(started)
      yield* Effect.timeout(Scope.close(scope, Exit.void), "5 seconds")
      assert.isTrue(yield* Deferred.isDone(ended))
    })
  )

  it.live("a stop is announced before the server waits for requests", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, "d.sock")
      const scope = yield* Scope.make()
      const seen = yield* Deferred.make<boolean>()
      const watching = Layer.effectDiscard(
        Effect.gen(function* () {
          const stopping = yield* ServerStopping
          yield* Effect.forkScoped(
            Effect.andThen(
              stopping.await,
              Effect.suspend(() => Deferred.succeed(seen, Fs.existsSync(path)))
            )
          )
        })
      )
      const routes = Layer.mergeAll(scriptedRoutes(), watching)
      yield* Scope.provide(Layer.build(layerSocket(routes, { path, stopGraceMillis: 200 })), scope)
      assert.isTrue(Fs.existsSync(path))
      yield* Scope.close(scope, Exit.void)
      assert.isTrue(yield* Deferred.isDone(seen))
    })
  )
})
