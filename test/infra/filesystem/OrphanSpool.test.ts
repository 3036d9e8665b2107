import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { orphanSpoolFileBytesMax, orphanSpoolFilesMax } from "../../../src/domain/Bounds.ts"
import { OrphanSpool } from "../../../src/domain/runLeases/OrphanSpool.ts"
import {
  layer,
  layerFromEnvironment,
  makeOrphanSpool,
  spoolVariable
} from "../../../src/infra/filesystem/OrphanSpool.ts"
import { temporaryDirectory } from "../../domain/registry/fixture.ts"
import { makeFile, makeSimulatedDisk, simulatedRoot } from "../../support/simulatedDisk.ts"
import { startLife } from "../../support/simulatedDiskCalls.ts"
import { orphanOf } from "./orphanRecords.ts"

/** A folder that is not there yet, and what builds a spool on it, as a process that starts does. */
const place = Effect.map(temporaryDirectory, (directory) => Path.join(directory, "orphans"))

const opened = (folder: string) => Effect.provide(Effect.service(OrphanSpool), layer({ directory: folder }))

const jsonFiles = (folder: string): ReadonlyArray<string> =>
  Files.readdirSync(folder).filter((name) => name.endsWith(".json"))

const modeOf = (path: string): number => Files.statSync(path).mode & 0o777

const whyOf = (spool: OrphanSpool["Service"]) => Effect.map(Effect.flip(spool.load), ({ why }) => why)

const strangers: ReadonlyArray<readonly [what: string, put: (folder: string) => void]> = [
  [
    "no JSON",
    (folder) => Files.writeFileSync(Path.join(folder, `${"a".repeat(64)}.json`), "{", { mode: 0o600 })
  ],
  [
    "NUL bytes",
    (folder) => Files.writeFileSync(Path.join(folder, `${"a".repeat(64)}.json`), "\0\0", { mode: 0o600 })
  ],
  [
    "no text",
    (folder) =>
      Files.writeFileSync(Path.join(folder, `${"a".repeat(64)}.json`), Buffer.from([0xff, 0xfe]), {
        mode: 0o600
      })
  ],
  [
    "nothing",
    (folder) => Files.writeFileSync(Path.join(folder, `${"a".repeat(64)}.json`), "", { mode: 0o600 })
  ],
  [
    "JSON of another form",
    (folder) =>
      Files.writeFileSync(
        Path.join(folder, `${"a".repeat(64)}.json`),
        '{"schema":"holdfast/orphan-cleanup/v2","record":{}}',
        { mode: 0o600 }
      )
  ],
  [
    "a name that is not a digest",
    (folder) => Files.writeFileSync(Path.join(folder, "note.json"), "{}", { mode: 0o600 })
  ],
  [
    "no name of ours at all",
    (folder) => Files.writeFileSync(Path.join(folder, "README"), "hello", { mode: 0o600 })
  ],
  [
    "more bytes than a record has",
    (folder) =>
      Files.writeFileSync(
        Path.join(folder, `${"a".repeat(64)}.json`),
        " ".repeat(orphanSpoolFileBytesMax + 1),
        { mode: 0o600 }
      )
  ],
  [
    "a mode that lets others read",
    (folder) => Files.writeFileSync(Path.join(folder, `${"a".repeat(64)}.json`), "{}", { mode: 0o644 })
  ],
  ["a directory's kind", (folder) => Files.mkdirSync(Path.join(folder, `${"a".repeat(64)}.json`))]
]

type Spoil = (folder: string) => void

const unreadable: ReadonlyArray<readonly [what: string, spoil: Spoil, why: string]> = [
  ["is gone", (folder) => Files.rmSync(folder, { recursive: true }), "folder"],
  ["is open to others", (folder) => Files.chmodSync(folder, 0o755), "permissions"],
  [
    "is a link",
    (folder) => {
      Files.renameSync(folder, `${folder}.real`)
      Files.symlinkSync(`${folder}.real`, folder)
    },
    "link"
  ],
  [
    "is a file",
    (folder) => {
      Files.rmSync(folder, { recursive: true })
      Files.writeFileSync(folder, "", { mode: 0o600 })
    },
    "link"
  ]
]

