/**
 * Adapter: OpenSSH's client, with nothing of the user's own configuration, agent or known hosts. The key lies in a
 * private file for the length of one call.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { executionOutputBytesMax, sshConnectSeconds, sshEndMillisMax } from "../../domain/Bounds.ts"
import type { EnvironmentLeaseId } from "../../domain/Identity.ts"
import type { CommandResult } from "../../domain/providers/BuiltInProviders.ts"
import {
  type RemoteCommand,
  type RemoteHost,
  RemoteHostRefused,
  RemoteHosts,
  RemoteOutcomeUnknown,
  RemoteProcessesRemain
} from "../../domain/runLeases/RemoteHosts.ts"
import { endCommandLine, environmentScript, markReader, runCommandLine } from "./remoteScripts.ts"

/** A folder of the daemon's own with the key and the known hosts, gone with the scope. */
const credentialFolder = (host: RemoteHost): Effect.Effect<string, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = Files.mkdtempSync(Path.join(Os.tmpdir(), "holdfast-ssh-"))
      const key = Redacted.value(host.privateKey)
      Files.writeFileSync(Path.join(folder, "key"), key.endsWith("\n") ? key : `${key}\n`, { mode: 0o600 })
      Files.writeFileSync(Path.join(folder, "known_hosts"), host.knownHosts ?? "", { mode: 0o600 })
      return folder
    }),
    (folder) => Effect.sync(() => Files.rmSync(folder, { recursive: true, force: true }))
  )

const optionsOf = (host: RemoteHost, folder: string): ReadonlyArray<string> => {
  const strict = host.strictHostKeyChecking
  const options = {
    UserKnownHostsFile: strict ? Path.join(folder, "known_hosts") : "/dev/null",
    GlobalKnownHostsFile: "none",
    StrictHostKeyChecking: strict ? "yes" : "no",
    IdentitiesOnly: "yes",
    IdentityAgent: "none",
    BatchMode: "yes",
    PasswordAuthentication: "no",
    ConnectTimeout: String(sshConnectSeconds),
    ServerAliveInterval: String(sshConnectSeconds),
    ServerAliveCountMax: "2",
    ClearAllForwardings: "yes",
    LogLevel: "ERROR"
  }
  const words = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`])
  return ["-F", "none", "-T", "-i", Path.join(folder, "key"), "-p", String(host.port), ...words]
}

const start = (host: RemoteHost, folder: string, line: string): ChildProcess =>
  spawn("ssh", [...optionsOf(host, folder), "-l", host.username, "--", host.host, line], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", HOME: folder, LANG: "C" }
  })

/** Why nothing was begun, read off the client's words; they are shown to nobody. */
const refusalOf = (words: string): RemoteHostRefused["why"] => {
  if (/host key verification failed|remote host identification has changed/i.test(words)) return "host_key"
  if (/invalid format|error in libcrypto|bad permissions|load key/i.test(words)) return "key_unusable"
  return /permission denied/i.test(words) ? "authentication" : "unreachable"
}

interface Talk {
  readonly line: string
  readonly mark: string
  readonly input: Uint8Array | null
  readonly timeoutMillis: number
  readonly logSink?: RemoteCommand["logSink"]
}

type Told = CommandResult & { readonly status: number }

/** Collects what is said, up to the bound of an execution's output. */
const listener = (logSink: RemoteCommand["logSink"]) => {
  const text = { stdout: "", stderr: "" }
  let bytes = 0
  return {
    text,
    take: (stream: "stdout" | "stderr") => (said: string) => {
      bytes += Buffer.byteLength(said)
      if (bytes > executionOutputBytesMax || said === "") return
      text[stream] += said
      logSink?.({ stream, text: said })
    }
  }
}

/** Closing its input tells the remote side to end the command; a client that does not end then is killed. */
const hangUp = (child: ChildProcess): void => {
  child.stdin?.end()
  setTimeout(() => child.kill("SIGKILL"), sshEndMillisMax).unref()
}

const talk = (host: RemoteHost, folder: string, asked: Talk) =>
  Effect.callback<Told, RemoteHostRefused | RemoteOutcomeUnknown>((resume) => {
    const child = start(host, folder, asked.line)
    const { take, text } = listener(asked.logSink)
    const reader = markReader(asked.mark, take("stdout"))
    let timedOut = false
    const deadline = setTimeout(() => {
      timedOut = true
      hangUp(child)
    }, asked.timeoutMillis)
    const refused = (why: RemoteHostRefused["why"]) =>
      Effect.fail(new RemoteHostRefused({ host: host.host, why }))
    child.stdout?.setEncoding("utf8").on("data", reader.push)
    child.stderr?.setEncoding("utf8").on("data", take("stderr"))
    child.stdin?.on("error", () => undefined)
    if (asked.input !== null) child.stdin?.write(asked.input)
    child.once("error", () => resume(refused("unreachable")))
    child.once("close", () => {
      clearTimeout(deadline)
      reader.end()
      const { folderRefused, started, status } = reader.marks
      if (folderRefused) return resume(refused("folder"))
      if (!started) return resume(refused(refusalOf(text.stderr)))
      if (status === null) return resume(Effect.fail(new RemoteOutcomeUnknown({ host: host.host })))
      resume(Effect.succeed({ status, exitCode: status, signal: null, timedOut, ...text }))
    })
    return Effect.callback<void>((done) => {
      clearTimeout(deadline)
      child.once("close", () => done(Effect.void))
      if (child.exitCode !== null || child.signalCode !== null) done(Effect.void)
      hangUp(child)
    })
  })

const within = <A, E>(
  host: RemoteHost,
  use: (folder: string) => Effect.Effect<A, E>
): Effect.Effect<A, E | RemoteHostRefused> =>
  host.strictHostKeyChecking && host.knownHosts === null
    ? Effect.fail(new RemoteHostRefused({ host: host.host, why: "no_known_hosts" }))
    : Effect.scoped(Effect.flatMap(credentialFolder(host), use))

const drawMark = (): string => `holdfast-${randomUUID()}`

const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/

const run = (host: RemoteHost, command: RemoteCommand) =>
  within(host, (folder) => {
    const mark = drawMark()
    // A name that is none for a shell could say anything there.
    const variables = Object.entries(command.environment).filter(([name]) => namePattern.test(name))
    const environment = Buffer.from(environmentScript(Object.fromEntries(variables)))
    const given = command.standardInput ?? new Uint8Array()
    const line = runCommandLine({
      mark,
      lease: command.lease,
      environmentBytes: environment.length,
      inputBytes: given.length,
      folder: command.workingDirectory,
      argv: command.argv
    })
    const { logSink, timeoutMillis } = command
    const asked = { line, mark, input: Buffer.concat([environment, given]), timeoutMillis }
    return Effect.map(
      talk(host, folder, logSink === undefined ? asked : { ...asked, logSink }),
      ({ exitCode, signal, stderr, stdout, timedOut }): CommandResult => ({
        exitCode,
        signal,
        timedOut,
        stdout,
        stderr
      })
    )
  })

const endAll = (host: RemoteHost, lease: EnvironmentLeaseId) =>
  Effect.gen(function* () {
    const mark = drawMark()
    const asked = { line: endCommandLine(mark, lease), mark, input: null, timeoutMillis: sshEndMillisMax }
    const { status } = yield* within(host, (folder) => talk(host, folder, asked))
    if (status !== 0) return yield* new RemoteProcessesRemain({ host: host.host, processes: status })
  })

export const layer: Layer.Layer<RemoteHosts> = Layer.succeed(RemoteHosts, RemoteHosts.of({ run, endAll }))
