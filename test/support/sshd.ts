/**
 * A real OpenSSH server of this test's own: fresh keys, a port of its own on the loopback, this very user. A laptop
 * without one leaves the tests out; a build machine fails.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { execFileSync, spawn } from "node:child_process"
import * as Files from "node:fs"
import { createServer } from "node:net"
import * as Os from "node:os"
import * as Path from "node:path"
import type { RemoteHost } from "../../src/domain/runLeases/RemoteHosts.ts"
import { waitFor } from "./waiting.ts"

const program = "/usr/sbin/sshd"

export const hasSshServer = Files.existsSync(program)

const freePort = Effect.callback<number>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    server.close(() => resume(Effect.succeed(port)))
  })
})

const makeKey = (path: string): void =>
  void execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path])

const configOf = (folder: string, port: number): string =>
  [
    `Port ${port}`,
    "ListenAddress 127.0.0.1",
    `HostKey ${folder}/host`,
    `AuthorizedKeysFile ${folder}/user.pub`,
    `PidFile ${folder}/pid`,
    "UsePAM no",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "PermitRootLogin prohibit-password",
    "UseDNS no",
    // The keys lie below a folder that everybody may write to.
    "StrictModes no",
    ""
  ].join("\n")

export interface SshServer {
  readonly host: RemoteHost
  /** A folder that nothing else uses. */
  readonly folder: string
  readonly stop: Effect.Effect<void>
}

/** Starts the server for the scope. */
export const sshServer = Effect.gen(function* () {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-sshd-"))),
    (path) => Effect.sync(() => Files.rmSync(path, { recursive: true, force: true }))
  )
  const port = yield* freePort
  makeKey(Path.join(folder, "host"))
  makeKey(Path.join(folder, "user"))
  Files.writeFileSync(Path.join(folder, "config"), configOf(folder, port))
  if (process.getuid?.() === 0) Files.mkdirSync("/run/sshd", { recursive: true, mode: 0o755 })
  const server = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(program, ["-D", "-f", `${folder}/config`, "-E", `${folder}/log`], { stdio: "ignore" })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  yield* waitFor({
    fact: "the server listens",
    look: Effect.sync(() => Files.existsSync(`${folder}/log`) && Files.readFileSync(`${folder}/log`, "utf8")),
    holds: (log) => typeof log === "string" && log.includes("listening"),
    deadlineMillis: 10_000
  })
  const hostKey = Files.readFileSync(`${folder}/host.pub`, "utf8").trim()
  const host: RemoteHost = {
    host: "127.0.0.1",
    port,
    username: Os.userInfo().username,
    privateKey: Redacted.make(Files.readFileSync(`${folder}/user`, "utf8")),
    knownHosts: `[127.0.0.1]:${port} ${hostKey}\n`,
    strictHostKeyChecking: true
  }
  const stop = Effect.sync(() => void server.kill("SIGKILL"))
  return { host, folder, stop } satisfies SshServer
})
