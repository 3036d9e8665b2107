import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import * as Files from "node:fs"
import * as Net from "node:net"
import * as Path from "node:path"
import { carryOutHere } from "../../../src/infra/filesystem/diskSteps.ts"
import {
  below,
  checkEntry,
  ensurePrivateDirectory,
  type FileCalls,
  openDirectory,
  readPrivate
} from "../../../src/infra/filesystem/durable.ts"
import { errorName } from "../../../src/infra/filesystem/privateFiles.ts"
import { temporaryDirectory } from "../../domain/registry/fixture.ts"

const opened = Effect.gen(function* () {
  const path = yield* temporaryDirectory
  const descriptor = yield* Effect.acquireRelease(
    Effect.sync(() => openDirectory(path)),
    (directory) => Effect.sync(() => Files.closeSync(directory))
  )
  return { path, descriptor }
})

/** The real calls but for those given. */
const callsWith = (changed: Partial<FileCalls>): FileCalls => ({ ...Files, ...changed })

const create = (path: string, text: string, calls: FileCalls = Files) =>
  Effect.callback<string>((resume) =>
    carryOutHere(calls)([{ step: "create", path, text }], (failed) =>
      resume(Effect.succeed(failed === null ? "done" : failed.why))
    )
  )

/** The sentence of what is thrown. */
const thrownBy = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    return errorName(error)
  }
  return "nothing"
}

/** What may stand where a private file belongs, with the sentence of its refusal. */
const wrongKinds: ReadonlyArray<readonly [name: string, make: (path: string) => unknown, why: string]> = [
  ["symbolic link", (path) => Files.symlinkSync("/etc/hostname", path), "symbolic link"],
  ["link to nowhere", (path) => Files.symlinkSync("nowhere", path), "symbolic link"],
  ["pipe", (path) => execFileSync("mkfifo", ["-m", "600", path]), "regular file"],
  ["directory", (path) => Files.mkdirSync(path, { mode: 0o700 }), "regular file"],
  ["file of the group", (path) => Files.writeFileSync(path, "{}", { mode: 0o640 }), "640"],
  ["file of the world", (path) => Files.writeFileSync(path, "{}", { mode: 0o604 }), "604"],
  [
    "file of bytes that are no text",
    (path) => Files.writeFileSync(path, Buffer.from([0x22, 0xff]), { mode: 0o600 }),
    "UTF-8"
  ]
]

