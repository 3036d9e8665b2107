/**
 * The processes of the embedded database: one that initializes the data, and the server. The server dies with its
 * parent (`setpriv --pdeathsig`), so a killed daemon leaves none behind. Homes and refusals are not its business.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { ClusterFailed, type ClusterStep } from "./clusterErrors.ts"
import { dataDirectory, logFile, openLog } from "./clusterHome.ts"
import type { DatabaseUser } from "./databaseUser.ts"

/** A steered test clock must freeze neither start nor shutdown. */
const realClock = Effect.runSync(Clock.Clock)

/** Runs an effect on the machine's own clock. */
export const onRealClock = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(effect, Clock.Clock, realClock)

const environment = { PATH: "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" }

const identity = (user: DatabaseUser | null) => (user === null ? {} : { uid: user.userId, gid: user.groupId })

const hasEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null

const ended = (child: ChildProcess): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const finish = () => resume(Effect.void)
    if (hasEnded(child)) return finish()
    child.once("exit", finish)
    return Effect.sync(() => child.off("exit", finish))
  })

/** Ends the child by ever harsher signals, each with its time. */
const end = (child: ChildProcess, signals: ReadonlyArray<NodeJS.Signals>): Effect.Effect<void> =>
  Effect.gen(function* () {
    for (const signal of [...signals, "SIGKILL" as const]) {
      if (hasEnded(child) || child.pid === undefined) return
      child.kill(signal)
      const gone = yield* Effect.timeoutOption(ended(child), Bounds.databaseStopMillisMax)
      if (Option.isSome(gone)) return
    }
  }).pipe(onRealClock)

const child = (
  step: ClusterStep,
  signals: ReadonlyArray<NodeJS.Signals>,
  start: () => ChildProcess
): Effect.Effect<ChildProcess, ClusterFailed, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<ChildProcess, ClusterFailed>((resume) => {
      const started = start()
      started.once("spawn", () => resume(Effect.succeed(started)))
      started.once("error", () =>
        resume(new ClusterFailed({ step, detail: "the operating system did not start its process" }))
      )
    }),
    (started) => end(started, signals)
  )

/** Runs a program to its end with its output in the cluster's log. Fails when it does not end with status 0. */
export const runToEnd = (options: {
  readonly step: ClusterStep
  readonly program: string
  readonly arguments: ReadonlyArray<string>
  readonly user: DatabaseUser | null
  readonly home: string
}): Effect.Effect<void, ClusterFailed> =>
  Effect.gen(function* () {
    const failed = (how: string) =>
      new ClusterFailed({
        step: options.step,
        detail: `${Path.basename(options.program)} ${how}; its words are in ${logFile(options.home)}`
      })
    const started = yield* child(options.step, ["SIGTERM"], () => {
      const log = openLog(options.home)
      const process = spawn(options.program, options.arguments, {
        ...identity(options.user),
        cwd: options.home,
        env: environment,
        stdio: ["ignore", log, log]
      })
      Files.closeSync(log)
      return process
    })
    const inTime = yield* onRealClock(
      Effect.timeoutOption(ended(started), Bounds.databaseInitializeMillisMax)
    )
    if (Option.isNone(inTime)) return yield* failed("did not end in time")
    if (started.exitCode !== 0) return yield* failed(`ended with status ${started.exitCode ?? "unknown"}`)
  }).pipe(Effect.scoped)

const setpriv: string | null =
  ["/usr/bin/setpriv", "/bin/setpriv"].find((path) => Files.existsSync(path)) ?? null

/**
 * Starts the server and ends it when the scope closes: `SIGINT` keeps every byte, `SIGQUIT` drops a cluster that
 * nobody needs any more. The parent's death is noticed by thread: call it from the thread that lives longest.
 */
export const startServer = (options: {
  readonly program: string
  readonly arguments: ReadonlyArray<string>
  readonly user: DatabaseUser | null
  readonly home: string
  readonly stop: ReadonlyArray<NodeJS.Signals>
}): Effect.Effect<ChildProcess, ClusterFailed, Scope.Scope> =>
  child("start", options.stop, () => {
    const log = openLog(options.home)
    const drop =
      options.user === null
        ? []
        : [`--reuid=${options.user.userId}`, `--regid=${options.user.groupId}`, "--clear-groups"]
    const process =
      setpriv === null
        ? spawn(options.program, options.arguments, {
            ...identity(options.user),
            cwd: options.home,
            env: environment,
            stdio: ["ignore", log, log]
          })
        : spawn(setpriv, [...drop, "--pdeathsig=INT", options.program, ...options.arguments], {
            cwd: options.home,
            env: environment,
            stdio: ["ignore", log, log]
          })
    Files.closeSync(log)
    return process
  })

/** Line 8 of the lock file says ready; line 1 must be our process, since a killed server leaves its file behind. */
const isReady = (server: ChildProcess, home: string): boolean => {
  try {
    const lines = Files.readFileSync(Path.join(dataDirectory(home), "postmaster.pid"), "utf8").split("\n")
    return lines[0] === String(server.pid) && lines[7]?.trim() === "ready"
  } catch {
    return false
  }
}

/** Waits until the server takes connections. Fails when it ends first or takes too long. */
export const awaitReady = (server: ChildProcess, home: string): Effect.Effect<void, ClusterFailed> =>
  Effect.gen(function* () {
    while (!isReady(server, home)) {
      if (hasEnded(server)) {
        return yield* new ClusterFailed({
          step: "start",
          detail: `the server ended before it was ready; its words are in ${logFile(home)}`
        })
      }
      yield* Effect.sleep(5)
    }
  }).pipe(
    Effect.timeoutOrElse({
      duration: Bounds.databaseStartMillisMax,
      orElse: () =>
        new ClusterFailed({
          step: "start",
          detail: `the server was not ready after ${Bounds.databaseStartMillisMax} milliseconds`
        })
    }),
    onRealClock
  )

/** Completes when the server is gone, with the failure to report. */
export const died = (server: ChildProcess, home: string): Effect.Effect<ClusterFailed> =>
  Effect.map(
    ended(server),
    () =>
      new ClusterFailed({
        step: "run",
        detail: `the server ended by itself; its words are in ${logFile(home)}`
      })
  )
