/**
 * Adapter of WorkspaceCopies: programs of the system copy, measure and flush, so that the event loop waits for none of
 * it. Each ends with the daemon, and before whoever interrupts it goes on: a copy that goes on behind a guest's back
 * would be of two moments. Its words are never passed on. Source: SP-OPS-03.
 */
import { spawn } from "node:child_process"
import { readdir, rename, rmdir, statfs } from "node:fs/promises"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { snapshotBytesMax, workspaceCopyMillisMax, workspaceSyncMillisMax } from "../../domain/Bounds.ts"
import { DiskFailure, Disks } from "../../domain/runtimes/Disks.ts"
import { CopyRefused, WorkspaceCopies } from "../../domain/runtimes/WorkspaceCopies.ts"
import { programEnvironment } from "../guests/programs.ts"
import { errorName, syncDirectory } from "./privateFiles.ts"

const outputCharactersMax = 4_096

type Argv = readonly [string, ...ReadonlyArray<string>]

interface Ended {
  readonly status: number
  readonly output: string
}

/** Runs a program to its end, as one that the kernel ends with us. Interrupting kills it, and waits for its end. */
const runToEnd = (argv: Argv): Effect.Effect<Ended> =>
  Effect.callback<Ended>((resume) => {
    const child = spawn("setpriv", ["--pdeathsig", "KILL", ...argv], {
      stdio: ["ignore", "pipe", "ignore"],
      env: programEnvironment
    })
    let output = ""
    let isOver = false
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      if (output.length < outputCharactersMax) output += text
    })
    const end = (status: number) => {
      isOver = true
      resume(Effect.succeed({ status, output }))
    }
    child.once("error", () => end(127))
    child.once("close", (status) => end(status ?? 128))
    return Effect.callback<void>((done) => {
      if (isOver) return done(Effect.void)
      child.once("close", () => done(Effect.void))
      child.kill("SIGKILL")
    })
  })

const failure = (path: string, step: string, why: string) => new DiskFailure({ path, step, why })

/** The output of a program that did what it was told. */
const told = (path: string, step: string, argv: Argv): Effect.Effect<string, DiskFailure> =>
  Effect.flatMap(runToEnd(argv), ({ output, status }) =>
    status === 0
      ? Effect.succeed(output)
      : Effect.fail(failure(path, step, `${argv[0]} ended with status ${status}`))
  )

const attempt = <A>(path: string, step: string, run: () => Promise<A>): Effect.Effect<A, DiskFailure> =>
  Effect.tryPromise({ try: run, catch: (error) => failure(path, step, errorName(error)) })

const within =
  (millisMax: number, what: string) =>
  <A, E>(work: Effect.Effect<A, E>): Effect.Effect<A, E | CopyRefused> =>
    Effect.timeoutOrElse(work, {
      duration: millisMax,
      orElse: () => Effect.fail(new CopyRefused({ why: `${what} took longer than ${millisMax} ms` }))
    })

/** Where a copy is until it is whole: beside its place, which is on the same disk. */
export const partOf = (path: string): string => `${path}.part`

const measure = Effect.fnUntraced(function* (path: string) {
  const output = yield* told(path, "measure", ["du", "-sx", "--block-size=1", "--", path])
  const bytes = Number.parseInt(output, 10)
  return Number.isSafeInteger(bytes) ? bytes : yield* failure(path, "measure", "du told no number")
})

/** Devices are nobody's to multiply. A guest cannot make any. */
const refuseDevices = Effect.fnUntraced(function* (path: string) {
  const devices = ["(", "-type", "b", "-o", "-type", "c", ")", "-printf", "d", "-quit"]
  const found = yield* told(path, "look for devices", ["find", path, "-xdev", ...devices])
  if (found !== "") return yield* new CopyRefused({ why: "there is a device in it" })
})

const requireRoom = Effect.fnUntraced(function* (paths: { from: string; to: string }, bytesMax: number) {
  const bytes = yield* measure(paths.from)
  if (bytes > bytesMax) {
    return yield* new CopyRefused({
      why: `it takes ${bytes} bytes of the disk, and ${bytesMax} may be copied`
    })
  }
  const { bavail, bsize } = yield* attempt(paths.to, "look for room", () => statfs(Path.dirname(paths.to)))
  if (bytes > bavail * bsize) {
    return yield* new CopyRefused({
      why: `it takes ${bytes} bytes, and the node's disk has ${bavail * bsize} left`
    })
  }
})

/** Holes stay holes, hard links one file, links what they are; nothing that is mounted inside is entered. */
const copyArguments = ["-a", "-x", "--sparse=always", "--reflink=auto", "--no-target-directory", "--"]

/** An empty directory in the way goes; one that is not empty is a copy that somebody else made, and stays. */
const place = async (part: string, to: string): Promise<void> => {
  const inTheWay = await readdir(to).catch(() => null)
  if (inTheWay?.length === 0) await rmdir(to)
  await rename(part, to)
  await syncDirectory(Path.dirname(to))
}

/** Copies between the disks of the node. Bounds can be given for tests. */
export const layer = (
  options: { readonly bytesMax?: number; readonly millisMax?: number } = {}
): Layer.Layer<WorkspaceCopies, never, Disks> =>
  Layer.effect(
    WorkspaceCopies,
    Effect.map(Disks, (disks) => {
      const bytesMax = options.bytesMax ?? snapshotBytesMax
      const millisMax = options.millisMax ?? workspaceCopyMillisMax
      return WorkspaceCopies.of({
        copy: (paths) =>
          Effect.gen(function* () {
            const part = partOf(paths.to)
            yield* disks.remove(part)
            yield* requireRoom(paths, bytesMax)
            yield* refuseDevices(paths.from)
            yield* told(part, "copy", ["cp", ...copyArguments, paths.from, part])
          }).pipe(within(millisMax, "copying it")),
        publish: (to) =>
          Effect.gen(function* () {
            const part = partOf(to)
            yield* told(part, "make durable", ["sync", "--file-system", "--", part])
            yield* attempt(to, "put in place", () => place(part, to))
          }).pipe(within(workspaceSyncMillisMax, "making the copy durable")),
        bytesOf: (path) => within(workspaceSyncMillisMax, "measuring it")(measure(path)),
        discard: (to) => Effect.andThen(disks.remove(partOf(to)), disks.remove(to))
      })
    })
  )
