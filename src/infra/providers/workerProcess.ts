/**
 * One worker process of a provider plugin: started with nothing of the daemon's in its environment, asked what it can,
 * pinged while it runs, and ended with everything that it started in its own process group.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { isJsonObject } from "../../domain/Json.ts"
import { ProviderCallFailed } from "../../domain/providers/ProviderWorkers.ts"
import { type CallError, makeChannel, type WorkerChannel } from "./workerChannel.ts"
import * as Messages from "./workerMessages.ts"

/** What is started: a script of Node's by this very Node, anything else as a program of its own. */
export interface WorkerFiles {
  readonly pluginKey: string
  readonly folder: string
  /** Absolute path of the manifest's `entrypoints.worker`. */
  readonly worker: string
}

export interface WorkerSettings {
  /** Label of this installation; the worker is told it. */
  readonly installation: string
  /** How often a worker is asked for a sign of life, and how long it may take. */
  readonly pingMillis?: number
  readonly pingAnswerMillis?: number
}

export interface RunningWorker {
  readonly pid: number
  readonly supportedMethods: ReadonlyArray<string>
  readonly channel: WorkerChannel
  /** Settles when the process has ended; never fails. */
  readonly ended: Effect.Effect<void>
}

const scriptPattern = /\.(c|m)?[jt]s$/

/** The kernel ends the worker with the daemon, whatever ends that; a worker should read the end of its input, too. */
const tiedTo = (argv: ReadonlyArray<string>): ReadonlyArray<string> => {
  const setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].find((path) => Files.existsSync(path))
  return setpriv === undefined ? argv : [setpriv, "--pdeathsig", "KILL", "--", ...argv]
}

const environmentOf = ({ folder, pluginKey }: WorkerFiles): Record<string, string> => ({
  PATH: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
  LANG: "C.UTF-8",
  HOME: folder,
  HOLDFAST_PROVIDER_PLUGIN: pluginKey
})

const start = (files: WorkerFiles): ChildProcessWithoutNullStreams => {
  const own = scriptPattern.test(files.worker) ? [process.execPath, files.worker] : [files.worker]
  const [program, ...args] = tiedTo(own)
  return spawn(program!, args, {
    cwd: Path.dirname(files.worker),
    env: environmentOf(files),
    detached: true,
    stdio: ["pipe", "pipe", "pipe"]
  })
}

const killGroup = (child: ChildProcessWithoutNullStreams, signal: NodeJS.Signals): void => {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // It has ended, and nothing of its group is left.
  }
}

/** Reads the worker's answer to the hello: the methods that it has. */
const methodsOf = (result: unknown): ReadonlyArray<string> | undefined => {
  if (!isJsonObject(result) || result["protocolVersion"] !== Messages.protocolVersion) return undefined
  const methods = result["supportedMethods"]
  return Array.isArray(methods) &&
    methods.length <= Bounds.providerMethodsMax &&
    methods.every((method) => typeof method === "string")
    ? methods
    : undefined
}

/** Waits until the process is gone or the time is over; answers whether it is gone. */
const goneWithin = (ended: Effect.Effect<void>, millis: number): Effect.Effect<boolean> =>
  Effect.race(Effect.as(ended, true), Effect.as(Effect.sleep(millis), false))

const end = Effect.fnUntraced(function* (
  child: ChildProcessWithoutNullStreams,
  channel: WorkerChannel,
  ended: Effect.Effect<void>
) {
  channel.notify(Messages.shutdownNote, {})
  channel.close("not_running")
  // Behind the note, which leaves at the end of this tick.
  process.nextTick(() => child.stdin.end())
  if (!(yield* goneWithin(ended, Bounds.providerShutdownMillisMax))) {
    killGroup(child, "SIGTERM")
    yield* goneWithin(ended, Bounds.providerShutdownMillisMax)
  }
  // Also for what it left behind in its group.
  killGroup(child, "SIGKILL")
  yield* ended
})

/**
 * What is written in one tick leaves in one piece, so that calls that come together cost one write and wake the worker
 * once. Until it has left, it counts among what the worker has not read.
 */
const outboxOf = ({ stdin }: ChildProcessWithoutNullStreams) => {
  let gathered = ""
  const leave = (): void => {
    const text = gathered
    gathered = ""
    stdin.write(text)
  }
  return {
    write: (text: string): void => {
      if (gathered === "") process.nextTick(leave)
      gathered += text
    },
    unread: (): number => stdin.writableLength + gathered.length
  }
}

/** Wires the process's pipes to a channel. What a worker writes to its standard error goes to `errors`, or nowhere. */
const connect = (child: ChildProcessWithoutNullStreams, errors: ((text: string) => void) | undefined) => {
  const channel = makeChannel({
    ...outboxOf(child),
    broken: () => killGroup(child, "SIGKILL")
  })
  child.stdin.on("error", () => channel.close("crashed"))
  child.stdout.on("data", (bytes: Buffer) => channel.take(bytes))
  child.stdout.on("error", () => channel.close("crashed"))
  child.stderr.on("error", () => undefined)
  child.stderr.on("data", (bytes: Buffer) => errors?.(bytes.toString("utf8")))
  const ended = new Promise<void>((resolve) => {
    const settle = (): void => {
      channel.close("crashed")
      resolve()
    }
    child.once("error", settle)
    child.once("close", settle)
  })
  return { channel, ended: Effect.promise(() => ended) }
}

/** Asks from time to time whether the worker answers at all; one that does not is killed, and whoever waits is told. */
const watch = (
  child: ChildProcessWithoutNullStreams,
  channel: WorkerChannel,
  {
    pingAnswerMillis = Bounds.providerPingAnswerMillisMax,
    pingMillis = Bounds.providerPingMillis
  }: WorkerSettings
) =>
  channel.request(Messages.pingMethod, {}, { budgetMillis: pingAnswerMillis }).pipe(
    // A worker that has no such method answers, which is all that is asked.
    Effect.catchTag("ProviderRpcError", () => Effect.void),
    Effect.catchTag("ProviderCallFailed", ({ why }) =>
      why === "timeout" ? Effect.sync(() => killGroup(child, "SIGKILL")) : Effect.void
    ),
    Effect.andThen(Effect.sleep(pingMillis)),
    Effect.forever
  )

/**
 * Starts the worker and says hello. Fails with `ProviderCallFailed` or `ProviderRpcError` when it does not answer as the
 * protocol asks, within `providerHandshakeMillisMax`. It ends with the scope: told to, then by signals.
 */
export const startWorker = Effect.fnUntraced(function* (
  files: WorkerFiles,
  options: WorkerSettings & { readonly errors?: (text: string) => void }
): Effect.fn.Return<RunningWorker, CallError, Scope.Scope> {
  const child = start(files)
  const { channel, ended } = connect(child, options.errors)
  yield* Effect.addFinalizer(() => end(child, channel, ended))
  const answer = yield* channel.request(
    Messages.initializeMethod,
    {
      protocolVersion: Messages.protocolVersion,
      host: { name: "holdfast" },
      installation: options.installation
    },
    { budgetMillis: Bounds.providerHandshakeMillisMax }
  )
  const supportedMethods = methodsOf(answer.result)
  if (supportedMethods === undefined) {
    return yield* new ProviderCallFailed({ method: Messages.initializeMethod, why: "malformed" })
  }
  yield* Effect.forkScoped(watch(child, channel, options))
  return { pid: child.pid!, supportedMethods, channel, ended }
})
