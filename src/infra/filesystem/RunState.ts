/**
 * Adapter of RunState on the node's disk. The layout is drawn in domain/reclamation/RunState.ts. A tombstone is written
 * whole, synced, renamed and its folder synced; everything else of a sandbox goes only behind it.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { GuestIdentity } from "../../domain/guests/GuestSupervisor.ts"
import { isSandboxId, type SandboxId } from "../../domain/Identity.ts"
import { RunState, RunStateFailure } from "../../domain/reclamation/RunState.ts"
import { Tombstone } from "../../domain/reclamation/Tombstone.ts"
import {
  ensureDirectory,
  errorName,
  PrivateFileRefused,
  readPrivateFile,
  replaceFile,
  syncDirectory
} from "./privateFiles.ts"
import { removeEntries } from "./treeRemoval.ts"

const tombstoneName = "tombstone.json"
const identityName = "identity.json"
const keptNames: ReadonlySet<string> = new Set([tombstoneName, "owner.lock"])
/** A supervisor's own directories, of a probe or made ahead for a launch; what is left of them its next start removes. */
const supervisorNames = /^\.(probe|kit)-[0-9a-f-]{36}$/
const folderMode = 0o711

const decodeTombstone = Schema.decodeUnknownResult(Schema.fromJsonString(Tombstone))
const decodeIdentity = Schema.decodeUnknownResult(Schema.fromJsonString(GuestIdentity))

interface Place {
  readonly sandbox: SandboxId | null
  readonly path: string
}

const failure = (place: Place, step: string, error: unknown) =>
  new RunStateFailure({ ...place, step, why: errorName(error) })

const attempt = <A>(place: Place, step: string, run: () => A): Effect.Effect<A, RunStateFailure> =>
  Effect.try({ try: run, catch: (error) => failure(place, step, error) })

/** A write is not cancelled by an interruption: it would go on behind our back. */
const attemptAsync = <A>(
  place: Place,
  step: string,
  run: () => Promise<A>
): Effect.Effect<A, RunStateFailure> =>
  Effect.uninterruptible(Effect.tryPromise({ try: run, catch: (error) => failure(place, step, error) }))

const runtimeOf = (stateDirectory: string) => Path.join(stateDirectory, "runtime")
const folderOf = (stateDirectory: string, sandbox: SandboxId) => Path.join(runtimeOf(stateDirectory), sandbox)
const placeOf = (sandbox: SandboxId, name = ""): Place => ({
  sandbox,
  path: Path.join("runtime", sandbox, name)
})

