/** The verbs below `node`, against a node in this process: what they print, send, and end with. */
import { assert, describe, it } from "@effect/vitest"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import { ExecutionEvent } from "../../src/domain/guests/GuestSpec.ts"
import { failNext } from "../../src/infra/guests/scriptedState.ts"
import { failNext as failDisk, sandboxOf } from "../domain/registry/fixture.ts"
import { type ServedNode, serveFresh } from "../infra/http/node/nodeServer.ts"
import { serveScript, temporaryDirectory } from "../infra/http/scriptedServer.ts"
import { holdfast } from "./cliHarness.ts"

const verb = ({ socketPath }: { readonly socketPath: string }, ...args: ReadonlyArray<string>) => {
  const end = args.indexOf("--")
  const [own, rest] = end === -1 ? [args, []] : [args.slice(0, end), args.slice(end)]
  return holdfast(["node", ...own, "--socket", socketPath, ...rest])
}

const create = (served: ServedNode, ...args: ReadonlyArray<string>) =>
  Effect.map(verb(served, "create", "--cpu", "0.1", "--memory", "128Mi", ...args), (ran) => {
    assert.strictEqual(ran.exit, 0, ran.stderr)
    return ran.stdout.trim()
  })

const verbs = [
  "up",
  "ready",
  "create",
  "list",
  "inspect",
  "exec",
  "endpoint",
  "pause",
  "resume",
  "signal",
  "stop",
  "renew",
  "delete",
  "why"
]

