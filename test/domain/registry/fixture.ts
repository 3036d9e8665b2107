/**
 * A real registry in a temporary directory of its own, with builders, and a disk that can be recorded, held and made
 * to fail at each of its calls.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { proveAbsence } from "../../../src/domain/guests/absence.ts"
import { AbsenceEvidence, type AbsenceProof } from "../../../src/domain/guests/AbsenceProof.ts"
import { GuestObservation } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Generation, SandboxId } from "../../../src/domain/Identity.ts"
import { makeRegistry } from "../../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import type { NodeCapacity, Registry } from "../../../src/domain/registry/Registry.ts"
import {
  RegistryFileFailed,
  RegistryFiles,
  type RegistryStep
} from "../../../src/domain/registry/RegistryFiles.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"
import * as NodeFiles from "../../../src/infra/filesystem/RegistryFiles.ts"

export type RegistryService = Registry["Service"]

/** A private directory on disk that goes with the scope. */
export const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => {
    const directory = Files.mkdtempSync(Path.join(Os.tmpdir(), "holdfast-registry-"))
    Files.chmodSync(directory, 0o700)
    return directory
  }),
  (directory) => Effect.sync(() => Files.rmSync(directory, { recursive: true, force: true }))
)

export const sandboxOf = (number: number): SandboxId =>
  SandboxId.make(`sb-00000000-0000-4000-8000-${String(number).padStart(12, "0")}`)

type RecordFields = ConstructorParameters<typeof SandboxRecord>[0]

export const recordOf = (number: number, fields: Partial<RecordFields> = {}): SandboxRecord =>
  new SandboxRecord({
    id: sandboxOf(number),
    generation: Generation.make(1),
    runId: "run",
    attemptId: "attempt",
    image: "host",
    argv: ["/bin/sh", "-c", "exit 0"],
    environment: { TOKEN: "s3cret" },
    metadata: { project: "1" },
    cpuMillis: 100,
    memoryBytes: 1_024,
    processesMax: 64,
    disk: null,
    createdAtMillis: 1_000,
    expiresAtMillis: 61_000,
    status: "Pending",
    statusReason: null,
    deletion: null,
    endpointToken: "0123456789abcdef".repeat(4),
    ...fields
  })

const deletion = { reason: "user", actor: "tester", requestedAtMillis: 2_000 } as const

export const withDeletion = (record: SandboxRecord) =>
  Result.succeed(new SandboxRecord({ ...record, deletion }))

export const withReason = (statusReason: string | null) => (record: SandboxRecord) =>
  Result.succeed(new SandboxRecord({ ...record, statusReason }))

/** A proof as a supervisor's facts would make it. */
export const proofOf = (sandbox: SandboxId, generation = 1): AbsenceProof =>
  Result.getOrThrow(
    proveAbsence(
      sandbox,
      GuestObservation.cases.Gone.make({
        evidence: AbsenceEvidence.cases.NeverStarted.make({}),
        generation: Generation.make(generation),
        exit: null,
        tombstone: false
      }),
      { observedAtMillis: 0 }
    )
  )

export type DiskCall = Exclude<keyof RegistryFiles["Service"], symbol> | RegistryStep["step"]

/** What the disk was asked, and what it is told to do about it. */
export interface Disk {
  /** Each call as `name path`, in the order in which it arrived. */
  readonly calls: Array<string>
  readonly faults: Array<{
    readonly call: DiskCall
    readonly when: "before" | "after"
    readonly why: string
    readonly path: RegExp
  }>
  readonly holds: Map<
    DiskCall,
    { readonly reached: Deferred.Deferred<void>; readonly open: Deferred.Deferred<void> }
  >
}

export const makeDisk = (): Disk => ({ calls: [], faults: [], holds: new Map() })

/** The next call of that name fails, before it did anything or after it did everything. */
export const failNext = (
  disk: Disk,
  call: DiskCall,
  when: "before" | "after" = "before",
  why = "EIO",
  path = /(?:)/
): void => void disk.faults.push({ call, when, why, path })

/** Calls of that name wait from now on. */
export const hold = (disk: Disk, call: DiskCall) => {
  const barrier = { reached: Deferred.makeUnsafe<void>(), open: Deferred.makeUnsafe<void>() }
  disk.holds.set(call, barrier)
  return {
    reached: Deferred.await(barrier.reached),
    release: Effect.suspend(() => {
      disk.holds.delete(call)
      return Deferred.succeed(barrier.open, undefined)
    })
  }
}

