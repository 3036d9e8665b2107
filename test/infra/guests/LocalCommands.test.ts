/** Real processes of this machine. */
import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { type LocalCommand, LocalCommands } from "../../../src/domain/runLeases/LocalCommands.ts"
import * as Adapter from "../../../src/infra/guests/LocalCommands.ts"
import { failureOf } from "../../support/failures.ts"
import { isGone, untilGone } from "../../support/processes.ts"
import { waitFor } from "../../support/waiting.ts"

const drawLease = Effect.sync(() => EnvironmentLeaseId.make(randomUUID()))

const shell = (script: string, changes: Partial<LocalCommand> = {}): LocalCommand => ({
  argv: ["sh", "-c", script],
  workingDirectory: "/tmp",
  environment: {},
  standardInput: null,
  timeoutMillis: 30_000,
  ...changes
})

layer(Adapter.layer, { excludeTestServices: true, timeout: 30_000 })("guests/LocalCommands", (it) => {
  it.effect(
    "a command has its environment, its input and its folder, and its output comes as it is said",
    () =>
      Effect.gen(function* () {
        const commands = yield* LocalCommands
        const lease = yield* drawLease
        const said: Array<string> = []
        const result = yield* commands.run(
          lease,
          shell('pwd; cat; echo "$NAME" >&2; exit 4', {
            environment: { NAME: "value" },
            standardInput: "typed\n",
            logSink: ({ stream, text }) => said.push(`${stream}:${text}`)
          })
        )
        assert.deepStrictEqual(result, {
          exitCode: 4,
          signal: null,
          timedOut: false,
          stdout: "/tmp\ntyped\n",
          stderr: "value\n"
        })
        assert.include(said.join(""), "stderr:value\n")
      })
  )

  it.effect("nothing of the daemon's environment but its path reaches a command", () =>
    Effect.gen(function* () {
      process.env["HOLDFAST_TEST_CANARY"] = "canary"
      yield* Effect.addFinalizer(() => Effect.sync(() => delete process.env["HOLDFAST_TEST_CANARY"]))
      const commands = yield* LocalCommands
      const { stdout } = yield* commands.run(yield* drawLease, shell("env"))
      assert.notInclude(stdout, "HOLDFAST_TEST_CANARY")
      assert.include(stdout, "PATH=")
    })
  )

  it.effect("what a command leaves behind, also in a session of its own, ends with it", () =>
    Effect.gen(function* () {
      const commands = yield* LocalCommands
      const { stdout } = yield* commands.run(
        yield* drawLease,
        shell("setsid sleep 1000 & echo $!; sleep 1000 & echo $!")
      )
      const pids = stdout.trim().split("\n").map(Number)
      assert.lengthOf(pids, 2)
      yield* untilGone(...pids)
    })
  )

  it.effect("a command whose time is over is ended with all that it started, and says so", () =>
    Effect.gen(function* () {
      const commands = yield* LocalCommands
      const result = yield* commands.run(
        yield* drawLease,
        shell("setsid sleep 1000 & echo $!; wait", { timeoutMillis: 300 })
      )
      assert.isTrue(result.timedOut)
      yield* untilGone(Number(result.stdout))
    })
  )

  it.effect("whoever leaves ends the command, and another command of the lease goes on", () =>
    Effect.gen(function* () {
      const commands = yield* LocalCommands
      const lease = yield* drawLease
      const [first, second] = [yield* Deferred.make<number>(), yield* Deferred.make<number>()]
      const begun = (pid: Deferred.Deferred<number>) =>
        shell("echo $$; exec sleep 1000", {
          logSink: ({ text }) => Deferred.doneUnsafe(pid, Effect.succeed(Number(text)))
        })
      const leaving = yield* Effect.forkChild(commands.run(lease, begun(first)))
      const staying = yield* Effect.forkChild(commands.run(lease, begun(second)))
      const pids = [yield* Deferred.await(first), yield* Deferred.await(second)] as const
      yield* Fiber.interrupt(leaving)
      yield* untilGone(pids[0])
      assert.isFalse(isGone(pids[1]))
      yield* commands.endAll(lease)
      assert.isTrue(isGone(pids[1]))
      assert.isNull((yield* Fiber.join(staying)).exitCode)
    })
  )

  it.effect("the end of a lease finds what a former daemon had started for it, and of no other lease", () =>
    Effect.gen(function* () {
      const commands = yield* LocalCommands
      const lease = yield* drawLease
      const begin = (id: string) =>
        spawn("sleep", ["1000"], {
          stdio: "ignore",
          detached: true,
          env: { PATH: process.env["PATH"], HOLDFAST_ENVIRONMENT_LEASE: id }
        })
      const [own, other] = [begin(lease), begin(randomUUID())]
      yield* Effect.addFinalizer(() => Effect.sync(() => other.kill("SIGKILL")))
      yield* waitFor({
        fact: "both run under their marks",
        look: Effect.sync(() =>
          [own, other].map(({ pid }) => Files.readFileSync(`/proc/${pid}/comm`, "utf8").trim())
        ),
        holds: (names) => names.every((name) => name === "sleep"),
        deadlineMillis: 5_000
      })
      yield* commands.endAll(lease)
      assert.isTrue(isGone(own.pid!))
      assert.isFalse(isGone(other.pid!))
      // Again: nothing is left, which is what was asked for.
      yield* commands.endAll(lease)
    })
  )

  it.effect("a program or a folder that is not there is refused before anything starts", () =>
    Effect.gen(function* () {
      const commands = yield* LocalCommands
      const lease = yield* drawLease
      const folder = yield* Effect.exit(
        commands.run(lease, shell("true", { workingDirectory: "/nowhere/at/all" }))
      )
      assert.deepInclude(failureOf(folder), { code: "local_command_refused", why: "folder" })
      for (const program of ["no-such-program-here", "/tmp"]) {
        const refused = yield* Effect.exit(commands.run(lease, shell("", { argv: [program] })))
        assert.deepInclude(failureOf(refused), { why: "program" })
      }
    })
  )
})
