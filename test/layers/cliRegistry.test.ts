import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { registrySnapshotBytesMax } from "../../src/domain/Bounds.ts"
import { holdStateDirectory, lockName } from "../../src/infra/filesystem/OwnerLock.ts"
import { exitCodes } from "../../src/layers/cli/exitCodes.ts"
import { contentsOf, lookAt, recordOf, sandboxOf, temporaryDirectory } from "../domain/registry/fixture.ts"
import { layOutUnactivated, owner, writeSnapshot } from "../domain/registry/snapshotFixture.ts"
import { holdfast, type Ran } from "./cliHarness.ts"

/** A home whose state directory holds a version-1 registry of three records. */
const snapshotHome = Effect.map(temporaryDirectory, (home) => {
  const state = Path.join(home, "state")
  Files.mkdirSync(state, { mode: 0o700 })
  return { home, state, place: writeSnapshot(state) }
})

const committedHome = Effect.tap(snapshotHome, ({ state }) => lookAt(state))

const json = ({ stdout }: Ran) => JSON.parse(stdout)

/** Everything that a look must leave as it is: contents, and the times of files and directories. */
const traceOf = (state: string) => [
  contentsOf(state),
  [".", ...Files.readdirSync(state, { recursive: true, encoding: "utf8" })].toSorted().map((name) => {
    const { ctimeNs, ino, mtimeNs } = Files.statSync(Path.join(state, name), { bigint: true })
    return [name, ino, mtimeNs, ctimeNs]
  })
]

/** Runs the verb and asserts that it has changed nothing. */
const looking = Effect.fnUntraced(function* (state: string, args: ReadonlyArray<string>) {
  const before = traceOf(state)
  const ran = yield* holdfast(args)
  assert.deepStrictEqual(traceOf(state), before)
  return ran
})

