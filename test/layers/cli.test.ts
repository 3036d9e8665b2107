import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import { runtimeView } from "../../src/infra/http/present.ts"
import { statusLines } from "../../src/layers/cli/status.ts"
import {
  deletionOfWeb,
  operation,
  serveScript,
  statusOfWeb,
  temporaryDirectory,
  uuid
} from "../infra/http/scriptedServer.ts"
import { storedRuntime } from "../infra/http/storedOperation.ts"
import { holdfast } from "./cliHarness.ts"

describe("holdfast", () => {
  it.live("each end of a verb has its own exit code", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const nobody = `${yield* temporaryDirectory}/none.sock`
      const table: ReadonlyArray<readonly [ReadonlyArray<string>, number]> = [
        [["project", "list", "--socket", socket], 0],
        [["status", "web", "--socket", socket], 0],
        [["project", "list", "--socket", nobody], 3],
        [["status", "other", "--socket", socket], 4],
        [["project", "create", "taken", "--socket", socket], 5],
        [["project", "create", "NOT A NAME", "--socket", socket], 1],
        [["nonsense"], 2],
        [["project"], 2],
        [["status"], 2],
        [["provision", "web", "--cpu-millis", "0", "--socket", socket], 2],
        [["provision", "web", "--request-id", "a b", "--socket", socket], 2],
        [["--help"], 0],
        [["exec", "--help"], 0],
        [["--version"], 0]
      ]
      for (const [args, exit] of table) {
        assert.strictEqual((yield* holdfast(args)).exit, exit, args.join(" "))
      }
    })
  )

  it.live("a wrong command line leaves standard output empty", () =>
    Effect.gen(function* () {
      for (const args of [["nonsense"], ["project"], ["status"], ["status", "--json"], ["exec", "web"]]) {
        const ran = yield* holdfast(args)
        assert.strictEqual(ran.stdout, "", args.join(" "))
        assert.notStrictEqual(ran.stderr, "", args.join(" "))
      }
    })
  )

  it.live("with --json there is one document on standard output, or one error on standard error", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const listed = yield* holdfast(["project", "list", "--json", "--socket", socket])
      assert.deepStrictEqual(
        JSON.parse(listed.stdout).map(({ name }: { name: string }) => name),
        ["web", "api"]
      )
      assert.strictEqual(listed.stderr, "")
      const settled = yield* holdfast(["provision", "web", "--json", "--socket", socket])
      assert.strictEqual(JSON.parse(settled.stdout).state, "succeeded")
      assert.strictEqual(settled.stderr, "")
      for (const args of [
        ["status", "other", "--socket", socket],
        ["status"],
        ["project", "list", "--home", "/no"]
      ]) {
        const ran = yield* holdfast([...args, "--json"])
        assert.strictEqual(ran.stdout, "")
        const { error } = JSON.parse(ran.stderr) as { error: { code: string; message: string } }
        assert.deepStrictEqual([typeof error.code, typeof error.message], ["string", "string"])
      }
    })
  )

  describe("waiting", () => {
    const failing = operation({ state: "failed", error: { code: "guest_failure", message: "boot failed" } })

    it.live("a failed receipt is exit code 1 with the receipt's own code", () =>
      Effect.gen(function* () {
        const socket = yield* serveScript({ events: Stream.make(failing) })
        const ran = yield* holdfast(["start", "web", "--socket", socket])
        assert.strictEqual(ran.exit, 1)
        assert.include(ran.stderr, "boot failed (guest_failure)")
        const json = yield* holdfast(["start", "web", "--json", "--socket", socket])
        assert.strictEqual(JSON.parse(json.stdout).state, "failed")
        assert.strictEqual(JSON.parse(json.stderr).error.code, "guest_failure")
      })
    )

    it.live("a stream that ends before the receipt is opened again", () =>
      Effect.gen(function* () {
        const opened = yield* Ref.make(0)
        const first = Stream.make(operation({ state: "claimed", step: "boot", fraction: 0.5 }))
        const events = Stream.unwrap(
          Effect.map(
            Ref.updateAndGet(opened, (count) => count + 1),
            (count) => (count === 1 ? first : Stream.make(operation()))
          )
        )
        const ran = yield* holdfast(["start", "web", "--socket", yield* serveScript({ events })])
        assert.strictEqual(ran.exit, 0)
        assert.strictEqual(yield* Ref.get(opened), 2)
      })
    )

    it.live("--no-wait answers the admitted operation without opening its events", () =>
      Effect.gen(function* () {
        const socket = yield* serveScript({ events: Stream.die("not to be opened") })
        const ran = yield* holdfast(["stop", "web", "--no-wait", "--json", "--socket", socket])
        assert.strictEqual(ran.exit, 0)
        assert.strictEqual(JSON.parse(ran.stdout).state, "queued")
      })
    )

    it.live("progress is a bar on a terminal, lines elsewhere, and never on standard output", () =>
      Effect.gen(function* () {
        const socket = yield* serveScript()
        const drawn = yield* holdfast(["start", "web", "--socket", socket], { stderrIsTerminal: true })
        assert.match(drawn.stderr, /\[#+\.+\] +50%/)
        const plain = yield* holdfast(["start", "web", "--socket", socket])
        assert.include(plain.stderr, "50% provision: boot\n")
        assert.notInclude(plain.stderr, "\r")
        for (const ran of [drawn, plain]) assert.match(ran.stdout, /^started web: [^\n]*\n$/)
      })
    )

    it.live("flags reach the request, and a request id is made when none is given", () =>
      Effect.gen(function* () {
        const sent = yield* Ref.make<ReadonlyArray<Record<string, unknown>>>([])
        const socket = yield* serveScript({
          requestOperation: (payload) =>
            Effect.as(
              Ref.update(sent, (before) => [...before, payload as Record<string, unknown>]),
              operation()
            )
        })
        const machine = ["--image", "host", "--memory-mib", "256", "--adopt-disk", "/srv/site"]
        const provision = ["provision", "web", ...machine, "--request-id", "k"]
        yield* holdfast([...provision, "--expected-generation", "3", "--socket", socket])
        yield* holdfast(["stop", "web", "--socket", socket])
        yield* holdfast(["stop", "web", "--socket", socket])
        const [first, second, third] = yield* Ref.get(sent)
        assert.deepStrictEqual<unknown>(first, {
          action: "provision",
          requestId: "k",
          expectedGeneration: 3,
          parameters: { image: "host", memoryMebibytes: 256, adoptDisk: "/srv/site" }
        })
        assert.notStrictEqual(second!["requestId"], third!["requestId"])
      })
    )
  })

  describe("delete", () => {
    const recording = Effect.gen(function* () {
      const confirmed = yield* Ref.make<ReadonlyArray<string> | undefined>(undefined)
      const socket = yield* serveScript({
        delete: (paths) => Effect.as(Ref.set(confirmed, paths), deletionOfWeb)
      })
      return { confirmed, socket }
    })

    it.live("without a terminal and without --yes nothing is deleted: exit code 2 and a sentence", () =>
      Effect.gen(function* () {
        const { confirmed, socket } = yield* recording
        for (const flags of [[], ["--json"]]) {
          const ran = yield* holdfast(["delete", "web", ...flags, "--socket", socket], {
            stdin: "web\n"
          })
          assert.strictEqual(ran.exit, 2)
          assert.include(ran.stderr, "--yes")
        }
        assert.isUndefined(yield* Ref.get(confirmed))
      })
    )

    it.live("SP-DEL-07 exactly the previewed paths are confirmed; paths and proofs are printed", () =>
      Effect.gen(function* () {
        const { confirmed, socket } = yield* recording
        const ran = yield* holdfast(["delete", "web", "--yes", "--socket", socket])
        assert.strictEqual(ran.exit, 0)
        assert.deepStrictEqual(yield* Ref.get(confirmed), deletionOfWeb.confirmedPaths)
        assert.match(
          ran.stderr,
          /^Deleting project web \(id 7\) proves \d+ sandboxes gone and removes \d+ paths for good:\n/
        )
        for (const path of deletionOfWeb.confirmedPaths) {
          assert.include(ran.stderr, `  ${path}\n`)
          assert.include(ran.stdout, `removed ${path}\n`)
        }
        assert.include(ran.stdout, `proved  ${deletionOfWeb.proofs[0]}\n`)
      })
    )

    it.live("on a terminal only the project's own name confirms", () =>
      Effect.gen(function* () {
        const { confirmed, socket } = yield* recording
        const terminal = { stdinIsTerminal: true, stderrIsTerminal: true }
        const args = ["delete", "web", "--socket", socket]
        for (const stdin of ["y\n", "yes\n", "\n", "webb\n"]) {
          assert.strictEqual((yield* holdfast(args, { ...terminal, stdin })).exit, 1)
          assert.isUndefined(yield* Ref.get(confirmed))
        }
        assert.strictEqual((yield* holdfast(args, { ...terminal, stdin: "web\n" })).exit, 0)
        assert.isDefined(yield* Ref.get(confirmed))
      })
    )

    it.live("a deletion that has not finished is exit code 1 and prints no success", () =>
      Effect.gen(function* () {
        const pending = {
          ...deletionOfWeb,
          state: "pending" as const,
          completedSteps: [],
          failureCode: "disk_failure"
        }
        const socket = yield* serveScript({ delete: () => Effect.succeed(pending) })
        const ran = yield* holdfast(["delete", "web", "--yes", "--socket", socket])
        assert.deepStrictEqual([ran.exit, ran.stdout], [1, ""])
        assert.include(ran.stderr, "disk_failure")
      })
    )
  })

  it.live("status shows figures with their units and unknown ones as unknown", () =>
    Effect.gen(function* () {
      const ran = yield* holdfast(["status", "web", "--socket", yield* serveScript()])
      assert.include(ran.stdout, "memory 2 MiB (stale)")
      assert.include(ran.stdout, "io_read unknown")
      assert.include(ran.stdout, "1 of 32 sandboxes, 0.5 of 4 cpu, 1 GiB of 8 GiB")
      assert.include(ran.stdout, "guest_failure")
    })
  )

  it("status says who carries the guest, and who was asked for where none lives", () => {
    const runtime = runtimeView(storedRuntime(uuid(3)), "unshare")
    const lines = (carriedBy: "unshare" | null) =>
      statusLines({ ...statusOfWeb, runtime: { ...runtime, carriedBy } }, 0).join("\n")
    assert.include(lines("unshare"), `${runtime.sandbox}, carried by unshare, image host`)
    assert.include(lines(null), `${runtime.sandbox}, supervisor auto, image host`)
  })
})
