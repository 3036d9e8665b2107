/** A real OpenSSH server and client. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { type RemoteCommand, RemoteHosts } from "../../../src/domain/runLeases/RemoteHosts.ts"
import { childrenOf } from "../../../src/infra/guests/kernel.ts"
import * as Adapter from "../../../src/infra/providers/RemoteHosts.ts"
import { failureOf } from "../../support/failures.ts"
import { isGone, untilGone } from "../../support/processes.ts"
import { hasSshServer, sshServer } from "../../support/sshd.ts"

const drawLease = (): EnvironmentLeaseId => EnvironmentLeaseId.make(randomUUID())

const shell = (script: string, changes: Partial<RemoteCommand> = {}): RemoteCommand => ({
  lease: drawLease(),
  argv: ["sh", "-c", script],
  workingDirectory: "/tmp",
  environment: {},
  standardInput: null,
  timeoutMillis: 30_000,
  ...changes
})

const noteFolder = (lease: string): string => Path.join(Os.userInfo().homedir, ".holdfast/leases", lease)

/** A command that tells its process and then waits; the deferred has the process. */
const waiting = Effect.fnUntraced(function* (lease: EnvironmentLeaseId) {
  const pid = yield* Deferred.make<number>()
  const command = shell("echo $$; yes | head -n 500; sleep 1000; :", {
    lease,
    logSink: ({ text }) => Deferred.doneUnsafe(pid, Effect.succeed(Number.parseInt(text, 10)))
  })
  return { command, pid: Deferred.await(pid) }
})

it("a build machine has an SSH server", () => {
  assert.isTrue(hasSshServer || process.env["CI"] !== "true", "install the package openssh-server")
})

