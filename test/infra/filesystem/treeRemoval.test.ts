/** Trees of any shape that a guest may leave: deep, wide, closed, of strange names and kinds, of other users. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn, spawnSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { removeEntries } from "../../../src/infra/filesystem/treeRemoval.ts"
import { waitFor } from "../../support/waiting.ts"
import {
  asUser,
  entriesLeft,
  type HostileTree,
  isRoot,
  kept,
  keptNames,
  makeTree,
  nobody,
  removeAll,
  victimOf
} from "./hostileTree.ts"

const slowMillisMax = 120_000
const stranger = 54_321

const below = (directory: string, name: Buffer): Buffer => Buffer.concat([Buffer.from(`${directory}/`), name])

/** Modes that keep others, the owner too, from listing, entering or changing a directory. */
const closedModes = [0o000, 0o100, 0o200, 0o300, 0o400, 0o444, 0o500, 0o555, 0o1000, 0o2111, 0o7000]

/** Directories of every such mode, one in the other and beside each other, each with a closed file. */
const makeClosed = (workspace: string): void => {
  const nested = closedModes.map((_, at) => closedModes.slice(0, at + 1).join("/"))
  for (const path of [...nested, ...closedModes.map((mode) => `beside-${mode}`)]) {
    Files.mkdirSync(Path.join(workspace, path), { recursive: true })
    Files.writeFileSync(Path.join(workspace, path, "file"), "x", { mode: 0 })
  }
  for (const mode of closedModes) Files.chmodSync(Path.join(workspace, `beside-${mode}`), mode)
  for (const [at, path] of [...nested.entries()].toReversed()) {
    Files.chmodSync(Path.join(workspace, path), closedModes[at]!)
  }
}

/** Gives the whole tree to another user, as a guest's is. */
const giveTo = (user: number, { directory, home }: HostileTree): void => {
  if (!isRoot) return
  spawnSync("chown", ["-Rh", `${user}:${user}`, directory])
  Files.chmodSync(home, 0o711)
}

/** A tree built from the inside out, so that no path is ever long. */
const makeDeep = (workspace: string, levels: number): void => {
  const [inner, outer] = [Path.join(workspace, "inner"), Path.join(workspace, "outer")]
  Files.mkdirSync(inner)
  Files.writeFileSync(Path.join(inner, "file"), "")
  for (let level = 0; level < levels; level += 1) {
    Files.mkdirSync(outer)
    Files.renameSync(inner, Path.join(outer, "d"))
    Files.renameSync(outer, inner)
  }
}

const makeMany = (workspace: string, count: number): void => {
  for (let number = 0; number < count; number += 1) {
    Files.closeSync(Files.openSync(Path.join(workspace, `file-with-a-name-of-some-length-${number}`), "wx"))
  }
}

/** Bytes that are in use, garbage not counted. */
const bytesInUse = (): number => {
  setFlagsFromString("--expose-gc")
  const collect: unknown = runInNewContext("gc")
  if (typeof collect === "function") collect()
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

/** Takes the removal that many steps far. */
const take = (removal: Generator<void>, steps: number): void => {
  for (let step = 0; step < steps; step += 1) assert.isFalse(removal.next().done === true)
}

const emptied = (tree: HostileTree) => assert.deepStrictEqual(entriesLeft(tree), keptNames)

const declareShapes = (): void => {
  it.effect(
    "RG-DEL-08 10,000 levels are removed by an unprivileged user too, each within a bounded number of steps",
    () =>
      Effect.gen(function* () {
        const tree = yield* makeTree
        makeDeep(tree.workspace, 10_000)
        giveTo(nobody, tree)
        assert.isBelow(
          asUser(nobody, () => removeAll(tree)),
          3 * 10_000
        )
        emptied(tree)
      }),
    slowMillisMax
  )

  it.effect(
    "RG-DEL-08 100,000 entries of one directory are removed one at a time, within bounded memory",
    () =>
      Effect.gen(function* () {
        const tree = yield* makeTree
        makeMany(tree.workspace, 100_000)
        const before = bytesInUse()
        const removal = removeEntries(tree.directory, kept)
        take(removal, 50_000)
        const grown = bytesInUse() - before
        assert.isBelow(grown, 4 * 1024 ** 2)
        for (const _ of removal);
        emptied(tree)
      }),
    slowMillisMax
  )

  it.effect("RG-DEL-08 names of any bytes are removed, of files and of directories", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      const bytes = Array.from({ length: 256 }, (_, byte) => byte).filter(
        (byte) => ![0, 0x2e, 0x2f].includes(byte)
      )
      const names = [
        ...bytes.map((byte) => Buffer.from([byte])),
        ...["a\nb", "-rf", "...", ".. ", "\\012", "%2f", "\u202e", "😀"].map((name) => Buffer.from(name)),
        Buffer.from([0xed, 0xa0, 0x80]),
        Buffer.from([0xc0, 0xaf]),
        Buffer.alloc(255, 0xff)
      ]
      for (const [at, name] of names.entries()) {
        const path = below(tree.workspace, name)
        if (at % 2 === 0) Files.mkdirSync(Buffer.concat([path]))
        Files.writeFileSync(at % 2 === 0 ? Buffer.concat([path, Buffer.from("/"), name]) : path, "x")
      }
      assert.strictEqual(Files.readdirSync(tree.workspace, { encoding: "buffer" }).length, names.length)
      removeAll(tree)
      emptied(tree)
    })
  )

  it.effect("RG-DEL-08 names of the removal's own and of what is kept are removed below the top", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      for (const name of [".trash-000000000000-1", ...kept]) {
        Files.mkdirSync(Path.join(tree.workspace, name, name), { recursive: true })
        if (!kept.has(name)) Files.mkdirSync(Path.join(tree.directory, name, name), { recursive: true })
      }
      removeAll(tree)
      emptied(tree)
      for (const name of kept) {
        assert.strictEqual(Files.readFileSync(Path.join(tree.directory, name), "utf8"), name)
      }
    })
  )

  it.live("RG-DEL-08 pipes, sockets and devices are removed and never opened", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      const at = (name: string) => Path.join(tree.workspace, name)
      spawnSync("mkfifo", [at("pipe"), Path.join(tree.directory, "pipe")])
      if (isRoot) spawnSync("sh", ["-c", `mknod ${at("null")} c 1 3; mknod ${at("disk")} b 7 200`])
      const listen = `require("node:net").createServer().listen(process.argv[1])`
      yield* Effect.scoped(
        Effect.gen(function* () {
          // A socket that somebody listens at: whoever connected would be heard.
          yield* Effect.acquireRelease(
            Effect.sync(() => spawn(process.execPath, ["-e", listen, at("socket")], { stdio: "ignore" })),
            (child) => Effect.sync(() => child.kill("SIGKILL"))
          )
          const look = Effect.sync(() => Files.existsSync(at("socket")))
          yield* waitFor({ fact: "the socket is there", look, holds: (is) => is, deadlineMillis: 20_000 })
          removeAll(tree)
        })
      )
      emptied(tree)
    })
  )
}

