/** Homes that are refused, for the user that would run the server. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { databaseLogBytesMax } from "../../../src/domain/Bounds.ts"
import { ephemeralHome, openLog, persistentHome } from "../../../src/infra/postgres/clusterHome.ts"
import { mayTraverse } from "../../../src/infra/postgres/databaseUser.ts"

const stranger = { userId: 65_534, groupId: 65_534 }

const folder = Effect.acquireRelease(
  Effect.sync(() => Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-home-"))),
  (made) => Effect.sync(() => Files.rmSync(made, { recursive: true, force: true }))
)

describe("persistentHome", () => {
  it.live("refuses a home below a directory that the database's user cannot pass, and writes nothing", () =>
    Effect.gen(function* () {
      const closed = yield* folder
      const home = Path.join(closed, "database")
      const refused = yield* Effect.flip(persistentHome(home, stranger))
      assert.deepInclude(refused, { code: "cluster_home_unreachable", path: home })
      assert.deepStrictEqual(Files.readdirSync(closed), [])
      const ephemeral = ephemeralHome({ under: closed, prefix: "hf-" }, stranger)
      assert.deepInclude(yield* Effect.flip(ephemeral), { code: "cluster_home_unreachable" })
    }).pipe(Effect.scoped)
  )

  it.live("refuses a link and a file in the place of the home", () =>
    Effect.gen(function* () {
      const made = yield* folder
      const [file, link] = [Path.join(made, "file"), Path.join(made, "link")]
      Files.writeFileSync(file, "")
      Files.symlinkSync(made, link)
      for (const home of [file, link]) {
        const refused = yield* Effect.flip(persistentHome(home, null))
        assert.deepInclude(refused, { code: "cluster_home_foreign", path: home })
      }
    }).pipe(Effect.scoped)
  )

  it.live("refuses a path that is not absolute", () =>
    Effect.gen(function* () {
      assert.deepInclude(yield* Effect.flip(persistentHome("database", null)), { step: "home" })
    })
  )

  it.live("makes a home private that was open", () =>
    Effect.gen(function* () {
      const made = yield* folder
      Files.chmodSync(made, 0o755)
      yield* persistentHome(made, null)
      assert.strictEqual(Files.statSync(made).mode & 0o777, 0o700)
    }).pipe(Effect.scoped)
  )
})

describe("openLog", () => {
  it.live("follows no link, and sets a log aside that has become too long", () =>
    Effect.gen(function* () {
      const home = yield* folder
      const log = Path.join(home, "postgres.log")
      Files.symlinkSync("/etc/passwd", log)
      assert.throws(() => openLog(home), /ELOOP/)
      Files.rmSync(log)
      Files.closeSync(openLog(home))
      Files.truncateSync(log, databaseLogBytesMax + 1)
      Files.closeSync(openLog(home))
      assert.deepStrictEqual([Files.statSync(log).size, Files.statSync(log).mode & 0o777], [0, 0o600])
      assert.strictEqual(Files.statSync(`${log}.1`).size, databaseLogBytesMax + 1)
    }).pipe(Effect.scoped)
  )
})

describe("mayTraverse", () => {
  const user = { userId: 5, groupId: 6 }
  for (const [uid, gid, mode, expected] of [
    [5, 6, 0o700, true],
    [5, 6, 0o611, false],
    [9, 6, 0o710, true],
    [9, 6, 0o701, false],
    [9, 9, 0o711, true],
    [9, 9, 0o770, false]
  ] as const) {
    it(`${expected ? "lets through" : "stops"} at ${mode.toString(8)} of ${uid}:${gid}`, () => {
      assert.strictEqual(mayTraverse({ uid, gid, mode }, user), expected)
    })
  }
})
