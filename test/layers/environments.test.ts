/**
 * Environments of a daemon as a process, by its command line: one command in a lease of its own, on the machine itself, in a
 * real guest of the node, and through a provider plugin that is a process too; and what is left when a command, its caller
 * or the daemon dies.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import type { ApiClient } from "../../src/infra/http/apiClient.ts"
import type { EnvironmentLeaseView, RunLine } from "../../src/infra/http/environmentViews.ts"
import { awaitReady, makePlace, type Place, startDaemon, startProcess } from "../support/daemonProcess.ts"
import { hasSshServer, sshServer } from "../support/sshd.ts"
import { waitFor } from "../support/waiting.ts"
import { holdfast } from "./cliHarness.ts"

type Client = ApiClient["Service"]

const testMillisMax = 120_000
const waitMillisMax = 30_000
const example = resolve(import.meta.dirname, "../../examples/provider-plugins/bubblewrap")

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "hf-env-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const at =
  (place: Place) =>
  (...args: ReadonlyArray<string>) =>
    holdfast(["--home", place.home, ...args])

/** A verb that must succeed; its output. */
const done =
  (place: Place) =>
  (...args: ReadonlyArray<string>) =>
    Effect.map(at(place)(...args), ({ exit, stderr, stdout }) => {
      assert.strictEqual(exit, 0, `${args.join(" ")}: ${stderr}`)
      return stdout
    })

/** What the plugin's worker has, as it lies on the disk. */
const leasesOfPlugin = (state: string): ReadonlyArray<string> => {
  try {
    return readdirSync(join(state, "leases"))
  } catch {
    return []
  }
}

/** The environments; their names are those of what carries them. */
const environments = Effect.fnUntraced(function* (place: Place) {
  const state = yield* folder
  const ok = done(place)
  if (hasSshServer) yield* remoteHost(place)
  yield* ok("env", "create", "machine", "--driver", "local")
  yield* ok("env", "create", "guests", "--provider", "node")
  yield* ok("provider", "add", example)
  yield* ok("env", "create", "plugin", "--provider", "bubblewrap", "--set", `stateDirectory=${state}`)
  yield* waitFor({
    fact: "the plugin's worker runs",
    look: ok("--json", "provider", "list"),
    holds: (listed) => listed.includes(`"running":true`),
    deadlineMillis: waitMillisMax,
    everyMillis: 50
  })
  return state
})

/** A machine without an SSH server has none of the fourth; test/infra/providers/RemoteHosts.test.ts fails on a build machine. */
const carriers = ["machine", "guests", "plugin", ...(hasSshServer ? ["remote"] : [])]

/** The host's key goes in by standard input and is named by the config. */
const remoteHost = Effect.fnUntraced(function* (place: Place) {
  const { folder: remote, host } = yield* sshServer
  const config = join(remote, "environment.json")
  const { host: name, knownHosts, port, username } = host
  const remoteWorkspacePath = join(remote, "work")
  writeFileSync(config, JSON.stringify({ host: name, port, username, knownHosts, remoteWorkspacePath }))
  const key = { stdin: Redacted.value(host.privateKey) }
  const set = yield* holdfast(["--home", place.home, "secret", "set", "host-key"], key)
  assert.strictEqual(set.exit, 0, set.stderr)
  const secret = ["--secret", "privateKeySecretRef=host-key"]
  yield* done(place)("env", "create", "remote", "--driver", "ssh", "--config", config, ...secret)
})

const newest = (client: Client) =>
  Effect.map(
    client.environmentLeases.list({ query: {} }),
    (leases): EnvironmentLeaseView | undefined => leases[0]
  )

/**
 * Starts a command that does not end by itself, and answers its fiber once it runs. It says enough for a carrier that holds
 * the newest bytes back until it knows that they are no mark of its own.
 */
const running = Effect.fnUntraced(function* (client: Client, environment: string) {
  const lines: Array<RunLine> = []
  const payload = {
    environment,
    argv: ["sh", "-c", "yes ready | head -n 500; exec sleep 600"] as const,
    variables: {}
  }
  const fiber = yield* client.runs
    .run({ payload })
    .pipe(
      Effect.flatMap(Stream.runForEach((line) => Effect.sync(() => void lines.push(line)))),
      Effect.forkScoped
    )
  yield* waitFor({
    fact: `the command runs in ${environment}`,
    look: Effect.sync(() => lines.some(({ type }) => type === "output")),
    holds: (runs) => runs,
    deadlineMillis: waitMillisMax,
    everyMillis: 20
  })
  return fiber
})