describe("filesystem/durable", () => {
  it.live.each(wrongKinds)(
    "RG-LAY-02 a %s is refused where a private file is read, without waiting",
    ([, make, why]) =>
      Effect.gen(function* () {
        const { descriptor, path } = yield* opened
        make(Path.join(path, "file"))
        assert.include(
          thrownBy(() => readPrivate(descriptor, "file", 100)),
          why
        )
      })
  )

  it.live("RG-LAY-02 a socket is refused where a private file is read", () =>
    Effect.gen(function* () {
      const { descriptor, path } = yield* opened
      yield* Effect.acquireRelease(
        Effect.callback<Net.Server>((resume) => {
          const server = Net.createServer()
          server.listen(Path.join(path, "file"), () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
      )
      assert.include(
        thrownBy(() => readPrivate(descriptor, "file", 100)),
        "socket"
      )
      assert.include(
        thrownBy(() => checkEntry(descriptor, { name: "file", kind: "file" })),
        "socket"
      )
    })
  )

  it.live("RG-LAY-08 a larger file is refused before a byte of it is read; one at the bound is read", () =>
    Effect.gen(function* () {
      const { descriptor, path } = yield* opened
      Files.writeFileSync(Path.join(path, "file"), "12345", { mode: 0o600 })
      const reads: Array<number> = []
      const calls: FileCalls = {
        ...Files,
        readSync: ((...given: Parameters<typeof Files.readSync>) => {
          reads.push(given[0])
          return Files.readSync(...given)
        }) as typeof Files.readSync
      }
      assert.include(
        thrownBy(() => readPrivate(descriptor, "file", 4, calls)),
        "larger than 4 bytes"
      )
      assert.deepStrictEqual(reads, [])
      assert.strictEqual(readPrivate(descriptor, "file", 5, calls), "12345")
    })
  )

  it.live("a file that shrinks while it is read is refused", () =>
    Effect.gen(function* () {
      const { descriptor, path } = yield* opened
      Files.writeFileSync(Path.join(path, "file"), "12345", { mode: 0o600 })
      const calls: FileCalls = {
        ...Files,
        fstatSync: ((file: number) => {
          const found = Files.fstatSync(file)
          Files.truncateSync(Path.join(path, "file"), 2)
          return found
        }) as typeof Files.fstatSync
      }
      assert.include(
        thrownBy(() => readPrivate(descriptor, "file", 100, calls)),
        "shorter"
      )
    })
  )

  it.live.each([
    ["open to others", (path: string) => Files.chmodSync(path, 0o710), "710"],
    ["another user's", () => undefined, "another user"]
  ] as const)("RG-LAY-01 a directory that is %s is refused and not repaired", ([, make, why]) =>
    Effect.gen(function* () {
      const path = yield* temporaryDirectory
      make(path)
      const calls: FileCalls = {
        ...Files,
        fstatSync: ((file: number) => {
          const found = Files.fstatSync(file)
          return why === "another user" ? Object.assign(found, { uid: found.uid + 1 }) : found
        }) as typeof Files.fstatSync
      }
      const mode = Files.statSync(path).mode
      assert.include(
        thrownBy(() => openDirectory(path, calls)),
        why
      )
      assert.strictEqual(Files.statSync(path).mode, mode)
    })
  )

  it.live("RG-LAY-02 a link or a file in place of the directory is refused", () =>
    Effect.gen(function* () {
      const path = yield* temporaryDirectory
      Files.symlinkSync(path, Path.join(path, "link"))
      Files.writeFileSync(Path.join(path, "file"), "")
      for (const name of ["link", "file"]) {
        assert.include(
          thrownBy(() => ensurePrivateDirectory(Path.join(path, name))),
          "link or not a directory"
        )
      }
    })
  )

  it.live("RG-LAY-01 a directory and a file are made private, whatever the umask", () =>
    Effect.gen(function* () {
      const { path } = yield* opened
      const before = yield* Effect.sync(() => process.umask(0))
      const restored = Effect.sync(() => process.umask(before))
      for (const umask of [0, 0o777]) {
        yield* Effect.gen(function* () {
          process.umask(umask)
          ensurePrivateDirectory(Path.join(path, `folder${umask}`))
          assert.strictEqual(yield* create(Path.join(path, `file${umask}`), "text"), "done")
        }).pipe(Effect.ensuring(restored))
        assert.strictEqual(Files.statSync(Path.join(path, `folder${umask}`)).mode & 0o777, 0o700)
        assert.strictEqual(Files.statSync(Path.join(path, `file${umask}`)).mode & 0o777, 0o600)
      }
    })
  )

  it.live("a file that is there is never written over, nor is a link followed to make one", () =>
    Effect.gen(function* () {
      const { path } = yield* opened
      Files.writeFileSync(Path.join(path, "file"), "old")
      Files.symlinkSync(Path.join(path, "target"), Path.join(path, "link"))
      assert.strictEqual(yield* create(Path.join(path, "file"), "new"), "EEXIST")
      assert.strictEqual(yield* create(Path.join(path, "link"), "new"), "EEXIST")
      assert.strictEqual(Files.readFileSync(Path.join(path, "file"), "utf8"), "old")
      assert.isFalse(Files.existsSync(Path.join(path, "target")))
    })
  )

  it.live("a disk that takes a few bytes at a time gets all of them before the file is synced", () =>
    Effect.gen(function* () {
      const { path } = yield* opened
      const order: Array<string> = []
      const calls = callsWith({
        writeSync: (descriptor, bytes, at, length) => {
          order.push("write")
          return Files.writeSync(descriptor, bytes, at, Math.min(3, length))
        },
        fsyncSync: (descriptor) => {
          order.push("fsync")
          Files.fsyncSync(descriptor)
        }
      })
      assert.strictEqual(yield* create(Path.join(path, "file"), "häppchen", calls), "done")
      assert.strictEqual(Files.readFileSync(Path.join(path, "file"), "utf8"), "häppchen")
      assert.deepStrictEqual(order, ["write", "write", "write", "fsync"])
    })
  )

  it.live.each(["openSync", "fchmodSync", "writeSync", "fsyncSync"] as const)(
    "RG-COM-07 a failing %s fails the write with its error's name, and leaves no descriptor open",
    (call) =>
      Effect.gen(function* () {
        const { path } = yield* opened
        for (const code of ["EIO", "ENOSPC", "EMFILE", "EACCES"]) {
          const failing = () => {
            throw Object.assign(new Error("no"), { code })
          }
          const calls = callsWith({ [call]: failing })
          const open = () => Files.readdirSync("/proc/self/fd").length
          const before = open()
          const umask = process.umask(call === "fchmodSync" ? 0o200 : 0o077)
          const answer = yield* create(Path.join(path, `${call}${code}`), "text", calls).pipe(
            Effect.ensuring(Effect.sync(() => process.umask(umask)))
          )
          assert.strictEqual(answer, code)
          assert.strictEqual(open(), before)
        }
      })
  )

  it.live("a name below an open directory stays in it when the directory is swapped", () =>
    Effect.gen(function* () {
      const { descriptor, path } = yield* opened
      const elsewhere = yield* temporaryDirectory
      Files.renameSync(path, `${path}-moved`)
      Files.symlinkSync(elsewhere, path)
      assert.strictEqual(yield* create(below(descriptor, "file"), "text"), "done")
      assert.deepStrictEqual(Files.readdirSync(elsewhere), [])
      assert.deepStrictEqual(Files.readdirSync(`${path}-moved`), ["file"])
      Files.rmSync(path)
      Files.rmSync(`${path}-moved`, { recursive: true })
    })
  )
})
