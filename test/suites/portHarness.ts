/**
 * Help for tests of ports: a guest that serves one, what comes out of a socket, the bridges of a guest, and processes
 * that stand where a bridge should.
 */
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import * as Files from "node:fs"
import { connect, createServer } from "node:net"
import * as Path from "node:path"
import type { GuestIdentity } from "../../src/domain/guests/GuestSupervisor.ts"
import type { GuestSpec } from "../../src/domain/guests/GuestSpec.ts"
import { eventually, GuestSupervisor, makeSpec, processesOf, withGuest } from "./guestHarness.ts"

export const drawToken = (): string => randomBytes(32).toString("hex")

/** Everything that comes out of the socket until its end; an empty text where nobody answers. */
export const readAll = (path: string): Effect.Effect<string> =>
  Effect.callback<string>((resume) => {
    const socket = connect({ path })
    let text = ""
    socket.setEncoding("utf8")
    socket.on("data", (part: string) => (text += part))
    socket.on("error", () => undefined)
    socket.on("close", () => resume(Effect.succeed(text)))
    return Effect.sync(() => socket.destroy())
  })

/** A guest whose loopback answers at the port with a text, by a server of the image. */
export const servingGuest = (port: number, text: string) =>
  makeSpec({
    argv: ["socat", `TCP4-LISTEN:${port},bind=127.0.0.1,fork,reuseaddr`, `SYSTEM:printf ${text}`],
    processesMax: 32
  })

export const answered = (path: string, text: string) =>
  eventually(
    "the port answers",
    Effect.map(readAll(path), (seen) => seen === text)
  )

/** The listeners of the guest's ports; the processes of their connections are of the same sessions. */
export const bridgesOf = (identity: GuestIdentity): ReadonlyArray<number> =>
  processesOf(identity).filter((pid) => {
    try {
      const session = Files.readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")[5]
      return session === String(pid) && Files.readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("socat")
    } catch {
      // It has ended meanwhile: one of a connection.
      return false
    }
  })

export const killBridges = (identity: GuestIdentity) =>
  Effect.gen(function* () {
    for (const pid of bridgesOf(identity)) process.kill(pid, "SIGKILL")
    yield* eventually(
      "the bridges are gone",
      Effect.sync(() => bridgesOf(identity).length === 0)
    )
  })

/** A foreign process of the host that listens at the path and answers everything with the same line. */
export const impostor = (path: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      Files.rmSync(path, { force: true })
      const asked: Array<string> = []
      const server = createServer((socket) => {
        socket.on("error", () => undefined)
        socket.on("data", (part) => {
          asked.push(part.toString())
          socket.end(`${"0".repeat(64)}\n`)
        })
      })
      server.listen(path)
      await once(server, "listening")
      return { asked, server }
    }),
    ({ server }) => Effect.sync(() => server.close())
  )

/** A process in the guest's network that listens by the name of a bridge. */
export const namesake = (
  identity: GuestIdentity,
  {
    directory,
    isMember,
    name
  }: { readonly name: string; readonly directory: string; readonly isMember: boolean }
) =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const network = `--net=/proc/${identity.init.pid}/ns/net`
      const words = [network, "socat", `UNIX-LISTEN:${name},fork,unlink-early`, "TCP4:127.0.0.1:9"]
      const started = spawn("nsenter", words, { cwd: directory, stdio: "ignore" })
      const listeners = () => Files.readFileSync(`/proc/${identity.init.pid}/net/unix`, "utf8")
      yield* eventually(
        "the namesake listens",
        Effect.sync(() => listeners().includes(` ${name}\n`))
      )
      for (const { path } of isMember ? identity.groups : []) {
        Files.writeFileSync(Path.join(path, "cgroup.procs"), String(started.pid))
      }
      return started
    }),
    (started) => Effect.sync(() => started.kill("SIGKILL"))
  )

/** A guest with one port led out, for the time of the use. */
export const withOpenPort = <A, E, R>(
  { port, spec }: { readonly spec: GuestSpec; readonly port: number },
  use: (opened: {
    readonly identity: GuestIdentity
    readonly path: string
    readonly token: string
    /** Asks for the same port again. */
    readonly again: ReturnType<GuestSupervisor["Service"]["openPort"]>
  }) => Effect.Effect<A, E, R>
) =>
  withGuest(spec, (identity) =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const token = drawToken()
      const again = supervisor.openPort(spec.sandbox, { port, token })
      return yield* use({ identity, path: yield* again, token, again })
    })
  )