describe("holdfast node", () => {
  it.live.each(verbs)("%s has its help", (name) =>
    Effect.gen(function* () {
      const ran = yield* holdfast(["node", name, "--help"])
      assert.strictEqual(ran.exit, 0)
      assert.include(ran.stdout, `holdfast node ${name}`)
      assert.include(ran.stdout, "--json")
    })
  )

  it.live("each end of a verb has its own exit code", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      yield* served.settle
      const sandbox = yield* create(served, "--", "/bin/sleep", "60")
      const nobody = { socketPath: `${yield* temporaryDirectory}/none.sock` }
      const never = sandboxOf(99)
      const table: ReadonlyArray<readonly [{ readonly socketPath: string }, ReadonlyArray<string>, number]> =
        [
          [served, ["ready"], 0],
          [served, ["list"], 0],
          [served, ["inspect", sandbox], 0],
          [served, ["why", sandbox], 0],
          [served, ["endpoint", sandbox, "80"], 0],
          [served, ["endpoint", sandbox, "0"], 1],
          [served, ["pause", sandbox], 0],
          [served, ["exec", sandbox, "--", "true"], 255],
          [served, ["signal", sandbox, "TERM"], 5],
          [served, ["signal", sandbox, "WALK"], 2],
          [served, ["resume", sandbox], 0],
          [served, ["renew", sandbox, "--life", "86400"], 0],
          [served, ["renew", sandbox, "--life", "86401"], 1],
          [served, ["create", "--memory", "0"], 1],
          [served, ["create", "--request-id", "a b"], 2],
          [served, ["stop", sandbox, "--grace", "61"], 2],
          [served, ["stop", sandbox, "--grace", "0"], 0],
          [served, ["pause", sandbox], 5],
          [served, ["inspect", never], 4],
          [served, ["delete", never], 4],
          [served, ["inspect", "web"], 2],
          [served, ["delete"], 2],
          [served, ["delete", sandbox], 0],
          [served, ["delete", sandbox], 0],
          [served, ["why", sandbox], 0],
          [served, ["inspect", sandbox], 4],
          [nobody, ["list"], 3],
          [nobody, ["ready"], 3]
        ]
      for (const [place, args, exit] of table) {
        const ran = yield* verb(place, ...args)
        assert.strictEqual(ran.exit, exit, `${args.join(" ")}\n${ran.stderr}`)
        if (exit !== 0) assert.strictEqual(ran.stdout, "", args.join(" "))
      }
    })
  )

  it.live("create prints the id alone, and the key before it asks; the same key prints the same id", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const first = yield* verb(served, "create", "--request-id", "k")
      assert.match(first.stdout, /^sb-[0-9a-f-]{36}\n$/)
      assert.strictEqual(first.stderr, "request k\n")
      assert.strictEqual((yield* verb(served, "create", "--request-id", "k")).stdout, first.stdout)
      const other = yield* verb(served, "create", "--request-id", "k", "--cpu", "2", "--json")
      assert.deepInclude(JSON.parse(other.stderr).error, { code: "IDEMPOTENCY_CONFLICT" })
      assert.strictEqual(other.exit, 5)
      const drawn = yield* verb(served, "create")
      assert.match(drawn.stderr, /^request [0-9a-f-]{36}\n$/)
      assert.notStrictEqual(drawn.stdout, first.stdout)
    })
  )

  it.live("create sends what its flags say, secrets by a file, and prints none of their values", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const file = Path.join(yield* temporaryDirectory, "env")
      Files.writeFileSync(file, "# ours\n\nTOKEN=canary=1\n")
      const flags =
        `--cpu 1500m --memory 1.5Gi --processes 64 --life 120 --env A=1 --env B=x=y --metadata team=x --env-file ${file}`.split(
          " "
        )
      const made = yield* verb(served, "create", "--json", ...flags, "--", "/bin/sh", "-c", "sleep --help")
      const view = JSON.parse(made.stdout)
      assert.deepInclude(view, {
        argv: ["/bin/sh", "-c", "sleep --help"],
        environment: ["A", "B", "TOKEN"],
        metadata: { team: "x" },
        cpuMillis: 1_500,
        memoryBytes: 1_610_612_736,
        processesMax: 64
      })
      const [record] = (yield* served.node.registry.inventory).values()
      assert.deepStrictEqual({ ...record!.environment }, { A: "1", B: "x=y", TOKEN: "canary=1" })
      const shown = yield* verb(served, "inspect", view.sandbox)
      assert.include(shown.stdout, "A B TOKEN")
      assert.notInclude(made.stdout + made.stderr + shown.stdout, "canary")
      Files.writeFileSync(file, "A=1\ncanary\n")
      const refused = yield* verb(served, "create", "--env-file", file)
      assert.strictEqual(refused.exit, 2)
      assert.include(refused.stderr, "line 2")
      assert.notInclude(refused.stderr, "canary")
    })
  )

  it.live("exec streams the command and ends with its exit code", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const sandbox = yield* create(served)
      served.node.guests.commandScript = (_, { argv, environment }) =>
        Effect.succeed([
          ExecutionEvent.cases.Output.make({
            stream: "stdout",
            bytes: new TextEncoder().encode(`${argv.join(" ")} ${environment["A"]}\n`)
          }),
          ExecutionEvent.cases.Exited.make({ exitCode: 7, ended: "exited" })
        ])
      const ran = yield* verb(served, "exec", sandbox, "-e", "A=1", "--", "make", "--json", "all")
      assert.deepStrictEqual(ran, { exit: 7, stdout: "make --json all 1\n", stderr: "" })
    })
  )

  it.live("a deletion that waits for its proof is no success, and says what stands in its way", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const sandbox = yield* create(served)
      failNext(served.node.guests, "end")
      const pending = yield* verb(served, "delete", sandbox, "--json")
      assert.strictEqual(pending.exit, 1)
      assert.strictEqual(JSON.parse(pending.stdout).state, "pending")
      assert.deepInclude(JSON.parse(pending.stderr).error, { code: "deletion_pending" })
      const deleted = yield* verb(served, "delete", sandbox)
      assert.match(deleted.stdout, /^proved {2}sb-.*are the recorded ones and empty.*\ndeleted sb-.*\n$/)
    })
  )

  it.live("BX-02 why prints the chain from the request to the proof, a step a line", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const sandbox = yield* create(served, "--request-id", "k-9")
      yield* verb(served, "delete", sandbox)
      const { stdout } = yield* verb(served, "why", sandbox)
      const steps = stdout.split("\n").map((line) => line.split(" ")[0])
      assert.deepStrictEqual(
        steps.filter((step) => step !== "state"),
        "STEP request admission intention guest deletion absence tombstone reservation ".split(" ")
      )
      for (const text of ["k-9", "uid:7", "given back"]) assert.include(stdout, text)
    })
  )

  it.live(
    "FC-05 ready tells a node that starts, one that is ready, one whose sweep failed and one whose storage has apart",
    () =>
      Effect.gen(function* () {
        const served = yield* serveFresh()
        const starting = yield* verb(served, "ready")
        assert.strictEqual(starting.exit, 1)
        assert.include(starting.stderr, "(starting)")
        yield* served.settle
        assert.strictEqual((yield* verb(served, "ready")).exit, 0)
        yield* served.note({ sweep: "sandboxes", attempted: 3, done: 0, failed: 3, why: null })
        const degraded = yield* verb(served, "ready")
        assert.strictEqual(degraded.exit, 1)
        assert.include(degraded.stderr, "(degraded)")
        assert.include(degraded.stderr, "the sweep of sandboxes: attempted 3, done 0, failed 3")
        failDisk(served.node.disk, "sync")
        yield* verb(served, "create")
        const failed = yield* verb(served, "ready")
        assert.strictEqual(failed.exit, 1)
        assert.include(failed.stderr, "(storage_failed)")
      })
  )

  it.live("a daemon that does not know the node's API is told as one that cannot be understood", () =>
    Effect.gen(function* () {
      const socketPath = yield* serveScript()
      const ran = yield* verb({ socketPath }, "list")
      assert.deepStrictEqual([ran.exit, ran.stdout], [4, ""])
      assert.isNotEmpty(ran.stderr)
    })
  )
})
