import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { execFileSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { registryFileBytesMax } from "../../../src/domain/Bounds.ts"
import { makeRegistry } from "../../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import type { FileCalls } from "../../../src/infra/filesystem/durable.ts"
import { ensureStateDirectory, layer, make } from "../../../src/infra/filesystem/RegistryFiles.ts"
import { carryOutHere } from "../../../src/infra/filesystem/diskSteps.ts"
import { sync, unlink } from "../../../src/domain/registry/RegistryFiles.ts"
import { nodeDisk } from "../../../src/infra/filesystem/diskThreads.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"
import {
  contentsOf,
  lookAt,
  openOn,
  proofOf,
  recordOf,
  roomy,
  sandboxOf,
  temporaryDirectory,
  withDeletion
} from "../../domain/registry/fixture.ts"

const recordFile = `records/${sandboxOf(1)}.json`

/** A committed layout with one record. */
const committed = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  yield* Effect.scoped(Effect.flatMap(openOn(directory), (registry) => registry.admit(recordOf(1))))
  return directory
})

/** Puts something else in the place of an entry, with the former content kept beside the state directory. */
const replacements: ReadonlyArray<
  readonly [name: string, replace: (path: string, elsewhere: string) => unknown]
> = [
  [
    "a link to its own content",
    (path, elsewhere) => {
      Files.renameSync(path, Path.join(elsewhere, "moved"))
      Files.symlinkSync(Path.join(elsewhere, "moved"), path)
    }
  ],
  [
    "a pipe",
    (path) => {
      Files.rmSync(path, { recursive: true })
      execFileSync("mkfifo", ["-m", "600", path])
    }
  ],
  [
    "an entry that is open to others",
    (path) => Files.chmodSync(path, Files.statSync(path).isDirectory() ? 0o755 : 0o644)
  ]
]

/** The calls to the system in their order, with names instead of descriptors. */
const recorded = () => {
  const order: Array<string> = []
  const names = new Map<number, string>()
  const nameOf = (path: string) => Path.basename(path).replace(/\.record-[0-9a-f-]{36}/, ".record-*")
  const calls: FileCalls = {
    ...Files,
    openSync: (path, flags, mode) => {
      order.push(`open ${nameOf(path)}`)
      const descriptor = Files.openSync(path, flags, mode)
      names.set(descriptor, nameOf(path))
      return descriptor
    },
    writeSync: (descriptor, bytes, at, length) => {
      order.push(`write ${names.get(descriptor)}`)
      return Files.writeSync(descriptor, bytes, at, length)
    },
    fsyncSync: (descriptor) => {
      order.push(`fsync ${names.get(descriptor)}`)
      Files.fsyncSync(descriptor)
    },
    renameSync: (from, to) => {
      order.push(`rename ${nameOf(from)} ${nameOf(to)}`)
      Files.renameSync(from, to)
    },
    unlinkSync: (path) => {
      order.push(`unlink ${nameOf(path)}`)
      Files.unlinkSync(path)
    }
  }
  return { order, disk: { calls, carryOut: carryOutHere(calls) } }
}

