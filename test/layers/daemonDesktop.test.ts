/**
 * The desktop of a daemon as a process, with a real Xvnc in a real guest: a picture, a key that reaches a program, and
 * nothing of it left behind a stop, a rebuild, a deletion, or the daemon that started it. Xvnc is demanded: scripts/setup
 * installs it, and without it these tests fail.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { request } from "node:http"
import { basename, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { RequestKey } from "../../src/domain/Identity.ts"
import type { ApiClient } from "../../src/infra/http/apiClient.ts"
import { desktopChannel } from "../../src/infra/http/desktopClient.ts"
import type { OperationView } from "../../src/infra/http/Views.ts"
import { socketPathOf } from "../../src/layers/config.ts"
import { awaitReady, makePlace, type Place, startDaemon } from "../support/daemonProcess.ts"
import { outcomeOf } from "../support/executionOutcome.ts"
import { coloursOf, openViewer } from "../support/rfb.ts"
import { waitFor } from "../support/waiting.ts"

type Client = ApiClient["Service"]

const testMillisMax = 180_000
const params = { project: "web" }

const settled = (client: Client, operation: OperationView) =>
  client.operations.get({ params: { id: operation.id } }).pipe(
    Effect.repeat({
      until: ({ state }) => state !== "queued" && state !== "claimed",
      schedule: Schedule.spaced(25)
    }),
    Effect.timeout(testMillisMax / 4)
  )

const ask = Effect.fnUntraced(function* (client: Client, action: "provision" | "rebuild" | "stop") {
  const parameters = action === "provision" ? { parameters: { cpuMillis: 1_000, memoryMebibytes: 512 } } : {}
  const payload = { action, requestId: RequestKey.make(action), ...parameters }
  const done = yield* settled(client, yield* client.operations.request({ params, payload }))
  assert.strictEqual(done.state, "succeeded", done.error?.message ?? "")
})

const provisioned = Effect.fnUntraced(function* (place: Place) {
  const daemon = yield* startDaemon(place)
  const client = yield* awaitReady(place, daemon)
  yield* client.projects.create({ payload: { name: "web" } })
  yield* ask(client, "provision")
  return { client, daemon }
})

const run = (client: Client, script: string) =>
  Effect.flatMap(
    client.executions.run({ params, payload: { argv: ["/bin/sh", "-c", script], environment: {} } }),
    outcomeOf
  )

const channelOf = (place: Place) => desktopChannel(socketPathOf(place.home), "web")

/** Every Xvnc of the machine that sees a workspace below this home. */
const serversIn = (place: Place): ReadonlyArray<string> =>
  readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return (
        readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("Xvnc") &&
        readFileSync(`/proc/${pid}/mountinfo`, "utf8").includes(`/${basename(place.home)}/`)
      )
    } catch {
      // It has ended meanwhile.
      return false
    }
  })

const noServer = (place: Place) =>
  waitFor({
    fact: "no Xvnc is left",
    look: Effect.sync(() => serversIn(place)),
    holds: (left) => left.length === 0
  })

const query = (place: Place, text: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const url = new URL(place.databaseUrl)
      const connection = yield* PgConnection.make({
        host: url.searchParams.get("host")!,
        username: url.searchParams.get("user")!,
        database: url.pathname.slice(1),
        applicationName: "looking on"
      })
      return yield* connection.query(text, [], false)
    })
  )

const canary = "typed.by.a.viewer"
const secret = "secret-of-a-launch"

/** The environment of what runs on the desktop, as the guest sees it. */
const environmentsOfDesktop = `for process in /proc/[0-9]*; do
  case $(cat $process/comm) in xterm | X*) tr '\\0' '\\n' <$process/environ ;; esac
done`

/** Tables of every schema of ours that have the text in any column of any row. */
const tablesWith = (place: Place, text: string) =>
  Effect.gen(function* () {
    const tables = yield* query(
      place,
      "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('core', 'plugin_sandbox')"
    )
    assert.isAbove(tables.rows.length, 10)
    const found: Array<unknown> = []
    for (const { name } of tables.rows) {
      const rows = yield* query(place, `select 1 from ${name} t where strpos(t::text, '${text}') > 0`)
      if (rows.rows.length > 0) found.push(name)
    }
    return found
  })

/** Answers whether this machine can lead ports out; where it cannot, a desktop is refused by name. */
const canHaveDesktops = (client: Client) =>
  Effect.gen(function* () {
    if (process.getuid?.() === 0) return true
    assert.deepInclude(yield* Effect.flip(client.desktop.start({ params })), { code: "desktop_unavailable" })
    return false
  })

/** Status of the answer to a request for the channel that is no handshake, or one that is refused. */
const channelStatus = (place: Place, headers: Readonly<Record<string, string>>) =>
  Effect.callback<number>((resume) => {
    const asked = request({
      socketPath: socketPathOf(place.home),
      path: "/projects/web/desktop/channel",
      headers
    })
    asked.on("response", (response) => {
      response.resume()
      resume(Effect.succeed(response.statusCode ?? 0))
    })
    asked.end()
    return Effect.sync(() => asked.destroy())
  })

const handshake = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="
}