describe("filesystem/OrphanSpool", () => {
  it.effect("FC-19 an orphan is one private file in a private folder, and the next process finds it", () =>
    Effect.gen(function* () {
      const folder = yield* place
      const orphan = orphanOf(1)
      assert.isTrue(yield* (yield* opened(folder)).append(orphan))
      const [name = ""] = jsonFiles(folder)
      assert.match(name, /^[0-9a-f]{64}\.json$/)
      assert.deepStrictEqual(Files.readdirSync(folder), [name])
      assert.strictEqual(modeOf(folder), 0o700)
      assert.strictEqual(modeOf(Path.join(folder, name)), 0o600)
      const next = yield* opened(folder)
      assert.deepStrictEqual(yield* next.load, [orphan])
      yield* next.remove(orphan)
      assert.deepStrictEqual(Files.readdirSync(folder), [])
      assert.deepStrictEqual(yield* (yield* opened(folder)).load, [])
    })
  )

  it.effect("FC-19 the same orphan again is the same file; another resource of the lease is another", () =>
    Effect.gen(function* () {
      const folder = yield* place
      const spool = yield* opened(folder)
      yield* spool.append(orphanOf(1))
      yield* spool.append(orphanOf(1, { failureReason: "newer" }))
      assert.deepStrictEqual(yield* spool.load, [orphanOf(1, { failureReason: "newer" })])
      yield* spool.append(orphanOf(1, { providerLeaseId: "another" }))
      assert.lengthOf(jsonFiles(folder), 2)
      yield* spool.remove(orphanOf(1))
      assert.deepStrictEqual(yield* spool.load, [orphanOf(1, { providerLeaseId: "another" })])
      // Removing what is not there is nothing.
      yield* spool.remove(orphanOf(1))
      assert.lengthOf(jsonFiles(folder), 1)
    })
  )

  it.effect("RL-SPOOL-07 the folder is the variable's when the spool is built, else the given one", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const [named, given] = [Path.join(directory, "named"), Path.join(directory, "given")]
      const before = process.env[spoolVariable]
      const build = layerFromEnvironment({ otherwise: given })
      yield* Effect.gen(function* () {
        process.env[spoolVariable] = named
        const spool = yield* Effect.provide(Effect.service(OrphanSpool), build)
        delete process.env[spoolVariable]
        yield* spool.append(orphanOf(1))
        assert.lengthOf(jsonFiles(named), 1)
        const other = yield* Effect.provide(
          Effect.service(OrphanSpool),
          layerFromEnvironment({ otherwise: given })
        )
        yield* other.append(orphanOf(2))
        assert.lengthOf(jsonFiles(given), 1)
      }).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            if (before === undefined) delete process.env[spoolVariable]
            else process.env[spoolVariable] = before
          })
        )
      )
    })
  )

  it.effect.each(strangers)(
    "FC-19 a file with %s goes to quarantine, is counted, and the others are read",
    ([, put]) =>
      Effect.gen(function* () {
        const folder = yield* place
        const spool = yield* opened(folder)
        yield* spool.append(orphanOf(1))
        put(folder)
        assert.deepStrictEqual(yield* spool.load, [orphanOf(1)])
        assert.strictEqual(yield* spool.quarantined, 1)
        assert.lengthOf(jsonFiles(folder), 1)
        assert.lengthOf(Files.readdirSync(Path.join(folder, "quarantine")), 1)
        // A later process knows of it too, and looks at it no more.
        const later = yield* opened(folder)
        assert.strictEqual(yield* later.quarantined, 1)
        assert.deepStrictEqual(yield* later.load, [orphanOf(1)])
      })
  )

  it.effect("FC-19 a record under another's name goes to quarantine, and two of one name both stay", () =>
    Effect.gen(function* () {
      const folder = yield* place
      const spool = yield* opened(folder)
      for (const number of [1, 2]) {
        yield* spool.append(orphanOf(number))
        const [name = ""] = jsonFiles(folder)
        Files.renameSync(Path.join(folder, name), Path.join(folder, `${"b".repeat(64)}.json`))
        assert.deepStrictEqual(yield* spool.load, [])
        assert.strictEqual(yield* spool.quarantined, number)
      }
    })
  )

  it.effect("FC-19 a link is never followed: it is put aside, and what it leads to is untouched", () =>
    Effect.gen(function* () {
      const folder = yield* place
      const spool = yield* opened(folder)
      yield* spool.append(orphanOf(1))
      const [name = ""] = jsonFiles(folder)
      const outside = Path.join(Path.dirname(folder), "outside")
      Files.renameSync(Path.join(folder, name), outside)
      Files.symlinkSync(outside, Path.join(folder, name))
      assert.deepStrictEqual(yield* spool.load, [])
      assert.strictEqual(yield* spool.quarantined, 1)
      const [aside = ""] = Files.readdirSync(Path.join(folder, "quarantine"))
      assert.isTrue(Files.lstatSync(Path.join(folder, "quarantine", aside)).isSymbolicLink())
      assert.include(Files.readFileSync(outside, "utf8"), "holdfast/orphan-cleanup/v1")
    })
  )

  it.effect("FC-19 what cannot be put aside is counted and stays, and the others are read", () =>
    Effect.gen(function* () {
      const folder = yield* place
      const spool = yield* opened(folder)
      yield* spool.append(orphanOf(1))
      Files.writeFileSync(Path.join(folder, "quarantine"), "", { mode: 0o600 })
      Files.writeFileSync(Path.join(folder, "stranger"), "", { mode: 0o600 })
      assert.strictEqual(yield* whyOf(spool), "link")
      Files.rmSync(Path.join(folder, "quarantine"))
      Files.mkdirSync(Path.join(folder, "quarantine"), { mode: 0o700 })
      assert.deepStrictEqual(yield* spool.load, [orphanOf(1)])
    })
  )

  it.effect.each(unreadable)(
    "FC-19 a folder that %s is an error and never an empty spool; nothing is kept in it",
    ([, spoil, why]) =>
      Effect.gen(function* () {
        const folder = yield* place
        const spool = yield* opened(folder)
        yield* spool.append(orphanOf(1))
        spoil(folder)
        assert.strictEqual(yield* whyOf(spool), why)
        assert.isFalse(yield* spool.append(orphanOf(2)))
        assert.strictEqual(
          yield* whyOf(yield* opened(folder)).pipe(Effect.orElseSucceed(() => "read")),
          why === "folder" ? "read" : why
        )
      })
  )

  it.effect("FC-19 a folder that cannot be made keeps nothing, and says so at the first load", () =>
    Effect.gen(function* () {
      const folder = Path.join(yield* temporaryDirectory, "absent", "orphans")
      const spool = yield* opened(folder)
      assert.isFalse(yield* spool.append(orphanOf(1)))
      assert.strictEqual(yield* whyOf(spool), "folder")
      assert.strictEqual(yield* spool.quarantined, 0)
    })
  )

  it.effect("FC-19 a record that is too large, and one beyond the bound, are not kept", () =>
    Effect.gen(function* () {
      const disk = makeSimulatedDisk()
      const spool = makeOrphanSpool(simulatedRoot, startLife(disk).calls)
      const large = orphanOf(1, { metadata: { note: "x".repeat(orphanSpoolFileBytesMax) } })
      assert.isFalse(yield* spool.append(large))
      assert.strictEqual(disk.root.entries.size, 0)
      yield* spool.append(orphanOf(2))
      for (let at = 2; at < orphanSpoolFilesMax; at += 1) {
        disk.root.entries.set(`filler-${at}`, makeFile(Buffer.alloc(0)))
      }
      assert.isTrue(yield* spool.append(orphanOf(3)))
      assert.isFalse(yield* spool.append(orphanOf(4)))
      // One that has its file already needs no room.
      assert.isTrue(yield* spool.append(orphanOf(2, { failureReason: "newer" })))
    })
  )

  it.effect("FC-19 what the spool could not read again is not taken for kept", () =>
    Effect.gen(function* () {
      const spool = yield* opened(yield* place)
      const strange = Object.assign(orphanOf(1), { later: "a field of another version" })
      assert.isFalse(yield* spool.append(strange))
      assert.deepStrictEqual(yield* spool.load, [])
    })
  )
})
