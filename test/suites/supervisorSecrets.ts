/** Cases of the supervisor's conformance about what a command was handed: it is on no disk while the command runs. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Files from "node:fs"
import * as Path from "node:path"
import { expect } from "vitest"
import type { SandboxId } from "../../src/domain/Identity.ts"
import { eventually, type GuestMethods, makeSpec, run, shell, withGuest } from "./guestHarness.ts"

const canary = "canary-on-a-disk"

/** Declares the cases for a daemon over the given state directory. */
export const secretCases = (it: GuestMethods, stateDirectory: string): void => {
  const agentOf = (sandbox: SandboxId) => Path.join(stateDirectory, "runtime", sandbox, "agent")

  /** Files of the guest's agent that hold the text, without waiting at its pipes. */
  const holding = (sandbox: SandboxId, text: string): ReadonlyArray<string> =>
    Files.readdirSync(agentOf(sandbox), { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => name)
      .filter((name) => Files.readFileSync(Path.join(agentOf(sandbox), name), "latin1").includes(text))

  it.effect(
    "SP-TX-11 a silent command's environment and input are on no disk while it runs, and reach it whole",
    () =>
      Effect.gen(function* () {
        const spec = makeSpec()
        yield* withGuest(spec, () =>
          Effect.gen(function* () {
            const running = yield* Effect.forkChild(
              shell(
                spec.sandbox,
                'touch running; while [ ! -e go ]; do sleep 0.01; done; cat; echo "$TOKEN"',
                {
                  environment: { TOKEN: canary },
                  standardInput: new TextEncoder().encode(`${canary} in\n`)
                }
              )
            )
            yield* eventually(
              "the command runs",
              Effect.map(run(spec.sandbox, ["test", "-e", "running"]), ({ exitCode }) => exitCode === 0)
            )
            yield* eventually(
              "what it was handed is gone",
              Effect.sync(() => holding(spec.sandbox, canary).length === 0)
            )
            yield* run(spec.sandbox, ["touch", "go"])
            expect((yield* Fiber.join(running)).stdout).toBe(`${canary} in\n${canary}\n`)
          })
        )
      })
  )
}