describe("environments of a daemon", () => {
  it.live(
    "one line runs a command in a lease of its own: local, a guest of the node, a plugin's process, a host over SSH",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        const state = yield* environments(place)
        const workspace = yield* folder
        mkdirSync(join(workspace, "deep"))
        writeFileSync(join(workspace, "deep", "file"), "brought along\n")
        for (const environment of carriers) {
          const ran = yield* at(place)(
            "run",
            environment,
            "--workspace",
            workspace,
            "-e",
            "WORD=said",
            "--",
            "sh",
            "-c",
            'cat deep/file; echo "$WORD" >&2; exit 7'
          )
          assert.deepStrictEqual(ran, { exit: 7, stdout: "brought along\n", stderr: "said\n" }, environment)
          const lease = yield* newest(client)
          const status = ["machine", "remote"].includes(environment) ? "released" : "expired"
          assert.deepInclude(lease, { status, cleanupStatus: "success", endedBy: "run" }, environment)
          const killed = yield* at(place)("run", environment, "--", "sh", "-c", "kill -KILL $$")
          assert.strictEqual(killed.exit, 137, environment)
        }
        assert.deepStrictEqual(leasesOfPlugin(state), [])
        const query = { environment: "plugin" }
        const [ofPlugin] = yield* client.environmentLeases.list({ query })
        const why = yield* done(place)("lease", "why", ofPlugin?.id ?? "")
        assert.match(why, /acquired[^]*run[^]*ended[^]*receipt names this resource as destroyed/)
        const { checks } = yield* client.system.health()
        assert.include(checks.find(({ name }) => name === "registry")?.detail ?? "", "0 of ")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "whoever hangs up ends the command and the lease, and nothing is left at the provider",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        const state = yield* environments(place)
        for (const environment of carriers) {
          const command = yield* running(client, environment)
          assert.strictEqual((yield* newest(client))?.status, "active", environment)
          yield* Fiber.interrupt(command)
          const lease = yield* waitFor({
            fact: `the lease of ${environment} is over`,
            look: newest(client),
            holds: (seen) => seen?.status !== "active" && seen?.status !== "pending_cleanup",
            deadlineMillis: waitMillisMax,
            everyMillis: 20
          })
          assert.strictEqual(lease?.cleanupStatus, "success", environment)
          yield* waitFor({
            fact: "the run is cancelled",
            look: done(place)("lease", "why", lease?.id ?? ""),
            holds: (why) => why.includes("the run is cancelled"),
            deadlineMillis: waitMillisMax,
            everyMillis: 20
          })
        }
        assert.deepStrictEqual(leasesOfPlugin(state), [])
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "FC-02 a daemon killed in the middle of runs: the next one ends every lease with a reason, and nothing is left",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const daemon = yield* startDaemon(place)
        const first = yield* awaitReady(place, daemon)
        const state = yield* environments(place)
        const commands = yield* Effect.forEach(carriers, (environment) => running(first, environment))
        daemon.process.kill("SIGKILL")
        assert.strictEqual(yield* daemon.ended, "SIGKILL")
        yield* Effect.forEach(commands, Fiber.await)
        const client = yield* awaitReady(place, yield* startDaemon(place))
        const leases = yield* waitFor({
          fact: "every lease is over",
          look: client.environmentLeases.list({ query: {} }),
          holds: (seen) => seen.every(({ status }) => status !== "active" && status !== "pending_cleanup"),
          deadlineMillis: waitMillisMax,
          everyMillis: 50
        })
        assert.lengthOf(leases, carriers.length)
        for (const lease of leases) {
          assert.deepInclude(lease, {
            cleanupStatus: "success",
            endedBy: "recovery",
            failureReason: "daemon_died"
          })
        }
        assert.deepStrictEqual(leasesOfPlugin(state), [])
        const { checks } = yield* client.system.health()
        assert.include(checks.find(({ name }) => name === "registry")?.detail ?? "", "0 of ")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "Ctrl-C at the command line ends the command and the lease, and the process says that it was interrupted",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        yield* done(place)("env", "create", "guests", "--provider", "node")
        const command = ["--", "sh", "-c", "echo ready; exec sleep 600"]
        const run = yield* startProcess(["--home", place.home, "run", "guests", ...command], undefined)
        yield* waitFor({
          fact: "the command runs",
          look: Effect.sync(run.output),
          holds: (output) => output.includes("ready"),
          deadlineMillis: waitMillisMax,
          everyMillis: 20
        })
        run.process.kill("SIGINT")
        assert.strictEqual(yield* run.ended, 130)
        const lease = yield* waitFor({
          fact: "the lease is over",
          look: newest(client),
          holds: (seen) => seen?.status === "expired",
          deadlineMillis: waitMillisMax,
          everyMillis: 20
        })
        assert.strictEqual(lease?.cleanupStatus, "success")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "a plugin is checked without a daemon: 0 for one that does as it should, 1 for one that does not",
    () =>
      Effect.gen(function* () {
        const place = { home: "/nowhere", databaseUrl: "" }
        const state = yield* folder
        const config = join(state, "config.json")
        writeFileSync(config, JSON.stringify({ stateDirectory: state, apiKey: "canary-of-the-config" }))
        const good = yield* at(place)("provider", "check", example, "--config", config)
        assert.strictEqual(good.exit, 0, good.stdout)
        assert.notInclude(good.stdout, "FAILED")
        const scripted = resolve(example, "../scripted")
        const lie = { fault: "lie", receipt: { providerLeaseId: "another", state: "destroyed" } }
        const faults = { environmentDestroyLease: Array.from({ length: 40 }, () => lie) }
        writeFileSync(join(state, "faults.json"), JSON.stringify(faults))
        const bad = yield* at(place)("--json", "provider", "check", scripted, "--config", config)
        assert.strictEqual(bad.exit, 1)
        assert.include(bad.stdout, `"_tag":"Failed"`)
        assert.notInclude(bad.stdout, "canary")
        const none = yield* at(place)("provider", "check", state)
        assert.strictEqual(none.exit, 1)
        assert.include(none.stderr, "plugin_folder_refused")
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
