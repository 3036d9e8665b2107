import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import { Conflict, Unavailable } from "../../src/infra/http/ApiErrors.ts"
import type { ExecutionLine } from "../../src/infra/http/Views.ts"
import { runCli } from "../../src/layers/cli.ts"
import { execution, hanging, serveScript } from "../infra/http/scriptedServer.ts"
import { captured, holdfast } from "./cliHarness.ts"

const lines = (...last: Array<ExecutionLine>): Stream.Stream<ExecutionLine> =>
  Stream.make<Array<ExecutionLine>>({ type: "started", execution }, ...last)

const exited = (exitCode: number, ended: "exited" | "timeout" | "cancelled" = "exited"): ExecutionLine => ({
  type: "exited",
  exitCode,
  ended
})

const unavailable = new Unavailable({ code: "storage_failure", message: "away", details: {} })

describe("holdfast exec", () => {
  it.live("the exit code is the command's own, and its streams stay apart", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const ran = yield* holdfast(["exec", "web", "--socket", socket, "--", "make", "--json", "-la"])
      assert.deepStrictEqual(ran, { exit: 7, stdout: "out\n", stderr: "err\n" })
    })
  )

  it.live("what follows -- reaches the command unchanged", () =>
    Effect.gen(function* () {
      const sent = yield* Ref.make<unknown>(undefined)
      const socket = yield* serveScript({
        run: (request) => Effect.as(Ref.set(sent, request), lines(exited(0)))
      })
      const own = [
        "exec",
        "web",
        "--socket",
        socket,
        "-e",
        "A=1",
        "-e",
        "B=x=y",
        "--cwd",
        "/tmp",
        "--timeout",
        "3"
      ]
      yield* holdfast([...own, "--", "sh", "-c", "echo $1", "--", "--help", "-i"])
      assert.deepStrictEqual(yield* Ref.get(sent), {
        argv: ["sh", "-c", "echo $1", "--", "--help", "-i"],
        environment: { A: "1", B: "x=y" },
        workingDirectory: "/tmp",
        timeoutMillis: 3_000
      })
    })
  )

  it.live("124 for a time-out, 130 for a cancel, 255 for every failure of holdfast itself", () =>
    Effect.gen(function* () {
      const table: ReadonlyArray<readonly [Parameters<typeof serveScript>[0], number]> = [
        [{ run: () => Effect.succeed(lines(exited(0, "exited"))) }, 0],
        [{ run: () => Effect.succeed(lines(exited(127))) }, 127],
        [{ run: () => Effect.succeed(lines(exited(137, "timeout"))) }, 124],
        [{ run: () => Effect.succeed(lines(exited(137, "cancelled"))) }, 130],
        [{ run: () => Effect.succeed(lines({ type: "failed", code: "lease_lost", message: "m" })) }, 255],
        [{ run: () => Effect.succeed(lines()) }, 255],
        [{ run: () => Effect.fail(unavailable) }, 255],
        [
          {
            run: () => Effect.fail(new Conflict({ code: "runtime_not_running", message: "m", details: {} }))
          },
          255
        ]
      ]
      for (const [script, exit] of table) {
        const socket = yield* serveScript(script)
        const ran = yield* holdfast(["exec", "web", "--socket", socket, "--", "true"])
        assert.strictEqual(ran.exit, exit, ran.stderr)
      }
      const unknown = yield* holdfast(["exec", "other", "--socket", yield* serveScript(), "--", "true"])
      assert.strictEqual(unknown.exit, 255)
      assert.strictEqual((yield* holdfast(["exec", "web", "--home", "/no", "--", "true"])).exit, 255)
      assert.strictEqual((yield* holdfast(["exec", "web", "--nonsense", "--", "true"])).exit, 255)
    })
  )

  it.live("an interrupted exec hangs up, which interrupts the command in the daemon", () =>
    Effect.gen(function* () {
      const { ended, stream } = yield* hanging
      const reached = yield* Deferred.make<void>()
      const socket = yield* serveScript({
        run: () => Effect.as(Deferred.succeed(reached, undefined), stream)
      })
      const fiber = yield* runCli(["exec", "web", "--socket", socket, "--", "sleep", "9"]).pipe(
        Effect.provide(captured().layer),
        Effect.forkChild
      )
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
      yield* Effect.timeout(Deferred.await(ended), "5 seconds")
    })
  )

  it.live("with --json every event is one line with its bytes in base64", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const ran = yield* holdfast(["exec", "web", "--json", "--socket", socket, "--", "x"])
      assert.strictEqual(ran.exit, 7)
      const events = ran.stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
      assert.deepStrictEqual(
        events.map(({ type }: { type: string }) => type),
        ["started", "output", "output", "exited"]
      )
      assert.strictEqual(Buffer.from(events[1].data, "base64").toString(), "out\n")
    })
  )

  it.live("standard input is sent only when it is asked for, and only up to its bound", () =>
    Effect.gen(function* () {
      const sent = yield* Ref.make<string | undefined>("unset")
      const socket = yield* serveScript({
        run: ({ standardInput }) =>
          Effect.as(
            Ref.set(sent, standardInput === undefined ? undefined : Buffer.from(standardInput).toString()),
            lines(exited(0))
          )
      })
      const args = ["--socket", socket, "--", "cat"]
      yield* holdfast(["exec", "web", ...args], { stdin: "secret" })
      assert.isUndefined(yield* Ref.get(sent))
      yield* holdfast(["exec", "web", "-i", ...args], { stdin: "hello" })
      assert.strictEqual(yield* Ref.get(sent), "hello")
      const tooLong = yield* holdfast(["exec", "web", "-i", ...args], { stdin: "x".repeat(1024 ** 2) })
      assert.strictEqual(tooLong.exit, 255)
      assert.include(tooLong.stderr, "standard input has more than")
    })
  )
})