const takeFault = (disk: Disk, call: DiskCall, when: "before" | "after", path: string) => {
  const at = disk.faults.findIndex(
    (fault) => fault.call === call && fault.when === when && fault.path.test(path)
  )
  return at === -1 ? undefined : disk.faults.splice(at, 1)[0]
}

/** One call of the port on the steered disk. */
const steered = <A>(
  disk: Disk,
  call: DiskCall,
  path: string,
  act: Effect.Effect<A, RegistryFileFailed>
): Effect.Effect<A, RegistryFileFailed> =>
  Effect.gen(function* () {
    disk.calls.push(`${call} ${path}`)
    const barrier = disk.holds.get(call)
    if (barrier !== undefined) {
      yield* Deferred.succeed(barrier.reached, undefined)
      yield* Deferred.await(barrier.open)
    }
    const before = takeFault(disk, call, "before", path)
    if (before !== undefined) return yield* new RegistryFileFailed({ step: call, path, why: before.why })
    const answer = yield* act
    const after = takeFault(disk, call, "after", path)
    if (after !== undefined) return yield* new RegistryFileFailed({ step: call, path, why: after.why })
    return answer
  })

const pathOf = (directory: string, step: RegistryStep): string => {
  if (step.step === "sync") return directory
  return step.step === "rename" ? `${directory}/${step.from} ${step.to}` : `${directory}/${step.name}`
}

/** The port with each of its steps a call of its own. */
export const steer = (files: RegistryFiles["Service"], disk: Disk): RegistryFiles["Service"] =>
  RegistryFiles.of({
    list: (directory) => steered(disk, "list", directory, files.list(directory)),
    check: (directory, entry) =>
      steered(disk, "check", `${directory}/${entry.name}`, files.check(directory, entry)),
    read: (directory, name) => steered(disk, "read", `${directory}/${name}`, files.read(directory, name)),
    carryOut: (directory, steps) =>
      Effect.forEach(
        steps,
        (step) => steered(disk, step.step, pathOf(directory, step), files.carryOut(directory, [step])),
        { discard: true }
      ),
    makeDirectory: (name) => steered(disk, "makeDirectory", name, files.makeDirectory(name)),
    removeDirectory: (name) => steered(disk, "removeDirectory", name, files.removeDirectory(name))
  })

/** The ports of a registry on the directory, over the steered disk. */
export const portsOn = (directory: string, disk: Disk = makeDisk()) =>
  Layer.merge(
    Layer.effect(
      RegistryFiles,
      Effect.map(NodeFiles.make(directory), (files) => steer(files, disk))
    ),
    identifiers
  )

export const roomy: NodeCapacity = { sandboxes: 1_000, cpuMillis: 1_000_000, memoryBytes: 1024 ** 4 }

export interface OpenOptions {
  readonly disk?: Disk
  readonly capacity?: NodeCapacity
  readonly budgetBytes?: number
}

/** Opens the directory as a daemon would at its start. */
export const openOn = (directory: string, options: OpenOptions = {}) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(portsOn(directory, options.disk))
    return yield* Effect.provideContext(
      Effect.flatMap(openRegistry(), (opened) =>
        makeRegistry(opened, options.capacity ?? roomy, options.budgetBytes)
      ),
      context
    )
  })

/** Opens the directory for one look and closes it again. */
export const lookAt = (directory: string) =>
  Effect.scoped(Effect.flatMap(openOn(directory), (registry) => registry.inventory))

/** Every file of a directory tree with its content, and every other entry with its kind. */
export const contentsOf = (directory: string): ReadonlyArray<readonly [string, string]> =>
  Files.readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry): readonly [string, string] => {
      const path = Path.join(entry.parentPath, entry.name)
      const text = entry.isFile()
        ? Files.readFileSync(path, "latin1")
        : entry.isDirectory()
          ? "directory"
          : "other"
      return [Path.relative(directory, path), text]
    })
    .toSorted(([one], [other]) => (one < other ? -1 : 1))

/** A registry on a steered disk that has been opened and forgets the calls of its open. */
export const freshRegistry = (options: Omit<OpenOptions, "disk"> = {}) =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const disk = makeDisk()
    const registry = yield* openOn(directory, { ...options, disk })
    disk.calls.length = 0
    return { directory, disk, registry }
  })
