import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Readline from "node:readline"
import { fileURLToPath } from "node:url"
import { lockHolderBytesMax } from "../../../src/domain/Bounds.ts"
import {
  holdStateDirectory,
  lockDescriptor,
  lockName,
  openLockFile
} from "../../../src/infra/filesystem/OwnerLock.ts"
import { contentsOf, temporaryDirectory } from "../../domain/registry/fixture.ts"

const holderProgram = fileURLToPath(new URL("lockHolder.ts", import.meta.url))

interface Holder {
  readonly process: ChildProcess
  /** What it has said first. */
  readonly said: string
}

/** Another process that tries to hold the directory; it is killed with the scope. */
const startHolder = (directory: string, ...options: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.promise(async (): Promise<Holder> => {
      const child = spawn(process.execPath, [holderProgram, directory, ...options], {
        stdio: ["ignore", "pipe", "inherit"]
      })
      const [said] = await once(Readline.createInterface({ input: child.stdout! }), "line")
      return { process: child, said: String(said) }
    }),
    (holder) => kill(holder)
  )

const kill = ({ process: child }: Holder) =>
  Effect.promise(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill("SIGKILL")
    await once(child, "exit")
  })

const hold = (directory: string) => holdStateDirectory(directory, "pid 1, daemon here")

describe("filesystem/OwnerLock", () => {
  it.live(
    "RG-LAY-03 a second daemon is refused with the holder's identity and touches nothing; kill -9 frees the lock",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        Files.writeFileSync(Path.join(directory, "sandboxes.json"), "{}", { mode: 0o600 })
        const first = yield* startHolder(directory)
        assert.match(first.said, /^held/)
        const before = [contentsOf(directory), Files.statSync(Path.join(directory, lockName)).mtimeMs]
        const second = yield* startHolder(directory)
        assert.include(second.said, "StateDirectoryHeld")
        assert.include(second.said, `pid ${first.process.pid}`)
        yield* Effect.promise(async () => second.process.exitCode ?? once(second.process, "exit"))
        assert.strictEqual(second.process.exitCode, 1)
        const here = yield* Effect.flip(hold(directory))
        assert.deepInclude(here, {
          _tag: "StateDirectoryHeld",
          holder: `pid ${first.process.pid}, daemon test`
        })
        assert.deepStrictEqual(
          [contentsOf(directory), Files.statSync(Path.join(directory, lockName)).mtimeMs],
          before
        )
        yield* kill(first)
        yield* hold(directory)
        assert.strictEqual(Files.readFileSync(Path.join(directory, lockName), "utf8"), "pid 1, daemon here\n")
      })
  )

  it.live("RG-LAY-03 a child that outlives its daemon does not keep the lock", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const first = yield* startHolder(directory, "child")
      const child = Number(first.said.split(" ")[1])
      yield* Effect.addFinalizer(() => Effect.sync(() => process.kill(child, "SIGKILL")))
      yield* kill(first)
      assert.isTrue(Files.existsSync(`/proc/${child}`))
      yield* hold(directory)
    })
  )

  it.live(
    "RG-LAY-03 the lock is held against others of the same process, and given back with the scope",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* hold(directory)
            assert.strictEqual(
              (yield* Effect.flip(Effect.scoped(hold(directory))))._tag,
              "StateDirectoryHeld"
            )
          })
        )
        yield* hold(directory)
      })
  )

  it.live.each([
    ["nothing", ""],
    ["abc", "abc"],
    ["5 MiB", "x".repeat(5 * 1024 ** 2)],
    ["a live pid of somebody else", `${process.ppid}\n`],
    ["NUL bytes", "\0".repeat(4_096)]
  ] as const)("FC-17 RG-LAY-03 a lock file that holds %s does not matter", ([, content]) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      Files.writeFileSync(Path.join(directory, lockName), content, { mode: 0o600 })
      yield* hold(directory)
      assert.strictEqual(Files.readFileSync(Path.join(directory, lockName), "utf8"), "pid 1, daemon here\n")
    })
  )

  it.live("a holder's words are shown cut and without control characters, and their absence is told", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* hold(directory)
      const refusedWith = Effect.map(Effect.flip(Effect.scoped(hold(directory))), (refusal) =>
        "holder" in refusal ? refusal.holder : ""
      )
      Files.writeFileSync(Path.join(directory, lockName), `\u001b[31mred\n${"x".repeat(5_000_000)}`)
      const shown = yield* refusedWith
      assert.isAtMost(shown.length, lockHolderBytesMax)
      assert.match(shown, /^\[31mredx+$/)
      Files.truncateSync(Path.join(directory, lockName), 0)
      assert.include(yield* refusedWith, "has not said")
    })
  )

  it.live.each([
    ["a link", (path: string, target: string) => Files.symlinkSync(target, path)],
    [
      "a link to nowhere",
      (path: string, target: string) => {
        Files.rmSync(target)
        Files.symlinkSync(target, path)
      }
    ],
    ["a pipe", (path: string) => execFileSync("mkfifo", ["-m", "600", path])],
    ["a directory", (path: string) => Files.mkdirSync(path)]
  ] as const)("RG-LAY-02 %s in place of the lock is refused without waiting, and left alone", ([, make]) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const elsewhere = yield* temporaryDirectory
      const target = Path.join(elsewhere, "target")
      Files.writeFileSync(target, "untouched")
      make(Path.join(directory, lockName), target)
      const before = contentsOf(elsewhere)
      const refusal = yield* Effect.flip(hold(directory))
      assert.deepInclude(refusal, { _tag: "RegistryOpenRefused", path: lockName })
      assert.deepStrictEqual(contentsOf(elsewhere), before)
    })
  )

  it.live(
    "RG-LAY-01 the lock file is private afterwards, and an open directory is refused before it is made",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        Files.writeFileSync(Path.join(directory, lockName), "", { mode: 0o666 })
        yield* hold(directory)
        assert.strictEqual(Files.statSync(Path.join(directory, lockName)).mode & 0o777, 0o600)
        const open = yield* temporaryDirectory
        Files.chmodSync(open, 0o755)
        assert.strictEqual((yield* Effect.flip(hold(open)))._tag, "RegistryOpenRefused")
        assert.deepStrictEqual(Files.readdirSync(open), [])
      })
  )

  it.live("RG-LAY-03 another open file of the same name is refused while one is locked", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, lockName)
      const descriptors = [openLockFile(path), openLockFile(path)]
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => descriptors.forEach((each) => Files.closeSync(each)))
      )
      assert.deepStrictEqual(descriptors.map(lockDescriptor), ["held", "held elsewhere"])
    })
  )

  /** Holds the directory while the program `flock` is this script, or missing. */
  const holdBy = (directory: string, script: string | null) =>
    Effect.gen(function* () {
      const programs = yield* temporaryDirectory
      const path = process.env["PATH"]
      if (script !== null) {
        Files.writeFileSync(Path.join(programs, "flock"), `#!/bin/sh\nPATH='${path}'\n${script}\n`, {
          mode: 0o755
        })
      }
      yield* Effect.acquireRelease(
        Effect.sync(() => (process.env["PATH"] = programs)),
        () => Effect.sync(() => (process.env["PATH"] = path))
      )
      return yield* Effect.flip(hold(directory))
    }).pipe(Effect.scoped)

  it.live("RG-LAY-03 a lock file that was replaced while it was taken is no lock, and is left alone", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const path = Path.join(directory, lockName)
      const refusal = yield* holdBy(directory, `rm '${path}'; echo theirs > '${path}'; exec flock "$@"`)
      assert.include(refusal.message, "replaced")
      assert.strictEqual(Files.readFileSync(path, "utf8"), "theirs\n")
    })
  )

  it.live.each([null, "exit 1"])("RG-LAY-03 nothing is held when flock is missing or fails (%s)", (script) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const refusal = yield* holdBy(directory, script)
      assert.deepInclude(refusal, { _tag: "RegistryOpenRefused", path: lockName })
      assert.include(refusal.message, "util-linux")
    })
  )
})