const declareUsers = (): void => {
  it.effect("RG-DEL-08 directories without permissions are removed, by their own unprivileged user", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      makeClosed(tree.workspace)
      giveTo(nobody, tree)
      asUser(nobody, () => removeAll(tree))
      emptied(tree)
    })
  )

  it.effect("RG-DEL-08 directories without permissions and files of other users are removed by root", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      makeClosed(tree.workspace)
      giveTo(stranger, tree)
      if (isRoot) Files.chownSync(Path.join(tree.workspace, "beside-0", "file"), nobody, nobody)
      removeAll(tree)
      emptied(tree)
    })
  )

  it.effect("RG-DEL-08 an unprivileged user removes another's file from his own directory", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      giveTo(nobody, tree)
      Files.writeFileSync(Path.join(tree.workspace, "of-root"), "x", { mode: 0o400 })
      asUser(nobody, () => removeAll(tree))
      emptied(tree)
    })
  )

  it.effect(
    "RG-DEL-05 what another user keeps closed stops an unprivileged removal, and nothing is lost of it",
    () =>
      Effect.gen(function* () {
        if (!isRoot) return
        const tree = yield* makeTree
        giveTo(nobody, tree)
        const closed = Path.join(tree.workspace, "closed")
        Files.mkdirSync(Path.join(closed, "inner"), { recursive: true, mode: 0o700 })
        assert.throws(() => asUser(nobody, () => removeAll(tree)), /EACCES|EPERM/)
        assert.isAbove(entriesLeft(tree).length, keptNames.length)
        removeAll(tree)
        emptied(tree)
      })
  )

  it.effect("RG-DEL-08 a hard link is removed and the victim's file is as it was", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      const before = victimOf(tree)
      for (const name of ["file", "inner/file"]) {
        Files.linkSync(Path.join(tree.victim, name), Path.join(tree.workspace, name.replace("/", "-")))
      }
      assert.notDeepEqual(victimOf(tree), before)
      removeAll(tree)
      emptied(tree)
      assert.deepStrictEqual(victimOf(tree), before)
    })
  )
}

const declareInterruptions = (): void => {
  it.effect(
    "RG-DEL-05 cut short at any step it has left everything inside and no descriptor open, and goes on",
    () =>
      Effect.gen(function* () {
        const grow = ({ directory, workspace }: HostileTree) => {
          makeDeep(workspace, 3)
          Files.mkdirSync(Path.join(workspace, "closed/inner"), { recursive: true })
          Files.chmodSync(Path.join(workspace, "closed"), 0)
          Files.symlinkSync("/", Path.join(directory, "link"))
        }
        const openFiles = () => Files.readdirSync("/proc/self/fd").length
        const whole = yield* makeTree
        grow(whole)
        const steps = removeAll(whole)
        assert.isAbove(steps, 8)
        for (let step = 0; step <= steps; step += 1) {
          const tree = yield* makeTree
          grow(tree)
          const opened = openFiles()
          const removal = removeEntries(tree.directory, kept)
          take(removal, step)
          removal.return(undefined)
          assert.strictEqual(openFiles(), opened)
          assert.deepStrictEqual(Files.readdirSync(tree.home).toSorted(), ["sandbox", "victim"])
          removeAll(tree)
          emptied(tree)
        }
      })
  )
}

describe("removing a guest's files", () => {
  declareShapes()
  declareUsers()
  declareInterruptions()
})