describe("filesystem/RegistryFiles", () => {
  it.live(
    "FC-18 RG-COM-01 the system sees write, fsync, rename, fsync of records/; and for a removal unlink, fsync",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const { disk, order } = recorded()
        const context = yield* Layer.build(Layer.merge(layer(directory, disk), identifiers))
        const registry = yield* Effect.provideContext(
          Effect.flatMap(openRegistry(), (opened) => makeRegistry(opened, roomy)),
          context
        )
        order.length = 0
        yield* registry.admit(recordOf(1))
        const file = `${sandboxOf(1)}.json`
        const put = [
          "open .record-*",
          "write .record-*",
          "fsync .record-*",
          `rename .record-* ${file}`,
          "fsync records"
        ]
        assert.deepStrictEqual(order, put)
        yield* registry.update(sandboxOf(1), withDeletion)
        order.length = 0
        yield* registry.remove(proofOf(sandboxOf(1)))
        assert.deepStrictEqual(order, [`unlink ${file}`, "fsync records"])
      })
  )

  it.live("the event loop goes on while a record is written: this thread makes no call that writes", () =>
    Effect.gen(function* () {
      const directory = yield* committed
      const refuse = (name: string) => () => assert.fail(`${name} blocks the event loop`)
      const blocking = [
        "writeSync",
        "fsyncSync",
        "renameSync",
        "unlinkSync",
        "fchmodSync",
        "mkdirSync",
        "readSync"
      ]
      const steered = { ...Files }
      const disk = { calls: steered, carryOut: nodeDisk.carryOut }
      const context = yield* Layer.build(Layer.merge(layer(directory, disk), identifiers))
      const registry = yield* Effect.provideContext(
        Effect.flatMap(openRegistry(), (opened) => makeRegistry(opened, roomy)),
        context
      )
      Object.assign(steered, Object.fromEntries(blocking.map((name) => [name, refuse(name)])))
      yield* registry.update(sandboxOf(1), withDeletion)
      yield* registry.remove(proofOf(sandboxOf(1)))
      assert.isTrue((yield* lookAt(directory)).size === 0)
    })
  )

  for (const [name, replace] of replacements) {
    for (const path of ["records", "sandboxes.json", "records/meta.json", recordFile]) {
      it.live(
        `RG-LAY-01 RG-LAY-02 ${name} in place of ${path} refuses the open, names it and touches nothing`,
        () =>
          Effect.gen(function* () {
            const directory = yield* committed
            const elsewhere = yield* temporaryDirectory
            replace(Path.join(directory, path), elsewhere)
            const before = [contentsOf(directory), contentsOf(elsewhere)]
            const refusal = yield* Effect.flip(lookAt(directory))
            assert.strictEqual(refusal._tag, "RegistryOpenRefused")
            assert.strictEqual("path" in refusal && refusal.path, path)
            assert.deepStrictEqual([contentsOf(directory), contentsOf(elsewhere)], before)
          })
      )
    }
  }

  it.live.each([".", "records", "runtime", "sandboxes.json", "records/meta.json", recordFile])(
    "RG-LAY-01 %s of another user is refused, where the test may give it away",
    (path) =>
      Effect.gen(function* () {
        if (process.geteuid?.() !== 0) return
        const directory = yield* committed
        Files.chownSync(Path.join(directory, path), 12_345, 12_345)
        const refusal = yield* Effect.flip(lookAt(directory))
        assert.strictEqual(refusal._tag, "RegistryOpenRefused")
        assert.include(refusal.message, "another user")
        assert.strictEqual(Files.statSync(Path.join(directory, path)).uid, 12_345)
      })
  )

  it.live("RG-LAY-02 a link in place of the state directory is refused, and so is a wrong mode of it", () =>
    Effect.gen(function* () {
      const directory = yield* committed
      const elsewhere = yield* temporaryDirectory
      const link = Path.join(elsewhere, "state")
      Files.symlinkSync(directory, link)
      for (const open of [lookAt(link), ensureStateDirectory(link)]) {
        assert.strictEqual(
          (yield* Effect.flip(open as Effect.Effect<unknown, Error>)).name,
          "RegistryOpenRefused"
        )
      }
      Files.chmodSync(directory, 0o701)
      for (const open of [lookAt(directory), ensureStateDirectory(directory)]) {
        const refusal = yield* Effect.flip(open as Effect.Effect<unknown, Error>)
        assert.include(refusal.message, "701")
      }
      assert.strictEqual(Files.statSync(directory).mode & 0o777, 0o701)
    })
  )

  it.live("RG-LAY-01 a state directory is made private, and one that is there is left as it is", () =>
    Effect.gen(function* () {
      const directory = Path.join(yield* temporaryDirectory, "state")
      yield* ensureStateDirectory(directory)
      assert.strictEqual(Files.statSync(directory).mode & 0o777, 0o700)
      yield* ensureStateDirectory(directory)
      const missing = yield* Effect.flip(ensureStateDirectory(Path.join(directory, "a/b")))
      assert.include(missing.message, "ENOENT")
    })
  )

  it.live("RG-LAY-02 a records directory that is swapped for a link while it is open is not followed", () =>
    Effect.gen(function* () {
      const directory = yield* committed
      const elsewhere = yield* temporaryDirectory
      const registry = yield* openOn(directory)
      Files.renameSync(Path.join(directory, "records"), Path.join(directory, "moved"))
      Files.symlinkSync(elsewhere, Path.join(directory, "records"))
      yield* registry.admit(recordOf(2))
      assert.deepStrictEqual(Files.readdirSync(elsewhere), [])
      assert.isTrue(Files.existsSync(Path.join(directory, "moved", `${sandboxOf(2)}.json`)))
    })
  )

  it.live.each(["sandboxes.json", "records/meta.json", recordFile])(
    "RG-LAY-08 a %s larger than its bound is refused by its size",
    (path) =>
      Effect.gen(function* () {
        const directory = yield* committed
        Files.truncateSync(Path.join(directory, path), registryFileBytesMax + 1)
        const refusal = yield* Effect.flip(lookAt(directory))
        assert.include(refusal.message, "larger than")
        assert.include(refusal.message, path)
      })
  )

  it.live("entries are told by their kind, what is missing by none, and a failure by its step and path", () =>
    Effect.gen(function* () {
      const directory = yield* committed
      Files.symlinkSync("/etc", Path.join(directory, "link"))
      const files = yield* make(directory)
      const kinds = Object.fromEntries(
        Option.getOrThrow(yield* files.list("state")).map(({ kind, name }) => [name, kind])
      )
      assert.deepStrictEqual(kinds, {
        "sandboxes.json": "file",
        records: "directory",
        runtime: "directory",
        link: "other"
      })
      assert.isTrue(Option.isNone(yield* files.list("nowhere")))
      assert.isTrue(Option.isNone(yield* files.read("records", "nothing.json")))
      const failure = yield* Effect.flip(files.carryOut("records", [unlink("nothing.json")]))
      assert.deepInclude(failure, { step: "unlink", path: "records/nothing.json", why: "ENOENT" })
      assert.strictEqual((yield* Effect.flip(files.carryOut("nowhere", [sync]))).why, "ENOENT")
      assert.strictEqual((yield* Effect.flip(files.makeDirectory("records"))).why, "EEXIST")
      assert.strictEqual((yield* Effect.flip(files.removeDirectory("records"))).why, "ENOTEMPTY")
    })
  )

  it.live("no descriptor is left open when the scope is closed", () =>
    Effect.gen(function* () {
      const directory = yield* committed
      const open = () => Files.readdirSync("/proc/self/fd").length
      const before = open()
      yield* lookAt(directory)
      assert.strictEqual(open(), before)
    })
  )
})
