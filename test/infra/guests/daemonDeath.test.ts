/** What becomes of guests whose daemon is killed: at rest, in the middle of a launch, and before their own end. */
import { it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { expect } from "vitest"
import type { GuestSpec, SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { reclaimSandbox } from "../../../src/domain/reclamation/reclamation.ts"
import { findWitnesses } from "../../../src/infra/guests/witnesses.ts"
import { endGuestsOf } from "../../support/guestsLeft.ts"
import {
  daemonLayer,
  describeWith,
  eventually,
  GuestSupervisor,
  makeSpec,
  makeStateDirectory,
  run,
  shell
} from "../../suites/guestHarness.ts"

const fixture = Path.join(import.meta.dirname, "daemon.fixture.ts")

/** High enough that the daemon's own start does not mark it to be closed. */
const strayDescriptor = 40

interface Daemon {
  readonly process: ChildProcess
  readonly lines: Array<string>
}

/** Starts a daemon process that was itself given a pipe which it must not hand on. */
const startDaemon = (stateDirectory: string, kind: SupervisorKind, spec: GuestSpec) =>
  Effect.acquireRelease(
    Effect.sync((): Daemon => {
      const started = spawn(process.execPath, [fixture, stateDirectory, kind, JSON.stringify(spec)], {
        stdio: [
          ...(["ignore", "pipe", "inherit"] as const),
          ...Array(strayDescriptor - 3).fill("ignore"),
          "pipe"
        ]
      })
      const lines: Array<string> = []
      let rest = ""
      started.stdout?.setEncoding("utf8").on("data", (text: string) => {
        const parts = (rest + text).split("\n")
        rest = parts.pop() ?? ""
        lines.push(...parts)
      })
      return { process: started, lines }
    }),
    (daemon) => Effect.sync(() => daemon.process.kill("SIGKILL"))
  )

const kill = (daemon: Daemon) =>
  Effect.callback<void>((resume) => {
    daemon.process.once("exit", () => resume(Effect.void))
    daemon.process.kill("SIGKILL")
  })

/** A state directory for the time of a test, with nothing of its sandbox left at the end. */
const withState = <A, E, R>(use: (stateDirectory: string) => Effect.Effect<A, E, R>) =>
  Effect.scoped(
    Effect.flatMap(
      Effect.acquireRelease(
        Effect.sync(() => makeStateDirectory()),
        (directory) =>
          Effect.andThen(
            endGuestsOf(directory),
            Effect.sync(() => Files.rmSync(directory, { recursive: true, force: true }))
          )
      ),
      use
    )
  )

const deathCases = (kind: SupervisorKind, moments: ReadonlyArray<number>): void => {
  it.live(
    "RG-RUN-02 the guest of a killed daemon is taken up by the next one, and none is started beside it",
    () =>
      withState((stateDirectory) =>
        Effect.gen(function* () {
          const counting =
            "i=0; while :; do i=$((i+1)); echo $i >/workspace/next; mv /workspace/next /workspace/counter; done"
          const spec = makeSpec({ argv: ["sh", "-c", counting], environment: { NAME: "kept" } })
          const daemon = yield* startDaemon(stateDirectory, kind, spec)
          yield* eventually(
            "the daemon runs a command",
            Effect.sync(() => daemon.lines.includes("begun"))
          )
          expect(daemon.lines.filter((line) => /(pipe|socket):/.test(line))).toEqual([])
          const file = Path.join(stateDirectory, "runtime", spec.sandbox, "run/workspace/counter")
          yield* eventually(
            "the guest counts",
            Effect.sync(() => Files.existsSync(file))
          )
          yield* kill(daemon)
          const atDeath = Number(Files.readFileSync(file, "utf8"))
          // What it had just handed to a command, when it died before it could take it away again.
          const agent = Path.join(stateDirectory, "runtime", spec.sandbox, "agent")
          for (const name of ["x0123456789-1.sh", "x0123456789-1.in"]) {
            Files.writeFileSync(Path.join(agent, name), "a secret")
          }
          yield* Effect.gen(function* () {
            const supervisor = yield* GuestSupervisor
            const seen = yield* supervisor.inspect(spec.sandbox)
            const identity = yield* supervisor.start(spec)
            expect(seen).toMatchObject({ _tag: "Running", identity: { init: identity.init } })
            expect(daemon.lines).toContain(JSON.stringify(identity))
            const refused = yield* Effect.flip(
              supervisor.start(makeSpec({ ...spec, attemptId: randomUUID() }))
            )
            expect(refused).toMatchObject({ code: "invalid_guest_state" })
            const { stdout } = yield* shell(
              spec.sandbox,
              'echo $NAME; cat /proc/[0-9]*/cmdline | tr "\\0" " "'
            )
            expect(stdout).toContain("kept\n")
            expect(stdout).not.toContain("sleep 1000")
            expect(Files.readdirSync(agent).filter((name) => /^x.*-1\.(sh|in)$/.test(name))).toEqual([])
            yield* eventually(
              "the counter goes on",
              Effect.sync(() => Number(Files.readFileSync(file, "utf8")) > atDeath)
            )
            yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })
          }).pipe(Effect.provide(daemonLayer(stateDirectory, kind)))
        })
      )
  )

  it.live("the status of a guest that ended while no daemon ran is kept", () =>
    withState((stateDirectory) =>
      Effect.gen(function* () {
        const spec = makeSpec({
          argv: ["sh", "-c", "while [ ! -e /workspace/go ]; do sleep 0.01; done; exit 7"]
        })
        const daemon = yield* startDaemon(stateDirectory, kind, spec)
        yield* eventually(
          "the daemon runs a command",
          Effect.sync(() => daemon.lines.includes("begun"))
        )
        yield* kill(daemon)
        Files.writeFileSync(Path.join(stateDirectory, "runtime", spec.sandbox, "run/workspace/go"), "")
        yield* Effect.gen(function* () {
          const supervisor = yield* GuestSupervisor
          yield* eventually(
            "the guest is gone",
            Effect.map(supervisor.inspect(spec.sandbox), (seen) => seen._tag === "Gone")
          )
          expect(yield* supervisor.inspect(spec.sandbox)).toMatchObject({ exit: { exitCode: 7 } })
          yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })
        }).pipe(Effect.provide(daemonLayer(stateDirectory, kind)))
      })
    )
  )

  it.live(
    "a daemon killed at any moment of a launch leaves nothing that the next one does not find and end",
    () =>
      Effect.forEach(
        moments,
        (delayMillis) =>
          withState((stateDirectory) =>
            Effect.gen(function* () {
              const spec = makeSpec()
              const daemon = yield* startDaemon(stateDirectory, kind, spec)
              yield* eventually(
                "the daemon is ready",
                Effect.sync(() => daemon.lines.length > 0)
              )
              yield* Effect.sleep(delayMillis)
              yield* kill(daemon)
              yield* Effect.gen(function* () {
                const supervisor = yield* GuestSupervisor
                const observation = yield* supervisor.end(spec.sandbox, { graceMillis: 0 })
                expect(observation._tag).toBe("Gone")
                expect(findWitnesses(spec.sandbox)).toEqual([])
                const again = yield* supervisor.start(makeSpec({ ...spec, attemptId: randomUUID() }))
                expect((yield* run(again.sandbox, ["true"])).exitCode).toBe(0)
                yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })
              }).pipe(Effect.provide(daemonLayer(stateDirectory, kind)))
            })
          ),
        { discard: true }
      ),
    120_000
  )
}

await describeWith("bubblewrap", () => deathCases("bubblewrap", [0, 14, 40, 70]))
await describeWith("unshare", () => deathCases("unshare", [30]))
