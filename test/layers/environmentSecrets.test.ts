/** FC-21 over a whole daemon: a secret's value goes in by one request and out to its provider, and stands nowhere else. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { awaitReady, makePlace, type Place, startDaemon } from "../support/daemonProcess.ts"
import { waitFor } from "../support/waiting.ts"
import { holdfast } from "./cliHarness.ts"

const testMillisMax = 120_000
const example = resolve(import.meta.dirname, "../../examples/provider-plugins/scripted")
const canary = "canary-4711-of-the-provider"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "hf-secret-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** Everything that the database holds, as text. */
const everyRow = ({ databaseUrl }: Place) =>
  Effect.scoped(
    Effect.gen(function* () {
      const connection = yield* PgConnection.make({ url: Redacted.make(databaseUrl) })
      const tables = yield* connection.query(
        `select format('%I.%I', schemaname, tablename) as name from pg_tables
          where schemaname not in ('pg_catalog', 'information_schema')`,
        [],
        false
      )
      const texts = yield* Effect.forEach(tables.rows, (row) =>
        connection.query(`select t::text as text from ${String(row["name"])} t`, [], false)
      )
      return texts.flatMap(({ rows }) => rows.map((row) => String(row["text"]))).join("\n")
    })
  )

describe("secrets of a daemon", () => {
  it.live(
    "FC-21 no answer, log line or row has the value, also where the provider fails, and where it is refused",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const daemon = yield* startDaemon(place)
        const client = yield* awaitReady(place, daemon)
        const state = yield* folder
        const answers: Array<string> = []
        const asked = (args: ReadonlyArray<string>, stdin?: string) =>
          Effect.tap(
            holdfast(["--home", place.home, ...args], stdin === undefined ? {} : { stdin }),
            ({ stderr, stdout }) => Effect.sync(() => void answers.push(stdout, stderr))
          )
        const first = yield* asked(["secret", "set", "key"], `${canary}-old\n`)
        assert.strictEqual(first.exit, 0, first.stderr)
        assert.strictEqual((yield* asked(["secret", "rotate", "key"], canary)).exit, 0)
        assert.strictEqual((yield* asked(["secret", "rotate", "nokey"], canary)).exit, 4)
        assert.strictEqual((yield* asked(["secret", "set", "short"], "short")).exit, 1)
        yield* asked(["provider", "add", example])
        yield* waitFor({
          fact: "the plugin's worker runs",
          look: client.providers.list(),
          holds: ([provider]) => provider?.worker.running === true,
          deadlineMillis: 30_000,
          everyMillis: 50
        })
        const config = ["--provider", "scripted", "--set", `stateDirectory=${state}`]
        const clear = yield* asked(["env", "create", "clear", ...config, "--set", `apiKey=${canary}`])
        assert.strictEqual(clear.exit, 1)
        assert.include(clear.stderr, "secret_ref_invalid")
        const made = yield* asked(["env", "create", "remote", ...config, "--secret", "apiKey=key"])
        assert.strictEqual(made.exit, 0, made.stderr)
        const faults = (made: object) => writeFileSync(join(state, "faults.json"), JSON.stringify(made))
        const echo = { fault: "canary", text: `your key ${canary} is bad` }
        faults({ environmentAcquireLease: [echo] })
        const refused = yield* asked(["run", "remote", "--", "echo", "hi"])
        assert.strictEqual(refused.exit, 255)
        assert.include(refused.stderr, "provider_failed")
        faults({ environmentExecute: [echo], environmentDestroyLease: [echo] })
        assert.strictEqual((yield* asked(["--json", "run", "remote", "--", "echo", "hi"])).exit, 255)
        const metadata = { remoteCwd: "/", note: `made with ${canary}`, apiKey: canary }
        faults({ environmentAcquireLease: [{ fault: "lie", receipt: { providerLeaseId: "r-1", metadata } }] })
        yield* asked(["run", "remote", "--", "echo", "hi"])
        yield* asked(["sweep"])
        const ran = yield* asked(["run", "remote", "--", "echo", "hi"])
        assert.deepStrictEqual(ran, { exit: 0, stdout: "hi\n", stderr: "" })
        yield* asked(["env", "show", "remote"])
        yield* asked(["--json", "secret", "list"])
        const leases = yield* client.environmentLeases.list({ query: {} })
        for (const { id } of leases) yield* asked(["--json", "lease", "why", id])
        const said = [...answers, daemon.output(), yield* everyRow(place)].join("\n")
        assert.notInclude(said, canary)
        assert.lengthOf(leases, 3)
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
