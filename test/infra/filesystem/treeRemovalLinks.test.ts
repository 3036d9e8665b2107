/** Links and mounts that would lead the removal of a guest's files out of its directory, also put there meanwhile. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as Files from "node:fs"
import * as Path from "node:path"
import { removeEntries } from "../../../src/infra/filesystem/treeRemoval.ts"
import {
  between,
  type Call,
  entriesLeft,
  type HostileTree,
  isRoot,
  kept,
  keptNames,
  makeTree,
  removeAll,
  victimOf
} from "./hostileTree.ts"

/** The name behind a path that goes through a descriptor of the removal. */
const nameOf = (path: unknown): string => (Buffer.isBuffer(path) ? Path.basename(path.toString()) : "")

const isThere = (path: string): boolean => Files.lstatSync(path, { throwIfNoEntry: false }) !== undefined

/** Every way in which a name can lead to the victim. */
const plant = ({ directory, victim, workspace }: HostileTree): void => {
  Files.mkdirSync(Path.join(workspace, "deep/er"), { recursive: true })
  const places = [directory, Path.join(directory, "run"), workspace, Path.join(workspace, "deep/er")]
  for (const place of places) {
    Files.symlinkSync(victim, Path.join(place, "to-directory"))
    Files.symlinkSync(Path.join(victim, "file"), Path.join(place, "to-file"))
    Files.symlinkSync(Path.relative(place, victim), Path.join(place, "relative"))
    Files.symlinkSync("/proc/self/root", Path.join(place, "to-root"))
    Files.symlinkSync("..", Path.join(place, "up"))
    Files.symlinkSync("loop", Path.join(place, "loop"))
    Files.symlinkSync("nowhere", Path.join(place, "dangling"))
    Files.symlinkSync("to-directory/inner", Path.join(place, "through"))
    Files.linkSync(Path.join(victim, "file"), Path.join(place, "hard"))
    Files.symlinkSync(victim, Path.join(place, ".trash-000000000000-1"))
  }
}

interface Swap {
  readonly call: Call
  /** How the name begins at which the call is met; what was moved up has such a name of the removal's. */
  readonly at: string
  /** How many such calls pass before. */
  readonly passed?: number
}

/** Each call of the removal that a name is handed to, when it is about to be made for the guest's own entry. */
const swaps: ReadonlyArray<Swap> = [
  { call: "openSync", at: "swapped" },
  { call: "renameSync", at: "swapped" },
  { call: "unlinkSync", at: "swapped" },
  { call: "openSync", at: ".trash-" },
  { call: "openSync", at: ".trash-", passed: 1 },
  { call: "rmdirSync", at: ".trash-" }
]

/** Puts a link to the victim in the place of an entry, which is kept aside, still inside. */
const swap = (tree: HostileTree, path: Buffer): void => {
  Files.renameSync(path, Path.join(tree.directory, "aside"))
  Files.symlinkSync(tree.victim, path)
}

const removeDespite = (tree: HostileTree): void => {
  try {
    removeAll(tree)
  } catch (error) {
    // A name that has become something else may stop the removal; it is begun again.
    assert.include(
      ["ENOTDIR", "ELOOP", "ENOENT", "ENOTEMPTY", "EISDIR"],
      (error as NodeJS.ErrnoException).code
    )
  }
}

const declareSwaps = (): void => {
  for (const kind of ["directory", "file"] as const) {
    for (const { at, call, passed = 0 } of swaps) {
      if (kind === "file" && (at !== "swapped" || call !== "unlinkSync")) continue
      if (kind === "directory" && call === "unlinkSync") continue
      it.effect(
        `RG-DEL-08 a ${kind} that becomes a link right before ${call} ${passed + 1} of ${at} leads nowhere`,
        () =>
          Effect.gen(function* () {
            const tree = yield* makeTree
            const before = victimOf(tree)
            const path = Path.join(tree.workspace, "swapped")
            if (kind === "file") Files.writeFileSync(path, "x")
            else Files.mkdirSync(Path.join(path, "inner"), { recursive: true })
            let calls = 0
            const strike = (given: unknown): boolean => {
              if (!Buffer.isBuffer(given) || !nameOf(given).startsWith(at) || (calls += 1) <= passed)
                return false
              swap(tree, given)
              return true
            }
            assert.isTrue(between(call, strike, () => removeDespite(tree)))
            assert.deepStrictEqual(victimOf(tree), before)
            removeAll(tree)
            assert.deepStrictEqual(entriesLeft(tree), keptNames)
            assert.deepStrictEqual(victimOf(tree), before)
          })
      )
    }
  }

  it.effect(
    "RG-DEL-08 permissions are given to the directory that was looked at, not to what has its name by then",
    () =>
      Effect.gen(function* () {
        const tree = yield* makeTree
        const before = victimOf(tree)
        Files.mkdirSync(Path.join(tree.workspace, "swapped"))
        Files.chmodSync(Path.join(tree.workspace, "swapped"), 0)
        const strike = (): boolean => {
          const moved = Files.readdirSync(tree.directory).filter((name) => name.startsWith(".trash-"))
          const path = moved.map((name) => Path.join(tree.directory, name, "swapped")).find(isThere)
          if (path !== undefined) swap(tree, Buffer.from(path))
          return path !== undefined
        }
        assert.isTrue(between("chmodSync", strike, () => removeDespite(tree)))
        assert.deepStrictEqual(victimOf(tree), before)
        removeAll(tree)
        assert.deepStrictEqual(entriesLeft(tree), keptNames)
      })
  )

  it.effect("RG-DEL-08 a file that becomes a directory right before its removal is removed as one", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      const path = Path.join(tree.workspace, "swapped")
      Files.writeFileSync(path, "x")
      const strike = (given: unknown): boolean => {
        if (!Buffer.isBuffer(given) || nameOf(given) !== "swapped") return false
        Files.unlinkSync(given)
        Files.mkdirSync(given)
        return true
      }
      assert.isTrue(between("unlinkSync", strike, () => removeDespite(tree)))
      removeAll(tree)
      assert.deepStrictEqual(entriesLeft(tree), keptNames)
    })
  )
}