describe("a desktop", () => {
  it.live(
    "SP-DESK-05 SP-DESK-01 FC-21 a real display shows colours, a key reaches a program, and nothing of it is written",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        writeFileSync(join(place.home, "credentials.json"), JSON.stringify({ "*": { TOKEN: secret } }), {
          mode: 0o600
        })
        const { client, daemon } = yield* provisioned(place)
        if (!(yield* canHaveDesktops(client))) return
        assert.deepStrictEqual(yield* client.desktop.show({ params }), { state: "none", display: null })
        assert.strictEqual(yield* channelStatus(place, {}), 400)
        assert.strictEqual(yield* channelStatus(place, handshake), 409)
        const started = yield* client.desktop.start({ params })
        assert.deepInclude(started, { state: "ready" })
        assert.deepStrictEqual([started.display?.name, started.display?.viewers], [":1", 0])
        const viewer = yield* openViewer(yield* channelOf(place))
        assert.deepStrictEqual([viewer.width, viewer.height], [1280, 800])
        yield* waitFor({
          fact: "a frame with more than one colour",
          look: viewer.picture,
          holds: (picture) => coloursOf(picture).size > 1,
          everyMillis: 50,
          deadlineMillis: 20_000
        })
        assert.strictEqual((yield* client.desktop.show({ params })).display?.viewers, 1)
        yield* viewer.pointAt(100, 100)
        yield* viewer.type(`echo ${canary} >typed\n`)
        yield* waitFor({
          fact: "the terminal has written what was typed",
          look: run(client, "cat typed"),
          holds: ({ text }) => text === canary,
          everyMillis: 50,
          deadlineMillis: 20_000
        })
        const own = yield* run(client, environmentsOfDesktop)
        assert.include(own.text, "DISPLAY=:1")
        // A picture cannot be redacted, so nothing on the desktop is handed a credential.
        assert.notInclude(own.text, secret)
        for (const needle of [canary, secret]) {
          assert.notInclude(daemon.output(), needle)
          assert.deepStrictEqual(yield* tablesWith(place, needle), [])
        }
        const names = yield* query(
          place,
          "select distinct application_name from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and application_name <> 'looking on'"
        )
        assert.deepStrictEqual(names.rows, [{ application_name: "holdfast" }])
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "SP-DESK-04 SP-DEL-10 a stop, a rebuild and a deletion end the desktop, its viewer and its processes",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const { client } = yield* provisioned(place)
        if (!(yield* canHaveDesktops(client))) return
        const ended = Effect.gen(function* () {
          yield* noServer(place)
          assert.deepStrictEqual(yield* client.desktop.show({ params }), { state: "none", display: null })
          assert.deepStrictEqual(yield* client.leases.list({ params }), [])
        })
        const begin = Effect.gen(function* () {
          const { display } = yield* client.desktop.start({ params })
          const { pull } = yield* (yield* channelOf(place)).reader
          yield* pull
          assert.lengthOf(serversIn(place), 1)
          return { display, closed: Effect.exit(Effect.forever(pull)) }
        })
        const first = yield* begin
        // The same desktop is answered again.
        assert.strictEqual(
          (yield* client.desktop.start({ params })).display?.execution,
          first.display?.execution
        )
        yield* client.desktop.stop({ params })
        yield* first.closed
        yield* ended
        const second = yield* begin
        yield* ask(client, "rebuild")
        yield* second.closed
        yield* ended
        yield* run(client, "printf '#!/bin/sh\\necho $DISPLAY >session\\n' >.xsession && chmod +x .xsession")
        const third = yield* begin
        yield* waitFor({
          fact: "the workspace's own session has begun",
          look: run(client, "cat session"),
          holds: ({ text }) => text === ":1",
          everyMillis: 50
        })
        assert.strictEqual(third.display?.generation, 2)
        const { paths } = yield* client.projects.previewDeletion({ params })
        yield* client.projects.delete({ params, payload: { confirmedPaths: paths } })
        yield* third.closed
        yield* noServer(place)
        for (const path of paths.filter((path) => path.includes("/disks/")))
          assert.isFalse(existsSync(path), path)
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "SP-DESK-02 a desktop ends with its daemon: behind a graceful end, and when the next daemon looks at the guest",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const { client, daemon } = yield* provisioned(place)
        if (!(yield* canHaveDesktops(client))) return
        yield* client.desktop.start({ params })
        // A viewer that stays holds nobody up.
        const { pull } = yield* (yield* channelOf(place)).reader
        yield* pull
        daemon.process.kill("SIGTERM")
        assert.strictEqual(yield* daemon.ended, 0, daemon.output())
        assert.deepStrictEqual(serversIn(place), [])
        const second = yield* startDaemon(place)
        const again = yield* awaitReady(place, second)
        yield* again.desktop.start({ params })
        second.process.kill("SIGKILL")
        yield* second.ended
        assert.lengthOf(serversIn(place), 1)
        const third = yield* startDaemon(place)
        const last = yield* awaitReady(place, third)
        assert.strictEqual((yield* run(last, "echo on")).text, "on")
        yield* noServer(place)
        assert.deepStrictEqual(yield* last.desktop.show({ params }), { state: "none", display: null })
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