const listNames = (runtime: string): ReadonlyArray<Files.Dirent> => {
  try {
    return Files.readdirSync(runtime, { withFileTypes: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return []
    throw error
  }
}

const list = (stateDirectory: string) =>
  Effect.gen(function* () {
    const whole: Place = { sandbox: null, path: "runtime" }
    const entries = yield* attempt(whole, "list", () => listNames(runtimeOf(stateDirectory)))
    const sandboxes: Array<SandboxId> = []
    for (const entry of entries) {
      if (entry.name === "owner.json" || supervisorNames.test(entry.name)) continue
      if (!isSandboxId(entry.name) || !entry.isDirectory()) {
        return yield* new RunStateFailure({
          sandbox: null,
          step: "list",
          path: Path.join("runtime", entry.name),
          why: "it is neither a sandbox's folder nor a file of ours: look at it and move it away"
        })
      }
      sandboxes.push(entry.name)
    }
    return sandboxes.toSorted()
  })

const readTombstoneFile = (folder: string, sandbox: SandboxId): Tombstone | undefined => {
  const text = readPrivateFile(Path.join(folder, tombstoneName), Bounds.runStateFileBytesMax)
  if (text === undefined) return undefined
  const decoded = decodeTombstone(text, { onExcessProperty: "error" })
  if (Result.isFailure(decoded)) throw new PrivateFileRefused("the tombstone has another form")
  if (decoded.success.sandbox !== sandbox || decoded.success.proof.sandbox !== sandbox) {
    throw new PrivateFileRefused("the tombstone is another sandbox's")
  }
  return decoded.success
}

const readTombstone = (stateDirectory: string, sandbox: SandboxId) =>
  attempt(placeOf(sandbox, tombstoneName), "read the tombstone", () =>
    Option.fromNullishOr(readTombstoneFile(folderOf(stateDirectory, sandbox), sandbox))
  )

const readIdentityFile = (folder: string, sandbox: SandboxId): GuestIdentity | undefined => {
  const text = readPrivateFile(Path.join(folder, identityName), Bounds.runStateFileBytesMax)
  if (text === undefined) return undefined
  const decoded = decodeIdentity(text, { onExcessProperty: "error" })
  if (Result.isFailure(decoded)) throw new PrivateFileRefused("the guest's identity has another form")
  if (decoded.success.sandbox !== sandbox) {
    throw new PrivateFileRefused("the guest's identity is another sandbox's")
  }
  return decoded.success
}

const readIdentity = (stateDirectory: string, sandbox: SandboxId) =>
  attempt(placeOf(sandbox, identityName), "read the identity", () =>
    Option.fromNullishOr(readIdentityFile(folderOf(stateDirectory, sandbox), sandbox))
  )

/** Writes the tombstone where there is none; one that is there is synced and kept. */
const publish = async (stateDirectory: string, tombstone: Tombstone): Promise<void> => {
  const { sandbox } = tombstone
  const folder = folderOf(stateDirectory, sandbox)
  if (tombstone.proof.sandbox !== sandbox) {
    throw new PrivateFileRefused("the proof is about another sandbox")
  }
  ensureDirectory(runtimeOf(stateDirectory), folderMode)
  ensureDirectory(folder, folderMode)
  if (readTombstoneFile(folder, sandbox) === undefined) {
    await replaceFile(folder, tombstoneName, `${JSON.stringify(tombstone)}\n`)
  }
  await syncDirectory(folder)
  await syncDirectory(runtimeOf(stateDirectory))
}

/** Lets timers, requests and other fibers run. */
const rest = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Runs the removal in slices, so that a large tree does not hold the daemon up. */
const removeInSlices = (place: Place, removal: Generator<void>) =>
  Effect.gen(function* () {
    for (let done = false; !done;) {
      done = yield* attempt(place, "reclaim", () => {
        for (let count = 0; count < Bounds.reclaimEntriesAtOnceMax; count += 1) {
          if (removal.next().done === true) return true
        }
        return false
      })
      yield* rest
    }
  }).pipe(Effect.ensuring(Effect.sync(() => removal.return(undefined))))

const reclaim = (stateDirectory: string, sandbox: SandboxId) =>
  Effect.gen(function* () {
    const place = placeOf(sandbox)
    const folder = folderOf(stateDirectory, sandbox)
    const tombstone = yield* readTombstone(stateDirectory, sandbox)
    if (Option.isNone(tombstone)) {
      return yield* new RunStateFailure({ ...place, step: "reclaim", why: "no tombstone fences the sandbox" })
    }
    yield* removeInSlices(place, removeEntries(folder, keptNames))
    yield* attemptAsync(place, "reclaim", () => syncDirectory(folder))
  })

/** The run state below the state directory, which must be there. */
export const layer = (options: { readonly stateDirectory: string }): Layer.Layer<RunState> =>
  Layer.succeed(RunState, {
    list: list(options.stateDirectory),
    readIdentity: Effect.fn("runState.readIdentity")((sandbox: SandboxId) =>
      readIdentity(options.stateDirectory, sandbox)
    ),
    readTombstone: Effect.fn("runState.readTombstone")((sandbox: SandboxId) =>
      readTombstone(options.stateDirectory, sandbox)
    ),
    publishTombstone: Effect.fn("runState.publishTombstone")((tombstone: Tombstone) =>
      attemptAsync(placeOf(tombstone.sandbox, tombstoneName), "publish the tombstone", () =>
        publish(options.stateDirectory, tombstone)
      )
    ),
    reclaim: Effect.fn("runState.reclaim")((sandbox: SandboxId) => reclaim(options.stateDirectory, sandbox))
  })
