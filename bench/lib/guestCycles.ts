/**
 * One cycle of a guest: start until ready, one command, end. The product's contender goes through its supervisor with
 * everything that makes a guest accountable; the bare one is in bareGuest.ts. After a run nothing may be left.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { GuestCommand, GuestSpec } from "../../src/domain/guests/GuestSpec.ts"
import type { GuestIdentity, GuestSupervisor } from "../../src/domain/guests/GuestSupervisor.ts"
import { Generation, SandboxId } from "../../src/domain/Identity.ts"
import { removeGroup } from "../../src/infra/guests/cgroupControl.ts"
import { isAlive } from "../../src/infra/guests/kernel.ts"
import { startBareGuest } from "./bareGuest.ts"
import type { Contender, Figures } from "./definition.ts"
import { percentile } from "./statistics.ts"

/** Cycles of one run: with five rounds, forty of each contender. */
export const cyclesOfRun = 8

const figuresOf = (starts: ReadonlyArray<number>, executions: ReadonlyArray<number>): Figures => ({
  operationsAll: starts.length,
  startP50Millis: percentile(starts, 0.5),
  startMaxMillis: Math.max(...starts),
  execP50Millis: percentile(executions, 0.5),
  execMaxMillis: Math.max(...executions)
})

const freshSpec = (): GuestSpec =>
  new GuestSpec({
    sandbox: SandboxId.make(`sb-${randomUUID()}`),
    generation: Generation.make(1),
    runId: randomUUID(),
    attemptId: randomUUID(),
    image: "host",
    argv: [],
    environment: { CI: "true" },
    cpuMillis: 1_000,
    memoryBytes: 256 * 1024 ** 2,
    processesMax: 64,
    disk: null
  })

const commandOfCycle = new GuestCommand({
  argv: ["true"],
  environment: {},
  workingDirectory: "/workspace",
  standardInput: null,
  timeoutMillis: 10_000
})

/** Runs the command to its last event. Fails unless it exited with 0. */
const runToExit = (supervisor: GuestSupervisor["Service"], sandbox: SandboxId) =>
  Effect.gen(function* () {
    const events = yield* Stream.runCollect(supervisor.execute(sandbox, commandOfCycle))
    const last = events.at(-1)
    if (last?._tag === "Exited" && last.exitCode === 0) return
    return yield* Effect.fail(new Error(`the command ended as ${JSON.stringify(last)}`))
  })

/** What is left of a guest that was ended: a living init, or a cgroup that cannot be removed. */
const leftOf = (identity: GuestIdentity) =>
  Effect.gen(function* () {
    const left: Array<string> = []
    if (isAlive(identity.init)) left.push(`${identity.sandbox}: its init is alive`)
    for (const { path } of identity.groups) {
      if (!(yield* removeGroup(path)) || Files.existsSync(path))
        left.push(`${identity.sandbox}: ${path} is there`)
    }
    return left
  })

/** The product's supervisor. */
export const supervisedGuests = (supervisor: GuestSupervisor["Service"]): Contender => {
  const ended: Array<GuestIdentity> = []
  const cycle = Effect.gen(function* () {
    const spec = freshSpec()
    const begun = performance.now()
    const identity = yield* supervisor.start(spec)
    const ready = performance.now()
    yield* runToExit(supervisor, spec.sandbox)
    const ran = performance.now()
    const observation = yield* supervisor.end(spec.sandbox, { graceMillis: 0 })
    ended.push(identity)
    if (observation._tag !== "Gone")
      return yield* Effect.fail(new Error(`${spec.sandbox} is ${observation._tag}`))
    return { start: ready - begun, execution: ran - ready }
  })
  return {
    name: "supervisor",
    run: () =>
      Effect.gen(function* () {
        const cycles = yield* Effect.forEach(Array.from({ length: cyclesOfRun }), () => cycle)
        return figuresOf(
          cycles.map(({ start }) => start),
          cycles.map(({ execution }) => execution)
        )
      }),
    check: Effect.suspend(() => Effect.forEach(ended.splice(0), leftOf)).pipe(
      Effect.map((found) => found.flat())
    )
  }
}

/** The same bubblewrap command with nothing around it. */
export const bareGuests = (directory: string): Contender => ({
  name: "bare bubblewrap",
  run: () =>
    Effect.tryPromise({
      try: async () => {
        const starts: Array<number> = []
        const executions: Array<number> = []
        for (let cycle = 0; cycle < cyclesOfRun; cycle++) {
          const begun = performance.now()
          const guest = await startBareGuest(Path.join(directory, "bare"))
          const ready = performance.now()
          await guest.run("true")
          executions.push(performance.now() - ready)
          starts.push(ready - begun)
          await guest.end()
        }
        return figuresOf(starts, executions)
      },
      catch: (failure) => failure
    }),
  check: Effect.succeed([])
})
