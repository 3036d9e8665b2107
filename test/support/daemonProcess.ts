/**
 * Real daemons for tests: processes of their own on a private home directory, with a fresh database of the test's
 * cluster. A daemon can be told to kill itself at one boundary of one step, as a machine would.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { inject } from "vitest"
import { ApiClient, layer as clientLayer } from "../../src/infra/http/apiClient.ts"
import { endGuestsOf } from "./guestsLeft.ts"
import { socketPathOf } from "../../src/layers/config.ts"
import type { KillPoint } from "./killingObserver.ts"

const startMillisMax = 30_000
const pollMillis = 20
const outputCharactersMax = 20_000
const entry = join(import.meta.dirname, "daemonKilledAt.ts")

export interface Place {
  readonly home: string
  readonly databaseUrl: string
}

export interface RunningDaemon {
  readonly process: ChildProcess
  /** What it wrote to both of its outputs, the newest part. */
  readonly output: () => string
  /** Exit code, or the signal's name, once it has ended. */
  readonly ended: Effect.Effect<number | string>
}

let databases = 0

const onServer = (text: string) => {
  const { host, username } = inject("cluster")
  return Effect.scoped(
    Effect.flatMap(PgConnection.make({ host, username, database: "postgres" }), (connection) =>
      connection.query(text, [], false)
    )
  ).pipe(Effect.catch((error) => Effect.die(error)))
}

/** A home directory; it and the guests that are left in it are gone when the scope closes. */
export const makeHome: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => {
    const made = mkdtempSync(join(tmpdir(), "hf-daemon-"))
    chmodSync(made, 0o711)
    return made
  }),
  (made) =>
    Effect.andThen(
      endGuestsOf(join(made, "state")),
      Effect.sync(() => rmSync(made, { recursive: true, force: true }))
    )
)

/** A home directory and an empty database; both are gone when the scope closes. */
export const makePlace: Effect.Effect<Place, never, Scope.Scope> = Effect.gen(function* () {
  const { host, username } = inject("cluster")
  databases += 1
  const database = `d_${process.pid}_${databases}`
  yield* Effect.acquireRelease(onServer(`create database ${database}`), () =>
    onServer(`drop database if exists ${database} with (force)`)
  )
  const home = yield* makeHome
  return { home, databaseUrl: `postgresql:///${database}?host=${encodeURIComponent(host)}&user=${username}` }
})

const endOf = (child: ChildProcess): Effect.Effect<number | string> =>
  Effect.callback((resume) => {
    const answer = () => resume(Effect.succeed(child.exitCode ?? child.signalCode ?? "unknown"))
    if (child.exitCode !== null || child.signalCode !== null) return answer()
    child.once("exit", answer)
    return undefined
  })

/** Starts a process of ours with these arguments, a daemon unless told; it is killed with the scope. */
export const startProcess = (
  given: ReadonlyArray<string>,
  killAt: KillPoint | undefined,
  program = entry
): Effect.Effect<RunningDaemon, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync((): RunningDaemon => {
      const child = spawn(process.execPath, [program, ...given], {
        stdio: ["ignore", "pipe", "pipe"],
        env: {
          ...process.env,
          // Many daemons are started: what the first one has compiled is not compiled again.
          NODE_COMPILE_CACHE: join(inject("cluster").host, "compile-cache"),
          ...(killAt === undefined ? {} : { HOLDFAST_TEST_KILL_AT: JSON.stringify(killAt) })
        }
      })
      let output = ""
      const keep = (chunk: Buffer) => void (output = (output + chunk.toString()).slice(-outputCharactersMax))
      child.stdout?.on("data", keep)
      child.stderr?.on("data", keep)
      return { process: child, output: () => output, ended: endOf(child) }
    }),
    (daemon) =>
      Effect.andThen(
        Effect.sync(() => daemon.process.kill("SIGKILL")),
        daemon.ended
      )
  )

/** Starts a daemon; it is killed with the scope. It need not come up: see `awaitReady` and `ended`. */
export const startDaemon = (
  { databaseUrl, home }: Place,
  options: { readonly killAt?: KillPoint; readonly arguments?: ReadonlyArray<string> } = {}
): Effect.Effect<RunningDaemon, never, Scope.Scope> =>
  startProcess(
    ["--home", home, "up", "--database-url", databaseUrl, ...(options.arguments ?? [])],
    options.killAt
  )

/** A client of whichever daemon serves the place now. */
export const clientOf = (place: Place): Effect.Effect<ApiClient["Service"]> =>
  ApiClient.pipe(Effect.provide(clientLayer(socketPathOf(place.home))))

/** Waits until the daemon answers that it is well; a daemon that ends before is told with what it wrote. */
export const awaitReady = Effect.fnUntraced(function* (place: Place, daemon: RunningDaemon) {
  const client = yield* clientOf(place)
  yield* Effect.suspend(() =>
    daemon.process.exitCode === null && daemon.process.signalCode === null
      ? Effect.option(client.system.health())
      : Effect.die(new Error(`the daemon ended before it was ready:\n${daemon.output()}`))
  ).pipe(
    Effect.repeat({ until: (health) => health._tag === "Some", schedule: Schedule.spaced(pollMillis) }),
    Effect.timeoutOrElse({
      duration: startMillisMax,
      orElse: () => Effect.die(new Error(`the daemon was not ready in time:\n${daemon.output()}`))
    })
  )
  return client
})
