/**
 * Adapter of the registry's files on a disk. What writes and flushes is handed to the disk's threads and never blocks
 * the event loop; reads, which only an open makes, do, since they are three times faster so. Nothing that was handed
 * over is interruptible: it would go on behind our back. Source:
 * RG-LAY-01, RG-LAY-02, RG-LAY-08.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { registryFileBytesMax } from "../../domain/Bounds.ts"
import { RegistryOpenRefused } from "../../domain/registry/Registry.ts"
import {
  type RegistryDirectory,
  type RegistryEntry,
  RegistryFileFailed,
  RegistryFiles,
  type RegistryStep,
  sync
} from "../../domain/registry/RegistryFiles.ts"
import type { CarryOut, Disk, DiskStep, StepFailed } from "./diskSteps.ts"
import { nodeDisk } from "./diskThreads.ts"
import {
  below,
  checkEntry,
  type EntryFacts,
  ensurePrivateDirectory,
  type FileCalls,
  isMissing,
  makeDirectory,
  openDirectory,
  ownerFault,
  readPrivate
} from "./durable.ts"
import { errorName, PrivateFileRefused } from "./privateFiles.ts"

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = Files.constants

const kindOf = (entry: EntryFacts): RegistryEntry["kind"] =>
  entry.isFile() ? "file" : entry.isDirectory() ? "directory" : "other"

/** Makes the state directory private, or refuses the one that is there; it is never repaired. Source: RG-LAY-01. */
export const ensureStateDirectory = (path: string): Effect.Effect<void, RegistryOpenRefused> =>
  Effect.try({
    try: () => ensurePrivateDirectory(path),
    catch: (error) => new RegistryOpenRefused({ path: ".", why: errorName(error) })
  })

/** Guests of other users pass through it to their own folders; they may neither list nor change it. */
const passable = "runtime"
const passableMode = 0o711
const passableMask = 0o066

/** Opens the runtime directory without following a link; it may be passed by others. Throws. */
const openPassable = (path: string, calls: FileCalls): number => {
  const descriptor = calls.openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  try {
    const found = calls.fstatSync(descriptor)
    const fault = ownerFault(found)
    if (fault !== null) throw new PrivateFileRefused(fault)
    if ((found.mode & passableMask) !== 0) {
      throw new PrivateFileRefused("group and others may read or write it: take that away from them")
    }
    return descriptor
  } catch (error) {
    calls.closeSync(descriptor)
    throw error
  }
}

const makeAt = (path: string, name: string, calls: FileCalls): void => {
  makeDirectory(path, calls)
  if (name === passable) calls.chmodSync(path, passableMode)
}

/** Only made when a call has failed: an open makes thousands of them. */
const pathOf = (directory: RegistryDirectory, name: string) => (): string =>
  directory === "state" ? name : Path.join(directory, name)

const directoryPathOf = (directory: RegistryDirectory) => (): string =>
  directory === "state" ? "." : directory

const pathOfStep = (directory: RegistryDirectory, step: RegistryStep): (() => string) => {
  if (step.step === "sync") return directoryPathOf(directory)
  return pathOf(directory, step.step === "rename" ? step.to : step.name)
}

/** None where the thing itself is missing. */
const optional = <A>(run: () => A): Option.Option<A> => {
  try {
    return Option.some(run())
  } catch (error) {
    if (isMissing(error)) return Option.none()
    throw error
  }
}

const attempt = <A>(step: string, path: () => string, run: () => A): Effect.Effect<A, RegistryFileFailed> =>
  Effect.try({
    try: run,
    catch: (error) => new RegistryFileFailed({ step, path: path(), why: errorName(error) })
  })

/** The directories of one state directory, each opened and checked when it is first needed, and then held. */
const makeDirectories = (stateDirectory: string, calls: FileCalls) => {
  const held = new Map<RegistryDirectory, number>()
  const release = (directory: RegistryDirectory): void => {
    const descriptor = held.get(directory)
    if (descriptor === undefined) return
    held.delete(directory)
    calls.closeSync(descriptor)
  }
  const descriptorOf = (directory: RegistryDirectory): number => {
    const existing = held.get(directory)
    if (existing !== undefined) return existing
    const path = directory === "state" ? stateDirectory : below(descriptorOf("state"), directory)
    const opened = directory === passable ? openPassable(path, calls) : openDirectory(path, calls)
    held.set(directory, opened)
    return opened
  }
  return {
    descriptorOf,
    at: (directory: RegistryDirectory, name: string): string => below(descriptorOf(directory), name),
    release,
    releaseAll: () => [...held.keys()].forEach(release)
  }
}