describe.skipIf(!hasSshServer)("providers/RemoteHosts", () => {
  layer(Adapter.layer, { excludeTestServices: true, timeout: 60_000 })((at) => {
    at.effect(
      "RL-SSH-01 a command has its folder, environment and input, and its output and status come back",
      () =>
        Effect.gen(function* () {
          const hosts = yield* RemoteHosts
          const { folder, host } = yield* sshServer
          const command = shell('pwd; cat; echo "$NAME" >&2; exit 7', {
            workingDirectory: `${folder}/new/folder`,
            environment: { NAME: "it's a 'value'\nof two lines" },
            standardInput: new TextEncoder().encode("typed")
          })
          assert.deepStrictEqual(yield* hosts.run(host, command), {
            exitCode: 7,
            signal: null,
            timedOut: false,
            stdout: `${folder}/new/folder\ntyped`,
            stderr: "it's a 'value'\nof two lines\n"
          })
          assert.isFalse(Files.existsSync(noteFolder(command.lease)))
        })
    )

    at.effect(
      "a status of 255 is the command's own where its marks say so, and words are passed on as they are",
      () =>
        Effect.gen(function* () {
          const hosts = yield* RemoteHosts
          const { host } = yield* sshServer
          assert.strictEqual((yield* hosts.run(host, shell("exit 255"))).exitCode, 255)
          const words = ["a b", "$HOME", "`id`", "'", '"', "\\", "", "*"]
          const { stdout } = yield* hosts.run(host, shell("", { argv: ["printf", "%s|", ...words] }))
          assert.strictEqual(stdout, words.map((word) => `${word}|`).join(""))
          const long = yield* hosts.run(host, shell("yes 0123456789 | head -c 300000"))
          assert.strictEqual(long.stdout.length, 300_000)
        })
    )

    at.effect("nothing of what a command is handed can be read off the process list of the host", () =>
      Effect.gen(function* () {
        const hosts = yield* RemoteHosts
        const { host } = yield* sshServer
        const secret = `canary-${randomUUID()}`
        const { stdout } = yield* hosts.run(
          host,
          shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; test -n \"$TOKEN\" && echo handed", {
            environment: { TOKEN: secret }
          })
        )
        assert.notInclude(stdout, secret)
        assert.include(stdout, "handed")
      })
    )

    at.effect.each([
      ["an unknown host key", "host_key", (host: object) => ({ ...host, knownHosts: "" })],
      [
        "strict checking without known hosts",
        "no_known_hosts",
        (host: object) => ({ ...host, knownHosts: null })
      ],
      [
        "a closed port",
        "unreachable",
        (host: object) => ({ ...host, port: 1, strictHostKeyChecking: false })
      ],
      [
        "a key that is none",
        "key_unusable",
        (host: object) => ({ ...host, privateKey: Redacted.make("no key") })
      ],
      [
        "another user's key",
        "authentication",
        (host: object, other: Redacted.Redacted) => ({ ...host, privateKey: other })
      ]
    ] as const)("%s: nothing is begun, and the refusal says why", ([, why, change]) =>
      Effect.gen(function* () {
        const hosts = yield* RemoteHosts
        const { host } = yield* sshServer
        const other = yield* sshServer
        const refused = yield* Effect.exit(
          hosts.run({ ...host, ...change(host, other.host.privateKey) }, shell("true"))
        )
        assert.deepInclude(failureOf(refused), { code: "remote_host_refused", why })
      })
    )

    at.effect("a folder that cannot be made is refused", () =>
      Effect.gen(function* () {
        const hosts = yield* RemoteHosts
        const { host } = yield* sshServer
        const refused = yield* Effect.exit(
          hosts.run(host, shell("true", { workingDirectory: "/proc/none/here" }))
        )
        assert.deepInclude(failureOf(refused), { why: "folder" })
      })
    )

    at.effect("a command whose time is over has ended at the host when its result comes", () =>
      Effect.gen(function* () {
        const hosts = yield* RemoteHosts
        const { host } = yield* sshServer
        const result = yield* hosts.run(host, shell("echo $$; sleep 1000; :", { timeoutMillis: 1_000 }))
        assert.isTrue(result.timedOut)
        assert.isTrue(isGone(Number.parseInt(result.stdout, 10)))
      })
    )

    at.effect("whoever leaves ends the command at the host", () =>
      Effect.gen(function* () {
        const hosts = yield* RemoteHosts
        const { host } = yield* sshServer
        const { command, pid } = yield* waiting(drawLease())
        const fiber = yield* Effect.forkChild(hosts.run(host, command))
        const process = yield* pid
        assert.isFalse(isGone(process))
        yield* Fiber.interrupt(fiber)
        yield* untilGone(process)
      })
    )

    at.effect("a connection that breaks leaves no status, and ends the command at the host", () =>
      Effect.gen(function* () {
        const hosts = yield* RemoteHosts
        const { host } = yield* sshServer
        const { command, pid } = yield* waiting(drawLease())
        const fiber = yield* Effect.forkChild(Effect.exit(hosts.run(host, command)))
        const remote = yield* pid
        for (const child of childrenOf(process.pid)) {
          if (Files.readFileSync(`/proc/${child}/comm`, "utf8").trim() === "ssh")
            process.kill(child, "SIGKILL")
        }
        assert.deepInclude(failureOf(yield* Fiber.join(fiber)), { code: "remote_outcome_unknown" })
        yield* untilGone(remote)
      })
    )

    at.effect("the end of a lease ends what has escaped from its commands, and forgets its notes", () =>
      Effect.gen(function* () {
        const hosts = yield* RemoteHosts
        const { host } = yield* sshServer
        const lease = drawLease()
        // The shell waits until the other one has left its session.
        const script =
          "setsid sleep 1000 >/dev/null 2>&1 & p=$!; until [ $(ps -o sid= -p $p) = $p ]; do :; done; echo $p"
        const left = Number((yield* hosts.run(host, shell(script, { lease }))).stdout)
        assert.isFalse(isGone(left))
        yield* hosts.endAll(host, lease)
        assert.isTrue(isGone(left))
        assert.isFalse(Files.existsSync(noteFolder(lease)))
        yield* hosts.endAll(host, lease)
      })
    )
  })
})
