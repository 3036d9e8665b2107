/** The embedded server on this machine: private, durable where it must be, and never left behind. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { inject } from "vitest"
import { ClusterRefused } from "../../../src/infra/postgres/clusterErrors.ts"
import { databaseUser } from "../../../src/infra/postgres/databaseUser.ts"
import { type Cluster, start } from "../../../src/infra/postgres/EmbeddedCluster.ts"
import { inTime } from "../../support/waiting.ts"

const modeOf = (path: string): number => Files.lstatSync(path).mode & 0o777

/** A process that has ended has no directory to work in, also while nobody has asked for its status yet. */
const alive = (processId: number): boolean => Files.existsSync(`/proc/${processId}/cwd`)

const ask = (cluster: Pick<Cluster, "socketDirectory" | "user">, text: string) =>
  Effect.scoped(
    Effect.flatMap(
      PgConnection.make({ host: cluster.socketDirectory, username: cluster.user, database: "postgres" }),
      (connection) => Effect.map(connection.query(text, [], false), (result) => result.rows)
    )
  )

/** A process that does nothing, of the user that runs the server. */
const bystander = Effect.acquireRelease(
  Effect.map(databaseUser("/"), (user) =>
    spawn("sleep", ["600"], user === null ? {} : { uid: user.userId, gid: user.groupId })
  ),
  (child: ChildProcess) => Effect.sync(() => child.kill("SIGKILL"))
)

describe("the ephemeral cluster of the suite", () => {
  const at = () => ({ socketDirectory: inject("cluster").host, user: inject("cluster").username })

  it.live("SP-TEST-01 listens on no network address, only on a socket that its owner alone reaches", () =>
    Effect.gen(function* () {
      const [settings] = yield* ask(at(), "select current_setting('listen_addresses') as addresses")
      assert.deepStrictEqual(settings, { addresses: "" })
      assert.strictEqual(modeOf(at().socketDirectory), 0o700)
      assert.strictEqual(modeOf(Path.join(at().socketDirectory, ".s.PGSQL.5432")), 0o700)
    })
  )

  it.live("lets nobody in over the network, should somebody open an address", () =>
    Effect.gen(function* () {
      const rules = yield* ask(
        at(),
        "select distinct type, auth_method from pg_hba_file_rules where error is null order by 1"
      )
      assert.deepStrictEqual(rules, [
        { type: "host", auth_method: "reject" },
        { type: "local", auth_method: "trust" }
      ])
    })
  )
})

