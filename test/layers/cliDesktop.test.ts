/** The verbs on desktops against a scripted daemon on a real socket, whose display sends back what it is sent. */
import * as Files from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { runCli } from "../../src/layers/cli.ts"
import { desktopOfWeb } from "../infra/http/scriptedDesktop.ts"
import { serveScript, temporaryDirectory } from "../infra/http/scriptedServer.ts"
import { inTime, waitFor } from "../support/waiting.ts"
import { captured, holdfast } from "./cliHarness.ts"

const execution = desktopOfWeb.display?.execution

/** What comes back at a UNIX socket for a text; the connection is closed then. */
const echoOf = (path: string, text: string) =>
  Effect.callback<string>((resume) => {
    const socket = connect(path)
    socket.setEncoding("utf8")
    socket.on("error", () => resume(Effect.succeed("broken")))
    socket.once("data", (part: string) => resume(Effect.succeed(part)))
    socket.write(text)
    return Effect.sync(() => socket.destroy())
  })

describe("holdfast desktop", () => {
  it.live("SP-DESK-05 start and show print what there is, for people and as JSON, and stop says so", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      for (const verb of ["start", "show"]) {
        const ran = yield* holdfast(["desktop", verb, "web", "--socket", socket])
        assert.strictEqual(ran.exit, 0, ran.stderr)
        assert.include(ran.stdout, "desktop: ready since")
        assert.include(ran.stdout, `DISPLAY=:1; execution ${execution}`)
        const json = yield* holdfast(["desktop", verb, "web", "--json", "--socket", socket])
        assert.deepStrictEqual(JSON.parse(json.stdout), desktopOfWeb)
      }
      const stopped = yield* holdfast(["desktop", "stop", "web", "--socket", socket])
      assert.deepStrictEqual([stopped.exit, stopped.stdout], [0, "the desktop of web is stopped\n"])
    })
  )

  it.live("SP-DESK-05 connect carries a viewer's bytes over the standard streams, until they end", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const sent = new Uint8Array([0, 255, 10, 13])
      const { layer, text } = captured({ stdin: Stream.concat(Stream.make(sent), Stream.never) })
      const running = yield* Effect.forkChild(
        runCli(["desktop", "connect", "web", "--socket", socket]).pipe(Effect.provide(layer))
      )
      yield* waitFor({
        fact: "the bytes have come back",
        look: Effect.sync(() => text("stdout")),
        holds: (seen) => seen.length >= sent.length
      })
      assert.strictEqual(text("stdout"), Buffer.from(sent).toString("utf8"))
      yield* Fiber.interrupt(running)
      const ended = yield* inTime(
        "the end of input ends it",
        holdfast(["desktop", "connect", "web", "--socket", socket])
      )
      assert.strictEqual(ended.exit, 0, ended.stderr)
    })
  )

  it.live(
    "SP-DESK-05 connect --listen serves viewers at a socket that only its owner can open, and takes it away",
    () =>
      Effect.gen(function* () {
        const socket = yield* serveScript()
        const path = join(yield* temporaryDirectory, "desk.sock")
        const { layer, text } = captured()
        const running = yield* Effect.forkChild(
          runCli(["desktop", "connect", "web", "--listen", path, "--socket", socket]).pipe(
            Effect.provide(layer)
          )
        )
        yield* waitFor({
          fact: "it listens",
          look: Effect.sync(() => text("stderr")),
          holds: (seen) => seen.includes(`vncviewer ${path}`)
        })
        assert.strictEqual(Files.statSync(path).mode & 0o777, 0o600)
        for (const word of ["one", "two"]) {
          assert.strictEqual(yield* inTime("an answer", echoOf(path, word)), word)
        }
        const second = yield* holdfast(["desktop", "connect", "web", "--listen", path, "--socket", socket])
        assert.deepStrictEqual([second.exit, second.stderr.includes("socket_refused")], [1, true])
        yield* Fiber.interrupt(running)
        assert.isFalse(Files.existsSync(path))
      })
  )

  it.live("each end has its own exit code", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript({ desktop: { state: "none", display: null } })
      const table = [
        [["show", "other"], 4],
        [["connect", "other"], 4],
        [["connect", "web"], 5],
        [["connect", "web", "--listen", "/nowhere/desk.sock"], 5],
        [["stop"], 2]
      ] as const
      for (const [args, exit] of table) {
        const ran = yield* holdfast(["desktop", ...args, "--socket", socket])
        assert.strictEqual(ran.exit, exit, `${args.join(" ")}: ${ran.stderr}`)
      }
    })
  )
})
