/** The sweep over a real guest whose daemon was killed: the lease goes, and the command under it has ended by then. */
import { it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { expect } from "vitest"
import type { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { ProcessIdentity } from "../../../src/domain/Identity.ts"
import { HeldLeases } from "../../../src/domain/leases/HeldLeases.ts"
import { sweepLeases } from "../../../src/domain/leases/sweep.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { reclaimSandbox } from "../../../src/domain/reclamation/reclamation.ts"
import * as Identifiers from "../../../src/infra/Identifiers.ts"
import { layer as processes, readStatLine } from "../../../src/infra/Processes.ts"
import { daemonLayer, describeWith, makeSpec, makeStateDirectory } from "../../suites/guestHarness.ts"
import { endGuestsOf } from "../../support/guestsLeft.ts"
import { fixture, leaseRows, node, seedRuntime, sql } from "./fixture.ts"

const daemonFile = Path.join(import.meta.dirname, "../../infra/guests/daemon.fixture.ts")

const stateDirectory = Effect.acquireRelease(
  Effect.sync(() => makeStateDirectory()),
  (directory) =>
    Effect.andThen(
      endGuestsOf(directory),
      Effect.sync(() => Files.rmSync(directory, { recursive: true, force: true }))
    )
)

/** A daemon process that carries the guest and runs a command in it, from when the command has begun. */
const startDaemon = (...words: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.callback<ChildProcess>((resume) => {
      const started = spawn(process.execPath, [daemonFile, ...words], {
        stdio: ["ignore", "pipe", "inherit"]
      })
      started.stdout?.setEncoding("utf8").on("data", (text: string) => {
        if (text.includes("begun")) resume(Effect.succeed(started))
      })
    }),
    (started) => Effect.sync(() => started.kill("SIGKILL"))
  )

const kill = (started: ChildProcess) =>
  Effect.callback<void>((resume) => {
    started.once("exit", () => resume(Effect.void))
    started.kill("SIGKILL")
  })

const identityOf = (pid: number): ProcessIdentity => {
  const seen = readStatLine(Files.readFileSync(`/proc/${pid}/stat`, "utf8"))
  if (seen._tag !== "Present") throw new Error("the daemon has no readable stat line")
  return new ProcessIdentity({
    daemon: randomUUID(),
    node,
    bootId: Files.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
    pid,
    startTicks: seen.startTicks
  })
}

/** Processes whose first words are these and that see the sandbox's files. */
const running = (words: string, sandbox: string): ReadonlyArray<string> =>
  Files.readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return (
        Files.readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").startsWith(words) &&
        Files.readFileSync(`/proc/${pid}/mountinfo`, "utf8").includes(sandbox)
      )
    } catch {
      return false
    }
  })

const sweepCase = (kind: SupervisorKind): void => {
  it.live(
    "SP-LEASE-06 a sweep takes a killed daemon's lease only when the command under it has ended",
    () =>
      Effect.gen(function* () {
        const directory = yield* stateDirectory
        const runtime = yield* seedRuntime()
        const spec = makeSpec({ sandbox: runtime.sandbox })
        const daemon = yield* startDaemon(directory, kind, JSON.stringify(spec))
        const holder = identityOf(daemon.pid ?? 0)
        yield* sql(
          `insert into execution_leases (id, project_id, generation, sandbox_id, process, label, heartbeat_at)
            values (gen_random_uuid(), $1::bigint, 1, $2, $3, 'sleep', now() - interval '1 hour')`,
          [runtime.project, runtime.sandbox, holder.toString()]
        )
        const nextDaemon = Layer.mergeAll(
          HeldLeases.layer.pipe(Layer.provideMerge(processes(node)), Layer.provide(Identifiers.layer)),
          daemonLayer(directory, kind)
        )
        const sleeping = Effect.sync(() => running("sleep 1000", runtime.sandbox).length)
        yield* Effect.gen(function* () {
          expect(yield* (yield* Processes).liveness(holder)).toBe("alive")
          expect(yield* sweepLeases(node)).toEqual({ swept: 0, ended: 0 })
          yield* kill(daemon)
          expect(yield* sleeping).toBe(1)
          expect(yield* sweepLeases(node)).toEqual({ swept: 1, ended: 0 })
          expect(yield* sleeping).toBe(0)
          expect(yield* leaseRows).toEqual([])
          yield* reclaimSandbox(runtime.sandbox, { graceMillis: 0 })
        }).pipe(Effect.provide(nextDaemon))
      }).pipe(Effect.scoped, Effect.provide(fixture)),
    60_000
  )
}

await describeWith("bubblewrap", () => sweepCase("bubblewrap"))