describe("a persistent cluster", () => {
  const folder = Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-pg-"))
  Files.chmodSync(folder, 0o755)
  const home = Path.join(folder, "home")
  const persistent = { kind: "persistent", home } as const
  const refusal = Effect.flip(Effect.scoped(start(persistent)))

  // Making the data directory durably is the slow part, so it is done once; each test starts and ends a server on it.
  beforeAll(() =>
    Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const cluster = yield* start(persistent)
          yield* ask(cluster, "create table kept (id serial, note text)")
        })
      )
    )
  )
  afterAll(() => Files.rmSync(folder, { recursive: true, force: true }))

  const count = (cluster: Cluster) => ask(cluster, "select count(*)::int as n from kept where note = 'a'")

  it.live("keeps what was committed, although the server was killed, and is private", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const first = yield* start(persistent).pipe(Scope.provide(scope))
      assert.strictEqual(modeOf(home), 0o700)
      const durable = yield* ask(
        first,
        "select current_setting('fsync') || current_setting('synchronous_commit') as on"
      )
      assert.deepStrictEqual(durable, [{ on: "onon" }])
      yield* ask(first, "delete from kept")
      yield* ask(first, "insert into kept (note) values ('a')")
      process.kill(first.processId, "SIGKILL")
      const failure = yield* inTime("the death is noticed", first.died)
      assert.deepInclude(failure, { code: "cluster_failed", step: "run" })
      yield* Scope.close(scope, Exit.void)
      const second = yield* start(persistent)
      assert.deepStrictEqual(yield* count(second), [{ n: 1 }])
      assert.notStrictEqual(second.processId, first.processId)
    }).pipe(Effect.scoped)
  )

  it.live("is refused while another server runs on it, and that one goes on", () =>
    Effect.gen(function* () {
      const running = yield* start(persistent)
      assert.deepInclude(yield* refusal, { _tag: "ClusterRefused", code: "cluster_in_use", path: home })
      assert.deepStrictEqual(yield* ask(running, "select 1 as one"), [{ one: 1 }])
    }).pipe(Effect.scoped)
  )

  it.live("starts although its lock file names a process that is now another program", () =>
    Effect.gen(function* () {
      const other = yield* bystander
      const lock = Path.join(home, "data", "postmaster.pid")
      Files.writeFileSync(lock, `${other.pid}\n${home}/data\n1\n5432\n${home}\n\n\nready\n`)
      const cluster = yield* start(persistent)
      assert.deepStrictEqual(yield* ask(cluster, "select 1 as one"), [{ one: 1 }])
    }).pipe(Effect.scoped)
  )

  it.live("is refused when another major version wrote its data", () =>
    Effect.gen(function* () {
      const file = Path.join(home, "data", "PG_VERSION")
      const written = Files.readFileSync(file, "utf8")
      Files.writeFileSync(file, "17\n")
      const refused = yield* refusal.pipe(
        Effect.ensuring(Effect.sync(() => Files.writeFileSync(file, written)))
      )
      assert.deepInclude(refused, { _tag: "ClusterRefused", code: "cluster_version_mismatch" })
    })
  )

  it.live(
    "ends with its daemon that is killed, and the next daemon waits for that and goes on with the data",
    () =>
      Effect.gen(function* () {
        const daemon = yield* Effect.acquireRelease(
          Effect.sync(() =>
            spawn(process.execPath, [Path.join(import.meta.dirname, "clusterInChild.ts"), home])
          ),
          (child) => Effect.sync(() => child.kill("SIGKILL"))
        )
        const processId = yield* inTime(
          "the daemon tells the server's process",
          Effect.callback<number>((resume) => {
            daemon.stdout.once("data", (line) => resume(Effect.succeed(Number(line))))
          }),
          30_000
        )
        assert.isTrue(alive(processId))
        daemon.kill("SIGKILL")
        const cluster = yield* start(persistent)
        assert.isFalse(alive(processId))
        assert.deepStrictEqual(yield* ask(cluster, "select 1 as one"), [{ one: 1 }])
      }).pipe(Effect.scoped)
  )

  it.live("does not take a killed initialization for data", () =>
    Effect.gen(function* () {
      const started = Path.join(folder, "started")
      Files.mkdirSync(Path.join(started, "data.tmp"), { recursive: true })
      Files.writeFileSync(Path.join(started, "data.tmp", "PG_VERSION"), "18\n")
      const cluster = yield* start({ kind: "persistent", home: started })
      assert.deepStrictEqual(yield* ask(cluster, "select 1 as one"), [{ one: 1 }])
      assert.isFalse(Files.existsSync(Path.join(started, "data.tmp")))
    }).pipe(Effect.scoped)
  )

  it.live("is refused when its socket's path is too long, before anything is written", () =>
    Effect.gen(function* () {
      const long = Path.join(folder, "x".repeat(107))
      const refused = yield* Effect.flip(Effect.scoped(start({ kind: "persistent", home: long })))
      assert.deepStrictEqual(
        refused,
        new ClusterRefused({ code: "cluster_socket_path_too_long", path: long })
      )
      assert.isFalse(Files.existsSync(long))
    })
  )
})

describe("an ephemeral cluster", () => {
  it.live("leaves neither process nor directory when its scope closes", () =>
    Effect.gen(function* () {
      const cluster = yield* Effect.scoped(start({ kind: "ephemeral", under: "/dev/shm", prefix: "hf-e-" }))
      assert.isFalse(alive(cluster.processId))
      assert.isFalse(Files.existsSync(cluster.home))
    })
  )

  it.live("runs no server but the one that is named: a folder without binaries is refused by name", () =>
    Effect.gen(function* () {
      const named = { kind: "ephemeral", under: "/dev/shm", prefix: "hf-e-", binaries: "/nowhere" } as const
      const failure = yield* Effect.flip(Effect.scoped(start(named)))
      assert.deepInclude(failure, { step: "binaries", detail: "/nowhere has no initdb and postgres to run" })
    })
  )
})
