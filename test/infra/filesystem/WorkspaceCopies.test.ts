/** Copies of whatever a guest may leave in its workspace, by the system's own programs on a real disk. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { Disks } from "../../../src/domain/runtimes/Disks.ts"
import { WorkspaceCopies } from "../../../src/domain/runtimes/WorkspaceCopies.ts"
import * as DisksAdapter from "../../../src/infra/filesystem/Disks.ts"
import { layer, partOf } from "../../../src/infra/filesystem/WorkspaceCopies.ts"

const project = ProjectId.make(7)
const isRoot = process.getuid?.() === 0
const longAgo = new Date("2001-02-03T04:05:06Z")
const tebibyte = 1024 ** 4

interface Place {
  readonly copies: WorkspaceCopies["Service"]
  readonly disks: Disks["Service"]
  readonly state: string
  readonly from: string
  readonly to: string
}

const place = (options: Parameters<typeof layer>[0] = {}) =>
  Effect.gen(function* () {
    const state = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const made = Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-copies-"))
        Files.mkdirSync(Path.join(made, "disks"), { mode: 0o711 })
        return made
      }),
      (made) =>
        Effect.sync(() => {
          for (const pid of programsAt(Path.join(made, "disks", String(project), "to")))
            process.kill(pid, "SIGKILL")
          execFileSync("rm", ["-rf", "--", made])
        })
    )
    const services = yield* Layer.build(
      layer(options).pipe(Layer.provideMerge(DisksAdapter.layer({ stateDirectory: state })))
    )
    const get = Effect.provideContext(Effect.all([WorkspaceCopies, Disks]), services)
    const [copies, disks] = yield* get
    const [from, to] = [disks.pathOf(project, "from"), disks.pathOf(project, "to")]
    yield* disks.ensure(from)
    return { copies, disks, state, from, to } satisfies Place
  })

/** Everything that a copy has to keep of an entry. */
const detailsOf = (path: Buffer) => {
  const { blocks, gid, mode, mtimeMs, nlink, size, uid } = Files.lstatSync(path)
  const isFile = (mode & 0o170000) === 0o100000
  return { gid, mode, mtimeMs, uid, nlink, ...(isFile ? { size, isSparse: blocks * 512 < size } : {}) }
}

const entriesOf = (directory: string) =>
  Files.readdirSync(directory, { encoding: "buffer" })
    .toSorted(Buffer.compare)
    .map((name) => [name.toString("latin1"), detailsOf(Buffer.concat([Buffer.from(`${directory}/`), name]))])

const fill = ({ from, state }: Place): string => {
  const victim = Path.join(state, "victim")
  Files.mkdirSync(victim)
  Files.writeFileSync(Path.join(victim, "precious"), "ours")
  const at = (name: string) => Path.join(from, name)
  Files.writeFileSync(at("file"), "content", { mode: 0o640 })
  Files.linkSync(at("file"), at("hard-link"))
  Files.symlinkSync(victim, at("link-to-directory"))
  Files.symlinkSync("../../../victim/precious", at("link-to-file"))
  Files.symlinkSync("nowhere", at("dangling"))
  execFileSync("mkfifo", [at("pipe")])
  Files.writeFileSync(at("sparse"), "")
  Files.truncateSync(at("sparse"), tebibyte)
  Files.writeFileSync(Buffer.concat([Buffer.from(`${from}/`), Buffer.from([0xff, 0xfe, 0x0a])]), "bytes")
  Files.writeFileSync(at("-rf"), "an option")
  Files.writeFileSync(at("set"), "bits", { mode: 0o755 })
  Files.chmodSync(at("set"), 0o4755)
  Files.mkdirSync(Path.join(from, "deep/er"), { recursive: true })
  if (isRoot) Files.lchownSync(at("file"), 30_123, 30_124)
  for (const name of ["file", "sparse", "deep/er", "deep"]) Files.utimesSync(at(name), longAgo, longAgo)
  return victim
}

const onPlace = <E>(body: (given: Place) => Effect.Effect<void, E>, options?: Parameters<typeof layer>[0]) =>
  Effect.scoped(Effect.flatMap(place(options), body))

