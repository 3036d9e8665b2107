/**
 * Bad input meets a clear refusal with a stable code, and nothing is lost: what a daemon refuses to start with, and
 * what a running one refuses to do.
 */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { inject } from "vitest"
import { RequestKey } from "../../src/domain/Identity.ts"
import { isApiError } from "../../src/infra/http/ApiErrors.ts"
import { olderBy } from "../infra/postgres/cuttingProxy.ts"
import { awaitReady, makePlace, type Place, startDaemon } from "../support/daemonProcess.ts"

const testMillisMax = 60_000

/** Starts a daemon that must refuse, and answers its exit code and what it said. */
const refused = (place: Place, given: ReadonlyArray<string> = []) =>
  Effect.scoped(
    Effect.gen(function* () {
      const daemon = yield* startDaemon(place, { arguments: given })
      return { exit: yield* daemon.ended, output: daemon.output() }
    })
  )

const stateOf = (place: Place): string => join(place.home, "state")

/** The refusal's code as the API answers it. */
const codeOf = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), (error) => (isApiError(error) ? error.code : String(error)))

describe("refusals", () => {
  it.live(
    "a state directory that others may read is refused by name, and is left as it was",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        mkdirSync(stateOf(place), { mode: 0o755 })
        chmodSync(stateOf(place), 0o755)
        const { exit, output } = yield* refused(place)
        assert.strictEqual(exit, 1)
        assert.include(output, "state_directory_refused")
        assert.include(output, "755")
        assert.deepStrictEqual(readdirSync(stateOf(place)), [])
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "a link in place of the state directory, or of a file in it, is refused and what it leads to is untouched",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const victim = join(place.home, "victim")
        mkdirSync(victim, { mode: 0o700 })
        symlinkSync(victim, stateOf(place))
        const first = yield* refused(place)
        assert.strictEqual(first.exit, 1)
        assert.include(first.output, "state_directory_refused")
        assert.deepStrictEqual(readdirSync(victim), [])

        const other = yield* makePlace
        mkdirSync(stateOf(other), { mode: 0o700 })
        const precious = join(other.home, "precious")
        writeFileSync(precious, "kept")
        symlinkSync(precious, join(stateOf(other), "sandboxes.json"))
        const second = yield* refused(other)
        assert.strictEqual(second.exit, 1)
        assert.include(second.output, "state_directory_refused")
        assert.strictEqual(readFileSync(precious, "utf8"), "kept")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "an unknown supervisor is refused with those that there are",
    () =>
      Effect.gen(function* () {
        const { exit, output } = yield* refused(yield* makePlace, ["--supervisor", "warp"])
        assert.notStrictEqual(exit, 0)
        assert.match(output, /bubblewrap/)
        assert.match(output, /unshare/)
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "a database that is away at start is refused with where it was looked for, and no credentials",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const away = "postgresql://canary-user:canary-4711@localhost/db?host=%2Fnowhere"
        const { exit, output } = yield* refused({ ...place, databaseUrl: away })
        assert.strictEqual(exit, 1)
        assert.include(output, "database_unavailable")
        assert.notInclude(output, "canary-4711")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "a database that is too old is refused at start with both versions",
    () =>
      Effect.gen(function* () {
        const { host, username } = inject("cluster")
        const { address } = yield* olderBy({ host, username, database: "postgres" }, 14)
        const url = `postgresql:///postgres?host=${encodeURIComponent(address.host)}&user=${username}`
        const { exit, output } = yield* refused({ ...(yield* makePlace), databaseUrl: url })
        assert.strictEqual(exit, 1)
        assert.include(output, "database_too_old")
        assert.include(output, "runs PostgreSQL 14, and 15 or newer is needed: upgrade it")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "RG-LAY-03 a second daemon names the holder and touches nothing; the first goes on and refuses what is absurd",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const daemon = yield* startDaemon(place)
        const client = yield* awaitReady(place, daemon)
        const header = statSync(join(stateOf(place), "sandboxes.json"), { bigint: true })
        const second = yield* refused(place)
        assert.strictEqual(second.exit, 1)
        assert.include(second.output, "state_directory_held")
        assert.include(second.output, `process ${daemon.process.pid}`)
        const after = statSync(join(stateOf(place), "sandboxes.json"), { bigint: true })
        assert.deepStrictEqual([after.ino, after.mtimeNs], [header.ino, header.mtimeNs])

        yield* client.projects.create({ payload: { name: "web" } })
        const provision = (key: string, parameters: object) =>
          client.operations.request({
            params: { project: "web" },
            payload: { action: "provision", requestId: RequestKey.make(key), parameters }
          })
        assert.strictEqual(
          yield* codeOf(client.projects.create({ payload: { name: "web" } })),
          "project_name_taken"
        )
        for (const [key, parameters] of [
          ["negative-cpu", { cpuMillis: -1 }],
          ["no-cpu", { cpuMillis: 0 }],
          ["absurd-memory", { memoryMebibytes: 10_000_000 }],
          ["no-process", { processesMax: 0 }],
          ["relative-image", { image: "../etc" }],
          ["unknown-supervisor", { supervisor: "warp" }]
        ] as const) {
          assert.strictEqual(yield* codeOf(provision(key, parameters)), "invalid_parameters", key)
        }
        const missing = yield* provision("missing-image", { image: "/no/such/image" })
        const settled = yield* client.operations
          .get({ params: { id: missing.id } })
          .pipe(
            Effect.repeat({ until: ({ state }) => state === "failed", schedule: Schedule.spaced(25) }),
            Effect.timeout(10_000)
          )
        assert.strictEqual(settled.error?.code, "guest_spec_refused")
        assert.include(settled.error?.message ?? "", "image")

        const { charges, runtime } = yield* client.projects.status({ params: { project: "web" } })
        assert.strictEqual(charges.used.sandboxes, 0, "nothing was charged for what was refused")
        assert.strictEqual(runtime?.sandbox ?? null, null)
        assert.strictEqual(
          yield* codeOf(client.projects.status({ params: { project: "nowhere" } })),
          "project_not_found"
        )
        const remove = client.operations.request({
          params: { project: "web" },
          payload: { action: "delete", requestId: RequestKey.make("delete") }
        })
        assert.strictEqual(yield* codeOf(remove), "project_deletion_required")
        const stale = client.projects.delete({
          params: { project: "web" },
          payload: { confirmedPaths: ["/etc"] }
        })
        assert.strictEqual(yield* codeOf(stale), "confirmation_stale")

        daemon.process.kill("SIGTERM")
        assert.strictEqual(yield* daemon.ended, 0, daemon.output())
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "a Project that is being deleted takes no new work",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const killAt = {
          boundary: "before",
          program: "delete project",
          step: "plugin:sandbox",
          occurrence: 1
        } as const
        yield* Effect.scoped(
          Effect.gen(function* () {
            const daemon = yield* startDaemon(place, { killAt })
            const client = yield* awaitReady(place, daemon)
            yield* client.projects.create({ payload: { name: "web" } })
            const deleting = client.projects.delete({
              params: { project: "web" },
              payload: { confirmedPaths: [] }
            })
            assert.isTrue(Exit.isFailure(yield* Effect.exit(deleting)))
            assert.strictEqual(yield* daemon.ended, "SIGKILL")
          })
        )
        // The Project's row cannot go while somebody refers to it, so the Project stays on its way out while it is asked.
        const connection = yield* PgConnection.make({ url: Redacted.make(place.databaseUrl) })
        yield* connection.query("begin", [], false)
        yield* connection.query("select from core.projects where name = 'web' for key share", [], false)
        const daemon = yield* startDaemon(place)
        const client = yield* awaitReady(place, daemon)
        const code = yield* codeOf(
          client.operations.request({
            params: { project: "web" },
            payload: { action: "provision", requestId: RequestKey.make("late") }
          })
        )
        assert.strictEqual(code, "project_not_active")
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
