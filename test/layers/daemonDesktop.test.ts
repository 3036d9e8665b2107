/**
 * The desktop of a daemon as a process, with a real Xvnc in a real guest: a picture, a key that reaches a program, and
 * nothing of it left behind a stop, a rebuild, a deletion, or the daemon that started it. Xvnc is demanded: scripts/setup
 * installs it, and without it these tests fail.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
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

/** What of a desktop runs on the machine, below this home: processes in the cgroups of its guests. */
const serversIn = (place: Place): ReadonlyArray<string> => {
  const sandboxes = readdirSync(join(place.home, "state", "runtime")).filter((name) => name.startsWith("sb-"))
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("Xvnc")) return false
      const groups = readFileSync(`/proc/${pid}/cgroup`, "utf8")
      return sandboxes.some((sandbox) => groups.includes(sandbox))
    } catch {
      // It has ended meanwhile.
      return false
    }
  })
}

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

describe("a desktop", () => {
  it.live(
    "SP-DESK-05 a real display shows more than one colour, and a key that is typed reaches a program in the guest",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const { client } = yield* provisioned(place)
        assert.deepStrictEqual(yield* client.desktop.show({ params }), { state: "none", display: null })
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
        yield* viewer.type("echo typed >/workspace/typed\n")
        yield* waitFor({
          fact: "the terminal has written what was typed",
          look: run(client, "cat typed"),
          holds: ({ text }) => text === "typed",
          everyMillis: 50,
          deadlineMillis: 20_000
        })
        // What is typed and shown is in no row, and its display asks for no connection of its own. Source: FC-21.
        const names = yield* query(
          place,
          "select distinct application_name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
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
        const third = yield* begin
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
        yield* client.desktop.start({ params })
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