describe("WorkspaceCopies", () => {
  it.live("keeps links, hard links, holes, pipes, times, modes, owners and names, and follows no link", () =>
    onPlace((given) =>
      Effect.gen(function* () {
        const { copies, from, to } = given
        const victim = fill(given)
        const before = entriesOf(from)
        yield* copies.copy({ from, to })
        assert.isFalse(Files.existsSync(to), "what is not durable has not its own name")
        yield* copies.publish(to)
        assert.isFalse(Files.existsSync(partOf(to)))
        assert.deepStrictEqual(entriesOf(to), before)
        assert.deepStrictEqual(entriesOf(from), before, "what is copied is left alone")
        const [one, other] = ["file", "hard-link"].map((name) => Files.statSync(Path.join(to, name)).ino)
        assert.strictEqual(one, other)
        assert.strictEqual(Files.readlinkSync(Path.join(to, "link-to-directory")), victim)
        assert.strictEqual(Files.readFileSync(Path.join(to, "file"), "utf8"), "content")
        assert.strictEqual(Files.statSync(Path.join(to, "sparse")).size, tebibyte)
        assert.isBelow(yield* copies.bytesOf(to), 1024 ** 2)
        assert.deepStrictEqual(Files.readdirSync(victim), ["precious"])
      })
    )
  )

  it.live(
    "what an earlier try has left beside the place is made anew, and an empty directory in the way goes",
    () =>
      onPlace(({ copies, from, to }) =>
        Effect.gen(function* () {
          Files.writeFileSync(Path.join(from, "file"), "content")
          Files.mkdirSync(partOf(to))
          Files.writeFileSync(Path.join(partOf(to), "stale"), "of another moment")
          Files.mkdirSync(to)
          yield* copies.copy({ from, to })
          yield* copies.publish(to)
          assert.deepStrictEqual(Files.readdirSync(to), ["file"])
          const refused = yield* Effect.flip(Effect.andThen(copies.copy({ from, to }), copies.publish(to)))
          assert.strictEqual(refused.code, "disk_failure", "a copy that is there is not written over")
          assert.deepStrictEqual(Files.readdirSync(to), ["file"])
          yield* copies.discard(to)
          assert.deepStrictEqual([Files.existsSync(to), Files.existsSync(partOf(to))], [false, false])
        })
      )
  )

  it.live("a link in place of what is copied is not followed", () =>
    onPlace(({ copies, from, state, to }) =>
      Effect.gen(function* () {
        const victim = Path.join(state, "victim")
        Files.mkdirSync(victim)
        Files.writeFileSync(Path.join(victim, "precious"), "ours")
        Files.rmdirSync(from)
        Files.symlinkSync(victim, from)
        yield* Effect.ignore(Effect.andThen(copies.copy({ from, to }), copies.publish(to)))
        assert.notStrictEqual(Files.lstatSync(to, { throwIfNoEntry: false })?.isDirectory(), true)
      })
    )
  )

  it.live("a workspace beyond the bound is refused before anything of it is copied", () =>
    onPlace(
      ({ copies, from, to }) =>
        Effect.gen(function* () {
          Files.writeFileSync(Path.join(from, "file"), Buffer.alloc(256 * 1024, 1))
          const refused = yield* Effect.flip(copies.copy({ from, to }))
          assert.strictEqual(refused.code, "no_safe_copy")
          assert.isFalse(Files.existsSync(partOf(to)))
        }),
      { bytesMax: 128 * 1024 }
    )
  )

  it.live("a device is nobody's to copy", () =>
    onPlace(({ copies, from, to }) =>
      Effect.gen(function* () {
        const made = spawnSync("mknod", [Path.join(from, "null"), "c", "1", "3"])
        if (made.status !== 0) return
        const refused = yield* Effect.flip(copies.copy({ from, to }))
        assert.strictEqual(refused.code, "no_safe_copy")
        assert.isFalse(Files.existsSync(partOf(to)))
      })
    )
  )

  it.live("a copy that takes longer than it may is refused, and none of it goes on behind that", () =>
    onPlace(
      ({ copies, from, to }) =>
        Effect.gen(function* () {
          Files.writeFileSync(Path.join(from, "file"), Buffer.alloc(64 * 1024 ** 2, 1))
          const refused = yield* Effect.flip(copies.copy({ from, to }))
          assert.strictEqual(refused.code, "no_safe_copy")
          assert.deepStrictEqual(programsAt(to), [])
        }),
      { millisMax: 1 }
    )
  )

  it.live("whoever interrupts a copy has seen its end", () =>
    onPlace(({ copies, from, to }) =>
      Effect.gen(function* () {
        makeMany(from)
        const copying = yield* Effect.forkChild(copies.copy({ from, to }), { startImmediately: true })
        yield* stoppedAtWork(to)
        yield* Fiber.interrupt(copying)
        assert.deepStrictEqual(programsAt(to), [])
      })
    )
  )

  it.live(
    "SP-OPS-03 a copy ends with its daemon: nothing goes on behind the back of a guest that goes on",
    () =>
      onPlace(({ from, state, to }) =>
        Effect.gen(function* () {
          makeMany(from)
          const daemon = spawn(process.execPath, [entry, state, from, to], { stdio: "ignore" })
          yield* stoppedAtWork(to)
          daemon.kill("SIGKILL")
          yield* Effect.sync(() => programsAt(to)).pipe(
            Effect.repeat({ until: (left) => left.length === 0, schedule: Schedule.spaced(1) }),
            Effect.timeout(10_000)
          )
        })
      ),
    60_000
  )
})

const entry = Path.join(import.meta.dirname, "copyingProcess.ts")

/** So many that a copy takes a while. */
const filesMany = 5_000

const makeMany = (directory: string): void => {
  Files.writeFileSync(Path.join(directory, "first"), "one")
  for (let at = 1; at < filesMany; at += 1)
    Files.linkSync(Path.join(directory, "first"), Path.join(directory, `f${at}`))
}

const ours: ReadonlyArray<string> = ["setpriv", "du", "find", "cp", "sync"]

const commandOf = (pid: string): string => {
  try {
    return Files.readFileSync(`/proc/${pid}/cmdline`, "latin1")
  } catch {
    return ""
  }
}

/** Pids of the programs that work for a copy to that path. */
const programsAt = (to: string): ReadonlyArray<number> =>
  Files.readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      const [program = "", ...given] = commandOf(pid).split("\0")
      return ours.includes(program) && given.some((word) => word.startsWith(Path.dirname(to)))
    })
    .map(Number)

/** Stops one of them where it is; false where there is none any more. One that is not what it will be is left. */
const stopOne = (to: string): boolean =>
  programsAt(to).some((pid) => {
    if (commandOf(String(pid)).startsWith("setpriv")) return false
    try {
      return process.kill(pid, "SIGSTOP")
    } catch {
      return false
    }
  })

/** Waits for a program of the copy and stops it, so that it cannot end by itself. */
const stoppedAtWork = (to: string) =>
  Effect.sync(() => stopOne(to)).pipe(
    Effect.repeat({ until: (isStopped) => isStopped, schedule: Schedule.spaced(1) }),
    Effect.timeout(15_000)
  )