type Directories = ReturnType<typeof makeDirectories>

const onDisk = (
  { at, descriptorOf }: Directories,
  directory: RegistryDirectory,
  step: RegistryStep
): DiskStep => {
  switch (step.step) {
    case "create":
      return { step: "create", path: at(directory, step.name), text: step.text }
    case "rename":
      return { step: "rename", from: at(directory, step.from), to: at(directory, step.to) }
    case "unlink":
      return { step: "unlink", path: at(directory, step.name) }
    case "sync":
      return { step: "sync", descriptor: descriptorOf(directory) }
  }
}

/** A directory that was held under either name is another one now. Throws. */
const releaseRenamed = ({ release }: Directories, done: ReadonlyArray<RegistryStep>): void => {
  for (const each of done) if (each.step === "rename") [each.from, each.to].forEach(release)
}

const hand = (carryOut: CarryOut, steps: ReadonlyArray<DiskStep>): Effect.Effect<StepFailed | null> =>
  Effect.uninterruptible(
    Effect.callback<StepFailed | null>((resume) =>
      carryOut(steps, (failed) => resume(Effect.succeed(failed)))
    )
  )

const makeCarryOut =
  (directories: Directories, carryOut: CarryOut): RegistryFiles["Service"]["carryOut"] =>
  (directory, steps) =>
    Effect.gen(function* () {
      const handed = yield* attempt("open", directoryPathOf(directory), () =>
        steps.map((step) => onDisk(directories, directory, step))
      )
      const failed = yield* hand(carryOut, handed)
      if (directory === "state") {
        const done = failed === null ? steps : steps.slice(0, failed.at)
        yield* attempt("rename", directoryPathOf(directory), () => releaseRenamed(directories, done))
      }
      if (failed === null) return
      const step = steps[failed.at] ?? sync
      return yield* new RegistryFileFailed({
        step: step.step,
        path: pathOfStep(directory, step)(),
        why: failed.why
      })
    })

/** Files of the registry below one state directory, whose descriptors it holds while the scope is open. */
export const make = Effect.fnUntraced(function* (
  stateDirectory: string,
  { calls, carryOut }: Disk = nodeDisk
) {
  const directories = makeDirectories(stateDirectory, calls)
  const { at, descriptorOf, release, releaseAll } = directories
  yield* Effect.addFinalizer(() => Effect.sync(releaseAll))
  return RegistryFiles.of({
    list: (directory) =>
      attempt("list", directoryPathOf(directory), () =>
        optional(() =>
          calls
            .readdirSync(below(descriptorOf(directory), "."), { withFileTypes: true })
            .map((entry): RegistryEntry => ({ name: entry.name, kind: kindOf(entry) }))
        )
      ),
    check: (directory, entry) =>
      attempt("check", pathOf(directory, entry.name), () =>
        checkEntry(descriptorOf(directory), entry, calls)
      ),
    read: (directory, name) =>
      attempt("read", pathOf(directory, name), () =>
        optional(() => readPrivate(descriptorOf(directory), name, registryFileBytesMax, calls))
      ),
    carryOut: makeCarryOut(directories, carryOut),
    makeDirectory: (name) =>
      attempt(
        "make",
        () => name,
        () => makeAt(at("state", name), name, calls)
      ),
    removeDirectory: (name) =>
      attempt(
        "remove",
        () => name,
        () => {
          release(name)
          calls.rmdirSync(at("state", name))
        }
      )
  })
})

/** The files of the state directory, which must be there (`ensureStateDirectory`). */
export const layer = (stateDirectory: string, disk: Disk = nodeDisk): Layer.Layer<RegistryFiles> =>
  Layer.effect(RegistryFiles, make(stateDirectory, disk))