/** Turns directories into links to the victim and back as fast as it can, until it is killed. */
const racing = `
  const f = require("node:fs")
  const [workspace, victim] = process.argv.slice(1)
  const attempt = (run) => { try { run() } catch {} }
  process.stdout.write("racing\\n")
  for (;;) {
    for (let n = 0; n < 8; n += 1) {
      const [name, aside] = [workspace + "/d" + n, workspace + "/aside" + n]
      attempt(() => f.mkdirSync(name + "/inner", { recursive: true }))
      attempt(() => f.writeFileSync(name + "/inner/file", ""))
      attempt(() => f.renameSync(name, aside))
      attempt(() => f.symlinkSync(victim, name))
      attempt(() => f.unlinkSync(name))
      attempt(() => f.renameSync(aside, name))
    }
  }
`
const raceMillis = 1_500

const makeRacer = ({ victim, workspace }: HostileTree) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const racer = spawn(process.execPath, ["-e", racing, workspace, victim], {
        stdio: ["ignore", "pipe", "ignore"]
      })
      await once(racer.stdout, "data")
      return racer
    }),
    (racer) =>
      Effect.promise(async () => {
        const ended = once(racer, "exit")
        racer.kill("SIGKILL")
        await ended
      })
  )

/** What is mounted in the directory, and where. */
const mounts: ReadonlyArray<
  readonly [string, (tree: HostileTree) => readonly [string, ReadonlyArray<string>]]
> = [
  ["the victim, in the workspace", (tree) => [Path.join(tree.workspace, "mount"), ["--bind", tree.victim]]],
  ["the victim, at the top", (tree) => [Path.join(tree.directory, "mount"), ["--bind", tree.victim]]],
  ["another file system", (tree) => [Path.join(tree.workspace, "mount"), ["-t", "tmpfs", "holdfast"]]]
]

const declareMounts = (): void => {
  it.effect.each(mounts)("RG-DEL-08 what is mounted inside is refused, not emptied: %s", ([, place]) =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      const [path, words] = place(tree)
      if (!isRoot) return
      const before = victimOf(tree)
      Files.mkdirSync(path)
      Files.writeFileSync(Path.join(tree.workspace, "file"), "")
      yield* Effect.acquireUseRelease(
        Effect.sync(() => spawnSync("mount", [...words, path], { encoding: "utf8" })),
        ({ stderr, status }) =>
          Effect.sync(() => {
            assert.strictEqual(status, 0, stderr)
            assert.throws(() => removeAll(tree), /mounted/)
            assert.isTrue(isThere(Path.join(tree.workspace, "file")))
          }),
        () => Effect.sync(() => spawnSync("umount", [path]))
      )
      assert.deepStrictEqual(victimOf(tree), before)
      removeAll(tree)
      assert.deepStrictEqual(entriesLeft(tree), keptNames)
      assert.deepStrictEqual(victimOf(tree), before)
    })
  )
}

describe("links out of a guest's files", () => {
  it.effect("RG-DEL-08 links of every kind are removed themselves, and what they name is untouched", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      const before = victimOf(tree)
      plant(tree)
      removeAll(tree)
      assert.deepStrictEqual(entriesLeft(tree), keptNames)
      assert.deepStrictEqual(victimOf(tree), before)
    })
  )

  it.effect("RG-DEL-08 a link in the place of the directory itself is refused", () =>
    Effect.gen(function* () {
      const tree = yield* makeTree
      const before = victimOf(tree)
      const link = Path.join(tree.home, "link")
      Files.symlinkSync(tree.victim, link)
      assert.throws(() => removeEntries(link, kept).next(), /ENOTDIR|ELOOP/)
      assert.deepStrictEqual(victimOf(tree), before)
    })
  )

  declareSwaps()

  it.live(
    "RG-DEL-08 a process that swaps directories and links all the while never leads it to the victim",
    () =>
      Effect.gen(function* () {
        const tree = yield* makeTree
        const before = victimOf(tree)
        let removals = 0
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* makeRacer(tree)
            const end = performance.now() + raceMillis
            for (; performance.now() < end; removals += 1) {
              try {
                for (const _ of removeEntries(tree.workspace, kept)) if (performance.now() > end) break
              } catch (error) {
                assert.isString((error as NodeJS.ErrnoException).code)
              }
            }
          })
        )
        assert.isAbove(removals, 1)
        assert.deepStrictEqual(victimOf(tree), before)
        removeAll(tree)
        assert.deepStrictEqual(entriesLeft(tree), keptNames)
        assert.deepStrictEqual(victimOf(tree), before)
      })
  )

  declareMounts()
})
