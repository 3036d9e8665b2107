/** The verbs `ops`, `leases` and `history`: what they print, send, and end with. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Generation, OperationId } from "../../src/domain/Identity.ts"
import { Conflict } from "../../src/infra/http/ApiErrors.ts"
import type { ExecutionView, HistoryView } from "../../src/infra/http/Views.ts"
import { statusLines } from "../../src/layers/cli/status.ts"
import {
  execution,
  operation,
  type Script,
  serveScript,
  statusOfWeb,
  temporaryDirectory,
  uuid
} from "../infra/http/scriptedServer.ts"
import { holdfast } from "./cliHarness.ts"

const id = operation().id
const node = "node build-7, which carries its machine and which was last seen at 2026-11-30T20:00:00.000Z"
const waiting = { kind: "node", for: node, sinceMillis: 1_000 } as const
const queued = operation({ state: "queued", fraction: 0, settledAtMillis: null, waiting })

const lease: ExecutionView = {
  id: execution,
  generation: Generation.make(1),
  label: "make",
  cancel: "requested",
  admittedAtMillis: 1_000
}

const verb = (socket: string, ...args: ReadonlyArray<string>) => holdfast([...args, "--socket", socket])

const scripted = (script: Partial<Script>, ...args: ReadonlyArray<string>) =>
  Effect.flatMap(serveScript(script), (socket) => verb(socket, ...args))

describe("holdfast ops, leases, history", () => {
  it.live.each([
    "ops list",
    "ops show",
    "ops watch",
    "ops supersede",
    "ops why",
    "leases list",
    "leases cancel",
    "history"
  ])("%s has its help", (words) =>
    Effect.gen(function* () {
      const ran = yield* holdfast([...words.split(" "), "--help"])
      assert.strictEqual(ran.exit, 0)
      assert.include(ran.stdout, `holdfast ${words}`)
      assert.include(ran.stdout, "--json")
    })
  )

  it.live("each end of a verb has its own exit code", () =>
    Effect.gen(function* () {
      const refused = new Conflict({ code: "operation_not_queued", message: "it is claimed", details: {} })
      const failing = operation({ state: "failed", error: { code: "guest_failure", message: "no" } })
      const socket = yield* serveScript({
        supersede: Effect.fail(refused),
        operations: [failing],
        leases: [lease]
      })
      const nobody = `${yield* temporaryDirectory}/none.sock`
      const table: ReadonlyArray<readonly [string, ReadonlyArray<string>, number]> = [
        [socket, ["ops", "list", "web"], 0],
        [socket, ["ops", "show", id], 0],
        [socket, ["ops", "why", id], 0],
        [socket, ["ops", "watch", id], 1],
        [socket, ["ops", "supersede", id], 5],
        [socket, ["ops", "list", "other"], 4],
        [socket, ["leases", "list", "web"], 0],
        [socket, ["leases", "cancel", "web"], 0],
        [socket, ["leases", "cancel", "other"], 4],
        [socket, ["history", "web", "--resolution", "hour"], 0],
        [socket, ["history", "other"], 4],
        [socket, ["ops", "show", "not-an-id"], 2],
        [socket, ["ops", "supersede", "not-an-id"], 2],
        [socket, ["ops"], 2],
        [socket, ["leases"], 2],
        [socket, ["ops", "show"], 2],
        [socket, ["history", "web", "--resolution", "day"], 2],
        [socket, ["history", "web", "--metric", "luck"], 2],
        [socket, ["history", "web", "--from", "yesterday-ish"], 2],
        [nobody, ["ops", "list", "web"], 3],
        [nobody, ["ops", "show", id], 3],
        [nobody, ["leases", "list", "web"], 3]
      ]
      for (const [at, args, exit] of table) {
        assert.strictEqual((yield* verb(at, ...args)).exit, exit, args.join(" "))
      }
    })
  )

  it.live("with --json there is one document on standard output, or one error on standard error", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript({ operations: [queued], leases: [lease] })
      for (const args of [
        ["ops", "list", "web"],
        ["ops", "show", id],
        ["ops", "why", id],
        ["ops", "supersede", id],
        ["leases", "list", "web"],
        ["leases", "cancel", "web"],
        ["history", "web"]
      ]) {
        const ran = yield* verb(socket, ...args, "--json")
        assert.deepStrictEqual([ran.exit, ran.stderr], [0, ""], args.join(" "))
        assert.strictEqual(ran.stdout.trim().split("\n").length, 1)
        JSON.parse(ran.stdout)
      }
      const wrong = yield* verb(socket, "ops", "show", "not-an-id", "--json")
      assert.strictEqual(wrong.stdout, "")
      assert.strictEqual((JSON.parse(wrong.stderr) as { error: { code: string } }).error.code, "usage")
    })
  )

  it.live(
    "FC-06 `ops show`, `ops list` and `status` say what a queued operation waits for, and since when",
    () =>
      Effect.gen(function* () {
        const shown = yield* scripted({ operations: [queued] }, "ops", "show", id)
        assert.match(shown.stdout, /^waits for +node build-7, .*; since \d+ (d|h|min|s) ago$/m)
        const listed = yield* scripted({ operations: [queued] }, "ops", "list", "web")
        assert.include(listed.stdout, `waits for ${node}`)
        const json = yield* scripted({ operations: [queued] }, "ops", "show", id, "--json")
        assert.deepStrictEqual((JSON.parse(json.stdout) as { waiting: unknown }).waiting, waiting)
        const atWork = operation({ state: "claimed", step: "boot", fraction: 0.5, settledAtMillis: null })
        const status = statusLines({ ...statusOfWeb, liveOperation: queued }, 2_000).join("\n")
        assert.match(status, new RegExp(`^waits for +${node}$`, "m"))
        const working = yield* scripted({ operations: [atWork] }, "ops", "show", id)
        assert.notInclude(working.stdout, "waits for")
        assert.match(working.stdout, /^step +boot, 50%$/m)
      })
  )

  it.live("FC-06 FC-22 `ops supersede` tells what was taken back, and `ops show` by whom", () =>
    Effect.gen(function* () {
      const ran = yield* scripted({}, "ops", "supersede", id)
      assert.deepStrictEqual([ran.exit, ran.stdout], [0, `superseded provision: operation ${id}\n`])
      const taken = operation({ state: "superseded", supersededBy: uuid(1) })
      const shown = yield* scripted({ operations: [taken] }, "ops", "show", id)
      assert.match(shown.stdout, new RegExp(`^superseded +by ${uuid(1)}$`, "m"))
    })
  )

  it.live("FC-06 `ops supersede` says that it is only asked for where a node holds it that is not seen", () =>
    Effect.gen(function* () {
      const marked = operation({ state: "claimed", supersedeAskedBy: uuid(1), settledAtMillis: null })
      const ran = yield* scripted({ supersede: Effect.succeed(marked) }, "ops", "supersede", id)
      assert.strictEqual(ran.exit, 0)
      assert.include(
        ran.stdout,
        `asked to take back provision: operation ${id} is held by a node that is not seen`
      )
      const shown = yield* scripted({ operations: [marked] }, "ops", "show", id)
      assert.match(shown.stdout, new RegExp(`^taken back +asked for by ${uuid(1)}$`, "m"))
      assert.notMatch(shown.stdout, /^superseded/m)
    })
  )

  it.live("every page of a Project's operations is listed, each receipt once", () =>
    Effect.gen(function* () {
      const operations = [1, 2, 3].map((last) => operation({ id: OperationId.make(uuid(last)) }))
      const ran = yield* scripted({ operations }, "ops", "list", "web", "--json")
      assert.deepStrictEqual(
        (JSON.parse(ran.stdout) as ReadonlyArray<{ id: string }>).map((each) => each.id),
        operations.map((each) => each.id)
      )
    })
  )

  it.live("`ops watch` follows the events of one that lives to its end", () =>
    Effect.gen(function* () {
      const live = operation({ state: "claimed", step: "image", fraction: 0.1, settledAtMillis: null })
      const ran = yield* scripted({ operations: [live] }, "ops", "watch", id)
      assert.deepStrictEqual([ran.exit, ran.stdout], [0, `provision succeeded: operation ${id}\n`])
      assert.include(ran.stderr, "50% provision: boot\n")
      const settled = yield* scripted({ events: Stream.die("not to be opened") }, "ops", "watch", id)
      assert.strictEqual(settled.exit, 0)
    })
  )

  it.live("BX-02 `ops why` prints the chain, unknown times and actors as such", () =>
    Effect.gen(function* () {
      const ran = yield* scripted({}, "ops", "why", id)
      assert.match(ran.stdout, /^request +1970-01-01T00:00:01.000Z +\S+ +start of project 7$/m)
      assert.match(ran.stdout, /^end +- +- +it has not ended$/m)
    })
  )

  it.live("`leases` prints what runs and what was asked to end; nothing is told as nothing", () =>
    Effect.gen(function* () {
      const listed = yield* scripted({ leases: [lease] }, "leases", "list", "web")
      assert.match(listed.stdout, new RegExp(`^${execution} +make +1 +.* ago +requested$`, "m"))
      const cancelled = yield* scripted({ leases: [lease] }, "leases", "cancel", "web")
      assert.strictEqual(cancelled.stdout, `asked make to end: execution ${execution}\n`)
      assert.strictEqual((yield* scripted({}, "leases", "cancel", "web")).stdout, "nothing runs\n")
    })
  )

  it.live("the flags of `history` reach the request: moments as ISO 8601 or milliseconds", () =>
    Effect.gen(function* () {
      const sent: Array<object> = []
      const bucket = { bucketMillis: 60_000, minimum: 1, maximum: 3, total: 4n, samples: 2 }
      const answer: HistoryView = { metrics: [{ metric: "pids", minutes: [bucket], hours: [] }] }
      const socket = yield* serveScript({
        history: (query) => {
          sent.push(query)
          return answer
        }
      })
      yield* verb(socket, "history", "web")
      yield* verb(socket, "history", "web", "--metric", "pids", "--resolution", "hour")
      const ran = yield* verb(socket, "history", "web", "--from", "1970-01-01T00:01:00Z", "--to", "120000")
      assert.deepStrictEqual<ReadonlyArray<object>>(sent, [
        {},
        { metric: "pids", resolution: "hour" },
        { resolution: "minute", fromMillis: 60_000, toMillis: 120_000 }
      ])
      assert.match(ran.stdout, /^pids +1970-01-01T00:01:00.000Z +pids 1 +pids 2 +pids 3 +2$/m)
    })
  )
})
