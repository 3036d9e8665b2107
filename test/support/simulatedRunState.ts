/**
 * The run state of sandboxes on a simulated disk: the port's calls by the same calls to the system, in the same order,
 * as the adapter on the node's disk makes them (test/infra/filesystem/systemCalls.test.ts holds both together).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { constants } from "node:fs"
import type { SandboxId } from "../../src/domain/Identity.ts"
import { RunState, RunStateFailure } from "../../src/domain/reclamation/RunState.ts"
import { Tombstone } from "../../src/domain/reclamation/Tombstone.ts"
import type { FileCalls } from "../../src/infra/filesystem/durable.ts"
import { simulatedRoot } from "./simulatedDisk.ts"

const { O_CREAT, O_EXCL, O_WRONLY } = constants

const runtime = `${simulatedRoot}/runtime`
const tombstoneName = "tombstone.json"
const folderMode = 0o711
const folderOf = (sandbox: SandboxId): string => `${runtime}/${sandbox}`
const decodeTombstone = Schema.decodeUnknownSync(Schema.fromJsonString(Tombstone))

/** The text of a tombstone, or why it is none. Throws. */
export const tombstoneOf = (text: string): Tombstone => decodeTombstone(text, { onExcessProperty: "error" })

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "an error without a name"

const ensureFolder = (path: string, calls: FileCalls): void => {
  try {
    calls.mkdirSync(path, { mode: folderMode })
    calls.chmodSync(path, folderMode)
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error
    calls.lstatSync(path)
  }
}

const readText = (path: string, calls: FileCalls): string | null => {
  let descriptor: number
  try {
    descriptor = calls.openSync(path, 0)
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null
    throw error
  }
  const buffer = Buffer.alloc(calls.fstatSync(descriptor).size)
  calls.readSync(descriptor, buffer, 0, buffer.length, 0)
  calls.closeSync(descriptor)
  return buffer.toString()
}

const now = <A>(run: () => A): Effect.Effect<A, unknown> => Effect.try({ try: run, catch: (error) => error })

const writeSynced = Effect.fnUntraced(function* (path: string, text: string, calls: FileCalls) {
  const descriptor = yield* now(() => calls.openSync(path, O_CREAT | O_EXCL | O_WRONLY, 0o600))
  const bytes = Buffer.from(text)
  yield* now(() => calls.writeSync(descriptor, bytes, 0, bytes.length))
  yield* now(() => calls.fsyncSync(descriptor))
  yield* now(() => calls.closeSync(descriptor))
})

const syncFolder = Effect.fnUntraced(function* (path: string, calls: FileCalls) {
  const descriptor = yield* now(() => calls.openSync(path, 0))
  yield* now(() => calls.fsyncSync(descriptor))
  yield* now(() => calls.closeSync(descriptor))
})

let temporaries = 0

const publish = Effect.fnUntraced(function* (tombstone: Tombstone, calls: FileCalls) {
  const folder = folderOf(tombstone.sandbox)
  yield* now(() => ensureFolder(runtime, calls))
  yield* now(() => ensureFolder(folder, calls))
  const published = yield* now(() => readText(`${folder}/${tombstoneName}`, calls))
  if (published === null) {
    temporaries += 1
    const temporary = `${folder}/.${tombstoneName}.${temporaries}`
    yield* writeSynced(temporary, `${JSON.stringify(tombstone)}\n`, calls)
    yield* now(() => calls.renameSync(temporary, `${folder}/${tombstoneName}`))
  }
  yield* syncFolder(folder, calls)
  yield* syncFolder(runtime, calls)
})

const reclaim = Effect.fnUntraced(function* (sandbox: SandboxId, calls: FileCalls) {
  const folder = folderOf(sandbox)
  const entries = yield* now(() => calls.readdirSync(folder, { withFileTypes: true }))
  for (const { name } of entries) {
    if (name !== tombstoneName) yield* now(() => calls.unlinkSync(`${folder}/${name}`))
  }
  yield* syncFolder(folder, calls)
})

const named =
  (sandbox: SandboxId, step: string) =>
  <A>(effect: Effect.Effect<A, unknown>): Effect.Effect<A, RunStateFailure> =>
    Effect.mapError(
      effect,
      (error) => new RunStateFailure({ sandbox, step, path: `runtime/${sandbox}`, why: codeOf(error) })
    )

/** The run state over the calls of one life. No guest of this disk leaves files of its own there. */
export const makeSimulatedRunState = (calls: FileCalls): RunState["Service"] =>
  RunState.of({
    list: Effect.succeed([]),
    readIdentity: () => Effect.succeedNone,
    readTombstone: (sandbox) =>
      now(() => readText(`${folderOf(sandbox)}/${tombstoneName}`, calls)).pipe(
        Effect.map((text) => Option.map(Option.fromNullOr(text), tombstoneOf)),
        named(sandbox, "read the tombstone")
      ),
    publishTombstone: (tombstone) =>
      named(tombstone.sandbox, "publish the tombstone")(publish(tombstone, calls)),
    reclaim: (sandbox) => named(sandbox, "reclaim")(reclaim(sandbox, calls))
  })