describe("layers/cli registry", () => {
  it.live(
    "check says of each record what an open would do, in words and as JSON, and makes no lock file",
    () =>
      Effect.gen(function* () {
        const { home, state } = yield* committedHome
        const told = yield* looking(state, ["--home", home, "registry", "check"])
        assert.strictEqual(told.exit, exitCodes.done)
        assert.match(told.stdout, /An open succeeds/)
        for (const number of [1, 2, 3]) assert.include(told.stdout, sandboxOf(number))
        const ran = yield* looking(state, ["--json", "registry", "check", state])
        assert.strictEqual(ran.exit, exitCodes.done)
        assert.deepInclude(json(ran), {
          directory: state,
          opens: true,
          layout: "version 2",
          owner,
          holder: null
        })
        assert.strictEqual(json(ran).records.length, 3)
        assert.notInclude(ran.stdout + told.stdout, recordOf(1).endpointToken)
        assert.isFalse(Files.existsSync(Path.join(state, lockName)))
      })
  )

  it.live("check names every refused record beside those that are right, and ends with 1", () =>
    Effect.gen(function* () {
      const { home, place, state } = yield* committedHome
      const path = `records/${sandboxOf(2)}.json`
      place.write(path, "")
      place.write("records/notes.txt", "")
      const told = yield* looking(state, ["--home", home, "registry", "check"])
      assert.strictEqual(told.exit, exitCodes.failed)
      assert.include(told.stdout, path)
      assert.include(told.stdout, "records/notes.txt")
      assert.match(told.stdout, /An open is refused/)
      assert.include(told.stdout, sandboxOf(3))
      assert.strictEqual((yield* Effect.flip(lookAt(state)))._tag, "RegistryOpenRefused")
    })
  )

  it.live("RG-MIG-06 check of a registry without the marker of its runtime says what to preserve", () =>
    Effect.gen(function* () {
      const { home, state } = yield* committedHome
      Files.rmSync(Path.join(state, "runtime/owner.json"))
      const ran = yield* looking(state, ["--home", home, "--json", "registry", "check"])
      assert.strictEqual(ran.exit, exitCodes.failed)
      assert.include(json(ran).refusals[0].why, "preserve the original ownership state")
    })
  )

  it.live(
    "FC-17 check while a daemon lives names it and ends with 5; a lock file of an old one does not matter",
    () =>
      Effect.gen(function* () {
        const { home, state } = yield* committedHome
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* holdStateDirectory(state, "daemon here")
            const ran = yield* looking(state, ["--home", home, "registry", "check"])
            assert.strictEqual(ran.exit, exitCodes.conflict)
            assert.include(ran.stdout, `daemon here (process ${process.pid})`)
          })
        )
        assert.strictEqual(
          (yield* looking(state, ["--home", home, "registry", "check"])).exit,
          exitCodes.done
        )
      })
  )

  it.live("FC-17 RG-LAY-02 check tells a link in place of the lock, which no daemon would take", () =>
    Effect.gen(function* () {
      const { home, state } = yield* committedHome
      Files.symlinkSync("/etc/hostname", Path.join(state, lockName))
      const ran = yield* looking(state, ["--home", home, "--json", "registry", "check"])
      assert.strictEqual(ran.exit, exitCodes.failed)
      assert.strictEqual(json(ran).refusals[0].path, lockName)
    })
  )

  it.live("a state directory that is not there ends with 4, and one that is open to others with 1", () =>
    Effect.gen(function* () {
      const { home, state } = yield* committedHome
      const missing = yield* holdfast(["--home", home, "--json", "registry", "check", `${state}/none`])
      assert.strictEqual(missing.exit, exitCodes.notFound)
      assert.include(missing.stderr, "state_directory_missing")
      Files.chmodSync(state, 0o750)
      assert.strictEqual(
        (yield* looking(state, ["--home", home, "registry", "check"])).exit,
        exitCodes.failed
      )
    })
  )

  it.live("RG-MIG-04 the dry run tells version, owner, records, bytes and the fate of every remnant", () =>
    Effect.gen(function* () {
      const { home, place, state } = yield* snapshotHome
      layOutUnactivated(place)
      const told = yield* looking(state, ["--home", home, "registry", "migrate", "--dry-run"])
      assert.strictEqual(told.exit, exitCodes.done)
      assert.match(told.stdout, /would write 3 records/)
      const ran = yield* looking(state, ["--home", home, "--json", "registry", "migrate", "--dry-run"])
      assert.deepInclude(json(ran), {
        migrates: true,
        layout: "version 1",
        owner,
        snapshotBytes: Buffer.byteLength(place.read("sandboxes.json")),
        limitBytes: registrySnapshotBytesMax
      })
      const remnants = ["records", ".records-interrupted", ".records-retired-before", ".sandboxes.json-half"]
      assert.sameMembers(
        json(ran).artifacts.map(({ path }: { path: string }) => path),
        remnants
      )
      for (const remnant of remnants) assert.include(told.stdout, remnant)
    })
  )

  it.live("RG-MIG-02 migrate does what the next start would do; asked again it has nothing to do", () =>
    Effect.gen(function* () {
      const { home, place, state } = yield* snapshotHome
      layOutUnactivated(place)
      place.write(lockName, "abc")
      const ran = yield* holdfast(["--home", home, "--json", "registry", "migrate"])
      assert.strictEqual(ran.exit, exitCodes.done)
      assert.deepInclude(json(ran), { migrated: true, layout: "version 2", artifacts: [] })
      assert.strictEqual((yield* lookAt(state)).size, 3)
      const again = yield* looking(state, ["--home", home, "registry", "migrate"])
      assert.strictEqual(again.exit, exitCodes.done)
      assert.match(again.stdout, /Nothing is to be migrated/)
      const dry = yield* looking(state, ["--home", home, "--json", "registry", "migrate", "--dry-run"])
      assert.isFalse(json(dry).migrates)
    })
  )

  it.live("RG-LAY-03 migrate while a daemon lives ends with 5 and changes nothing", () =>
    Effect.gen(function* () {
      const { home, state } = yield* snapshotHome
      yield* holdStateDirectory(state, "daemon here")
      const ran = yield* looking(state, ["--home", home, "--json", "registry", "migrate"])
      assert.strictEqual(ran.exit, exitCodes.conflict)
      assert.include(ran.stderr, "state_directory_held")
      const dry = yield* looking(state, ["--home", home, "registry", "migrate", "--dry-run"])
      assert.strictEqual(dry.exit, exitCodes.conflict)
      assert.include(dry.stdout, "daemon here")
    })
  )

  it.live("RG-MIG-01 a snapshot with one wrong record is not migrated: 1, and both say which", () =>
    Effect.gen(function* () {
      const { home, place, state } = yield* snapshotHome
      place.write("sandboxes.json", place.read("sandboxes.json").replace('"cpuMillis":100', '"cpuMillis":0'))
      for (const args of [
        ["registry", "migrate", "--dry-run"],
        ["registry", "check"]
      ]) {
        const told = yield* looking(state, ["--home", home, ...args])
        assert.strictEqual(told.exit, exitCodes.failed)
        assert.include(told.stdout, `${sandboxOf(1)}: a field of it is wrong or unknown`)
      }
      const before = contentsOf(state).filter(([name]) => name !== lockName)
      const ran = yield* holdfast(["--home", home, "--json", "registry", "migrate"])
      assert.strictEqual(ran.exit, exitCodes.failed)
      assert.include(ran.stderr, "state_directory_refused")
      assert.deepStrictEqual(
        contentsOf(state).filter(([name]) => name !== lockName),
        before
      )
    })
  )

  it.live("an empty state directory has no registry: check says that an open makes one", () =>
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      const state = Path.join(home, "state")
      Files.mkdirSync(state, { mode: 0o700 })
      const told = yield* looking(state, ["--home", home, "registry", "check"])
      assert.strictEqual(told.exit, exitCodes.done)
      assert.match(told.stdout, /an open makes one/)
      assert.match((yield* looking(state, ["--home", home, "registry", "migrate"])).stdout, /no registry/)
    })
  )
})
