/**
 * A daemon of the demo: started as a process of its own from this checkout, watched through its API, and killed or
 * stopped as the story wants.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { openSync } from "node:fs"
import { join } from "node:path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { ApiClient } from "../src/infra/http/apiClient.ts"

export class DemoFailed extends Data.TaggedError("DemoFailed")<{ readonly what: string }> {
  override get message(): string {
    return this.what
  }
}

const entry = join(import.meta.dirname, "..", "bin", "holdfast.js")
const readyMillisMax = 60_000
const pollMillis = 50

export interface Daemon {
  readonly process: ChildProcess
  readonly pid: number
}

/** Starts `holdfast up` with the home directory; its output goes to a file beside the home. */
export const start = (home: string, environment: Readonly<Record<string, string>>) =>
  Effect.sync((): Daemon => {
    const log = openSync(`${home}.log`, "a", 0o600)
    const child = spawn(process.execPath, [entry, "--home", home, "up"], {
      stdio: ["ignore", log, log],
      env: { ...process.env, ...environment }
    })
    return { process: child, pid: child.pid ?? 0 }
  })

/** Waits until the daemon answers that it is well; fails when it ended or took too long. */
export const awaitReady = (daemon: Daemon, client: ApiClient["Service"]) =>
  Effect.gen(function* () {
    if (daemon.process.exitCode !== null || daemon.process.signalCode !== null) {
      return yield* new DemoFailed({
        what: `the daemon ended with ${daemon.process.exitCode ?? daemon.process.signalCode}`
      })
    }
    const health = yield* Effect.option(client.system.health())
    return health._tag === "Some"
  }).pipe(
    Effect.repeat({ until: (ready) => ready, schedule: Schedule.spaced(pollMillis) }),
    Effect.timeoutOrElse({
      duration: readyMillisMax,
      orElse: () => Effect.fail(new DemoFailed({ what: "the daemon did not become ready in time" }))
    })
  )

/** Sends the signal and waits for the end; answers the exit code, or null after a kill. */
export const end = (daemon: Daemon, signal: "SIGKILL" | "SIGTERM") =>
  Effect.callback<number | null>((resume) => {
    if (daemon.process.exitCode !== null || daemon.process.signalCode !== null) {
      return resume(Effect.succeed(daemon.process.exitCode))
    }
    daemon.process.once("exit", (code) => resume(Effect.succeed(code)))
    daemon.process.kill(signal)
  })
