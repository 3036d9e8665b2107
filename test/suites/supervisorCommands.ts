/**
 * Cases of the supervisor's conformance about commands in a guest: exactness, ends, bounds, company.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { expect } from "vitest"
import {
  commandLineOf,
  eventually,
  type GuestMethods,
  GuestSupervisor,
  makeCommand,
  makeSpec,
  processesOf,
  run,
  shell,
  withGuest
} from "./guestHarness.ts"

const awkward = {
  PLAIN: "plain",
  QUOTED: `it's "quoted" \`and\` $expanded \\ back`,
  LINES: "one\ntwo\n\n",
  WIDE: "żółć 🦀 \u0001\u0081\u0088 \x7f",
  EMPTY: "",
  IFS: ":",
  h: "not ours",
  SPACES: "  a  b  "
}

/** Declares the cases for a daemon over the given state directory. */
export const commandCases = (it: GuestMethods): void => {
  it.effect("a command's status, output and error are told as they are", () =>
    Effect.gen(function* () {
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          expect(yield* shell(spec.sandbox, "echo out; echo err >&2; exit 9")).toEqual({
            stdout: "out\n",
            stderr: "err\n",
            truncated: [],
            exitCode: 9,
            ended: "exited"
          })
          expect((yield* run(spec.sandbox, ["true"])).exitCode).toBe(0)
          expect((yield* shell(spec.sandbox, "kill -9 $$")).exitCode).toBe(137)
          expect((yield* run(spec.sandbox, ["no-such-program"])).exitCode).toBe(127)
          expect((yield* run(spec.sandbox, ["true"], { workingDirectory: "/nowhere" })).exitCode).toBe(126)
        })
      )
    })
  )

  it.effect("arguments, environment and standard input reach the command byte for byte", () =>
    Effect.gen(function* () {
      const spec = makeSpec({ environment: { ...awkward, OVERRIDDEN: "by the guest" } })
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          const { stdout } = yield* run(spec.sandbox, ["/usr/bin/env", "-0"], {
            environment: { OVERRIDDEN: "by the command", A_1: "x" }
          })
          const variables = Object.fromEntries(
            stdout.split("\0").map((each) => [each.split("=")[0], each.slice(each.indexOf("=") + 1)])
          )
          expect(variables).toMatchObject({ ...awkward, OVERRIDDEN: "by the command", A_1: "x" })
          const words = ["", "a'b", "c\nd", "-n", "*", "$(echo no)", "\\", "=", "ż\u0081"]
          const printed = yield* run(spec.sandbox, ["printf", "%s\\0", ...words])
          expect(printed.stdout.split("\0").slice(0, -1)).toEqual(words)
          const standardInput = new TextEncoder().encode("first\n\0second")
          expect((yield* run(spec.sandbox, ["cat"], { standardInput })).stdout).toBe("first\n\0second")
          expect((yield* run(spec.sandbox, ["cat"])).stdout).toBe("")
          const badName = yield* Effect.flip(run(spec.sandbox, ["true"], { environment: { "A-B": "x" } }))
          expect(badName).toMatchObject({ code: "guest_failure" })
        })
      )
    })
  )

  it.effect("a command's time-out ends the children that left its session, and nobody else", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec({ argv: ["sleep", "1000"] })
      yield* withGuest(spec, (identity) =>
        Effect.gen(function* () {
          const other = yield* Effect.forkChild(
            shell(spec.sandbox, "read line; echo $line", {
              timeoutMillis: 8_000,
              standardInput: new TextEncoder().encode("x\n")
            })
          )
          expect((yield* Fiber.join(other)).stdout).toBe("x\n")
          const answer = yield* shell(
            spec.sandbox,
            "setsid setsid sh -c 'sleep 999 & wait' & echo begun; wait; sleep 999",
            { timeoutMillis: 300 }
          )
          expect(answer).toMatchObject({ stdout: "begun\n", ended: "timeout", exitCode: 137 })
          expect((yield* supervisor.inspect(spec.sandbox))._tag).toBe("Running")
          const left = processesOf(identity).map(commandLineOf)
          expect(left.filter((line) => line.includes("999"))).toEqual([])
        })
      )
    })
  )

  it.effect("leaving a command's stream ends that command", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          const command = makeCommand(["sh", "-c", "setsid sleep 1000 & echo begun; wait"])
          yield* Stream.runHead(supervisor.execute(spec.sandbox, command))
          const { stdout } = yield* shell(spec.sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
          expect(stdout).not.toContain("sleep 1000")
        })
      )
    })
  )

  it.effect("output beyond its bound is dropped, and that is told once for each stream", () =>
    Effect.gen(function* () {
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          const answer = yield* shell(spec.sandbox, "head -c 17M /dev/zero; echo end >&2")
          expect(answer.stdout.length).toBe(16 * 1024 ** 2)
          expect(answer).toMatchObject({ truncated: ["stdout"], stderr: "end\n", exitCode: 0 })
        })
      )
    })
  )

  it.effect("a background process that holds the output does not hold up the command's end", () =>
    Effect.gen(function* () {
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          const answer = yield* shell(spec.sandbox, "sleep 1000 & echo $!")
          expect(answer).toMatchObject({ exitCode: 0, ended: "exited" })
          expect((yield* shell(spec.sandbox, `kill -0 ${answer.stdout.trim()}`)).exitCode).toBe(0)
        })
      )
    })
  )

  it.effect("eight commands at once do not mix", () =>
    Effect.gen(function* () {
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          const answers = yield* Effect.forEach(
            [1, 2, 3, 4, 5, 6, 7, 8],
            (number) => shell(spec.sandbox, `for i in 1 2 3 4 5; do echo ${number}; done; exit ${number}`),
            { concurrency: "unbounded" }
          )
          answers.forEach((answer, at) => {
            expect(answer.stdout).toBe(`${at + 1}\n`.repeat(5))
            expect(answer.exitCode).toBe(at + 1)
          })
        })
      )
    })
  )

  it.effect("a reader that takes its time gets every byte", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          const command = makeCommand(["head", "-c", "4M", "/dev/zero"])
          const sizes = yield* supervisor.execute(spec.sandbox, command).pipe(
            Stream.map((event) => (event._tag === "Output" ? event.bytes.length : 0)),
            Stream.tap(() => Effect.sleep(1)),
            Stream.runCollect
          )
          expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(4 * 1024 ** 2)
        })
      )
    })
  )

  it.effect("a command whose guest ends under it is told as failed", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          const running = yield* Effect.forkChild(
            Effect.flip(shell(spec.sandbox, "touch begun; sleep 1000", { timeoutMillis: 60_000 }))
          )
          yield* eventually(
            "the command runs",
            Effect.map(run(spec.sandbox, ["test", "-e", "begun"]), ({ exitCode }) => exitCode === 0)
          )
          yield* supervisor.end(spec.sandbox, { graceMillis: 0 })
          expect(yield* Fiber.join(running)).toMatchObject({ code: "guest_failure", step: "execute" })
        })
      )
    })
  )
}
