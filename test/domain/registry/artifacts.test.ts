import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { execFileSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { findArtifacts } from "../../../src/domain/registry/artifacts.ts"
import { RegistryFiles } from "../../../src/domain/registry/RegistryFiles.ts"
import { contentsOf, lookAt, portsOn, sandboxOf, temporaryDirectory } from "./fixture.ts"
import { layOutSnapshot, layOutUnactivated } from "./snapshotFixture.ts"

const file = `${sandboxOf(1)}.json`

const wrongEntries: ReadonlyArray<readonly [what: string, make: (path: string) => unknown]> = [
  ["a link", (path) => Files.symlinkSync("/etc/hostname", path)],
  ["a pipe", (path) => execFileSync("mkfifo", ["-m", "600", path])],
  ["a directory", (path) => Files.mkdirSync(path, { mode: 0o700 })],
  ["open to others", (path) => Files.writeFileSync(path, "", { mode: 0o640 })],
  [
    "of another user",
    (path) => {
      Files.writeFileSync(path, "", { mode: 0o600 })
      Files.chownSync(path, 12_345, 12_345)
    }
  ]
]

const wrongDirectories: ReadonlyArray<
  readonly [what: string, make: (path: string, elsewhere: string) => unknown]
> = [
  ["a link", (path, elsewhere) => Files.symlinkSync(elsewhere, path)],
  ["a file", (path) => Files.writeFileSync(path, "", { mode: 0o600 })],
  ["open to others", (path) => Files.mkdirSync(path, { mode: 0o750 })]
]

const directories = [".records-interrupted", ".records-retired-before", "records"]

/** Opens and expects a refusal at the path, with everything left as it is. */
const refusedAt = Effect.fnUntraced(function* (directory: string, path: string) {
  const before = contentsOf(directory)
  const refusal = yield* Effect.flip(lookAt(directory))
  assert.deepInclude(refusal, { _tag: "RegistryOpenRefused", path })
  assert.deepStrictEqual(contentsOf(directory), before)
})

const isRoot = process.geteuid?.() === 0

describe("registry/artifacts", () => {
  it.live.each(
    directories.flatMap((directory) =>
      wrongEntries
        .filter(([what]) => isRoot || what !== "of another user")
        .map(([what, make]) => [directory, what, make] as const)
    )
  )("RG-MIG-04 in %s an entry that is %s refuses before anything changes", ([directory, , make]) =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      layOutUnactivated(place)
      const path = `${directory}/sb-11111111-0000-4000-8000-000000000000.json`
      make(Path.join(place.directory, path))
      yield* refusedAt(place.directory, path)
    })
  )

  it.live.each(
    directories.flatMap((directory) =>
      wrongDirectories.map(([what, make]) => [directory, what, make] as const)
    )
  )("RG-MIG-04 %s that is %s refuses before anything changes", ([directory, , make]) =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      layOutUnactivated(place)
      const elsewhere = yield* temporaryDirectory
      Files.writeFileSync(Path.join(elsewhere, file), "untouched", { mode: 0o600 })
      Files.rmSync(Path.join(place.directory, directory), { recursive: true })
      make(Path.join(place.directory, directory), elsewhere)
      const before = contentsOf(place.directory)
      const refusal = yield* Effect.flip(lookAt(place.directory))
      assert.include(refusal.message, directory)
      assert.deepStrictEqual(contentsOf(place.directory), before)
      assert.strictEqual(Files.readFileSync(Path.join(elsewhere, file), "utf8"), "untouched")
    })
  )

  it.live.each([
    ".records-",
    ".records-a b",
    `.records-${"x".repeat(100)}`,
    ".records",
    ".sandboxes.json-",
    ".sandboxes.tmp"
  ])("RG-MIG-04 BX-07 the reserved name %s that no release gives refuses the open", (name) =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      place.makeDirectory(name)
      yield* refusedAt(place.directory, name)
    })
  )

  it.live.each(["notes.txt", "meta.json~", "sb-1.json", ".record-"])(
    "RG-MIG-04 BX-07 the name %s in a staging directory refuses the open",
    (name) =>
      Effect.gen(function* () {
        const place = yield* layOutSnapshot()
        layOutUnactivated(place)
        place.write(`.records-interrupted/${name}`, "")
        yield* refusedAt(place.directory, `.records-interrupted/${name}`)
      })
  )

  it.live("RG-MIG-04 what is checked is not read: a payload that is torn or huge does not matter", () =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      layOutUnactivated(place)
      place.write(`.records-interrupted/${file}`, "")
      Files.truncateSync(Path.join(place.directory, ".records-interrupted", file), 1024 ** 3)
      assert.strictEqual((yield* lookAt(place.directory)).size, 3)
      assert.isFalse(Files.existsSync(Path.join(place.directory, ".records-interrupted")))
    })
  )

  it.live("RG-MIG-04 every kind of remnant is found; what is not the registry's is left alone", () =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      layOutUnactivated(place)
      for (const name of ["disks", "daemon.lock", "notes"]) place.makeDirectory(name)
      const found = yield* Effect.provide(
        Effect.gen(function* () {
          return yield* findArtifacts(Option.getOrThrow(yield* (yield* RegistryFiles).list("state")))
        }),
        portsOn(place.directory)
      )
      assert.deepStrictEqual(found.map(({ kind, path }) => `${kind} ${path}`).toSorted(), [
        "header .sandboxes.json-half",
        "retired .records-retired-before",
        "staging .records-interrupted"
      ])
      yield* lookAt(place.directory)
      assert.includeMembers(Files.readdirSync(place.directory), ["disks", "notes"])
    })
  )
})
