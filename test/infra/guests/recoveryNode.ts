/**
 * A node with real guests whose daemon comes and goes: each `daemon` is one life over the same state directory. What
 * happens to guests and files in between is done by the hands below. Nothing of a node outlives its test.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type ChildProcess, spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import type { OwnedGroup } from "../../../src/domain/guests/AbsenceProof.ts"
import type { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import type { GuestIdentity } from "../../../src/domain/guests/GuestSupervisor.ts"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import type { SandboxRequest } from "../../../src/domain/registry/sandboxRequest.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import * as FileRunState from "../../../src/infra/filesystem/RunState.ts"
import { killUntilEmpty, removeGroup } from "../../../src/infra/guests/cgroupControl.ts"
import { detectLayout, groupPaths } from "../../../src/infra/guests/cgroups.ts"
import { folderOf, readIdentity, type SandboxFolder } from "../../../src/infra/guests/folders.ts"
import { signalIfAlive } from "../../../src/infra/guests/kernel.ts"
import { layer as processLayer } from "../../../src/infra/guests/processSupervisor.ts"
import { findWitnesses } from "../../../src/infra/guests/witnesses.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"
import { assert, test } from "vitest"
import { describeWith, drawSandbox, makeStateDirectory } from "../../suites/guestHarness.ts"
import { openOn } from "../../domain/registry/fixture.ts"
import { type NodeServices, requestOf } from "../../domain/registry/guestFixture.ts"
import { isGone } from "../../support/processes.ts"
import { waitFor } from "../../support/waiting.ts"

const mayUseGroups = process.getuid?.() === 0 && detectLayout().mode !== "none"

/** Declares tests about guests with cgroups; those of a daemon that may not use them are in unprivileged.test.ts. */
export const describeWithGroups = async (kind: SupervisorKind, declare: () => void): Promise<void> => {
  test(`guests under ${kind} have cgroups on every build machine`, () => {
    assert.isTrue(mayUseGroups || process.env["CI"] !== "true")
  })
  if (mayUseGroups) return describeWith(kind, declare)
  console.log(`guests with cgroups under ${kind} are left out: this user may not use them`)
}

export interface RealNode {
  readonly stateDirectory: string
  /** One life of a daemon: opened, used, and gone without a word to its guests. */
  readonly daemon: <A, E>(life: Effect.Effect<A, E, NodeServices>) => Effect.Effect<A, E>
}

/** Opens what a daemon opens: the registry, its guests' supervisor, their state on disk. */
export const openDaemon = (stateDirectory: string, kind: SupervisorKind) =>
  Effect.gen(function* () {
    const registry = yield* openOn(stateDirectory)
    const context = yield* Layer.build(
      Layer.mergeAll(
        processLayer({ stateDirectory, kind }),
        FileRunState.layer({ stateDirectory }),
        identifiers,
        Layer.succeed(Registry, registry)
      )
    )
    return Context.add(context, Registry, registry)
    // A daemon that does not open is no outcome of these tests.
  }).pipe(Effect.orDie)

/** Ends whatever the sandboxes of the directory have left on this machine, by their groups and their mounts. */
const sweep = (stateDirectory: string) =>
  Effect.gen(function* () {
    const runtime = Path.join(stateDirectory, "runtime")
    for (const name of Files.existsSync(runtime) ? Files.readdirSync(runtime) : []) {
      if (!name.startsWith("sb-")) continue
      const sandbox = name as SandboxId
      for (const path of groupPaths(detectLayout(), sandbox)) {
        if (!Files.existsSync(path)) continue
        yield* killUntilEmpty(path, 5_000)
        yield* removeGroup(path)
      }
      for (const left of findWitnesses(sandbox)) signalIfAlive(left, "SIGKILL")
    }
    Files.rmSync(stateDirectory, { recursive: true, force: true })
  })

export const makeNode = (kind: SupervisorKind) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => makeStateDirectory()),
      sweep
    ),
    (stateDirectory): RealNode => ({
      stateDirectory,
      daemon: (life) =>
        Effect.scoped(
          Effect.flatMap(openDaemon(stateDirectory, kind), (context) => Effect.provideContext(life, context))
        )
    })
  )

/** A guest that a former daemon has left, with what that daemon wrote about it. */
export interface LeftGuest {
  readonly sandbox: SandboxId
  readonly folder: SandboxFolder
  readonly identity: GuestIdentity
}

const reserved = { cpuMillis: 1_000, memoryBytes: 64 * 1024 ** 2 }

export const requestFor = (sandbox: SandboxId, fields: Partial<SandboxRequest> = {}): SandboxRequest =>
  requestOf(1, { id: sandbox, ...reserved, ...fields })

/** What so many of such sandboxes reserve. */
export const chargesOf = (sandboxes: number) => ({
  sandboxes,
  cpuMillis: sandboxes * reserved.cpuMillis,
  memoryBytes: sandboxes * reserved.memoryBytes
})

export const chargesNow = Effect.gen(function* () {
  const { cpuMillis, memoryBytes, sandboxes } = yield* (yield* Registry).charges
  return { sandboxes, cpuMillis, memoryBytes }
})

/** Nothing more happens in this daemon once the program has passed the boundary. */
export const dyingAfter = (step: string) => ({
  before: () => Effect.void,
  after: (_: string, at: string) => (at === step ? Effect.die(`the daemon died after ${step}`) : Effect.void)
})

/** The guest of a sandbox as its files tell. */
export const leftGuest = (stateDirectory: string, sandbox: SandboxId) =>
  Effect.sync((): LeftGuest => {
    const folder = folderOf(stateDirectory, sandbox)
    const identity = readIdentity(folder)
    if (identity === undefined) throw new Error("no guest is recorded")
    return { sandbox, folder, identity }
  })

/**
 * Creates and starts a sandbox in the daemon's life that it is part of. `dies` ends that life for this sandbox behind a
 * step of its start.
 */
export const makeGuest = (request: Partial<SandboxRequest> = {}, dies?: string) =>
  Effect.gen(function* () {
    const sandbox = drawSandbox()
    yield* createSandbox(requestFor(sandbox, request))
    const start = startSandbox(sandbox)
    if (dies === undefined) yield* start
    else yield* Effect.exit(start.pipe(Effect.provideService(StepObserver, dyingAfter(dies))))
    return sandbox
  })

/** A guest in a daemon's life of its own. */
export const leaveGuest = (node: RealNode, request: Partial<SandboxRequest> = {}) =>
  Effect.flatMap(node.daemon(makeGuest(request)), (sandbox) => leftGuest(node.stateDirectory, sandbox))

const fileOf = ({ folder }: Pick<LeftGuest, "folder">, name: string) => Path.join(folder.directory, name)

/** Changes fields of one of the guest's durable files. */
export const rewrite = (guest: LeftGuest, name: string, fields: object): void => {
  const file = fileOf(guest, name)
  const written: object = JSON.parse(Files.readFileSync(file, "utf8"))
  Files.writeFileSync(file, JSON.stringify({ ...written, ...fields }))
}

export const anotherBoot = { bootId: "00000000-0000-4000-8000-000000000000" }

/** The files as a daemon leaves them that dies between the spawn and the record of its guest. */
export const unrecord = (guest: LeftGuest): void => {
  const { attemptId, bootId, generation, groups, runId, sandbox, userId } = guest.identity
  const preparing = { sandbox, generation, runId, attemptId, bootId, userId, groups }
  Files.writeFileSync(fileOf(guest, "preparing.json"), JSON.stringify(preparing), { mode: 0o600 })
  Files.rmSync(fileOf(guest, "identity.json"))
}

/** Kills one process and waits until it is no more than a zombie. */
export const killAndWait = (pid: number) =>
  Effect.gen(function* () {
    process.kill(pid, "SIGKILL")
    yield* waitFor({
      fact: `process ${pid} is gone`,
      look: Effect.sync(() => isGone(pid)),
      holds: (gone) => gone
    })
  })

/** Ends everything of the guest at once, its monitor too. */
export const killEverything = ({ identity }: LeftGuest) =>
  Effect.gen(function* () {
    for (const { path } of identity.groups) yield* killUntilEmpty(path, 5_000)
    yield* waitFor({
      fact: "init and monitor are gone",
      look: Effect.sync(() => [identity.init.pid, identity.monitor.pid].every(isGone)),
      holds: (gone) => gone
    })
  })

/** A process of nobody's that lives until the scope closes. */
export const makeStranger = Effect.acquireRelease(
  Effect.sync((): ChildProcess & { readonly pid: number } => {
    const child = spawn("sleep", ["1000"], { stdio: "ignore" })
    if (child.pid === undefined) throw new Error("sleep could not be started")
    return Object.assign(child, { pid: child.pid })
  }),
  (child) => Effect.sync(() => child.kill("SIGKILL"))
)

export const joinGroups = (pid: number, groups: ReadonlyArray<OwnedGroup>): void => {
  for (const { path } of groups) Files.writeFileSync(Path.join(path, "cgroup.procs"), String(pid))
}

export const entriesOf = ({ folder }: LeftGuest): ReadonlyArray<string> =>
  Files.readdirSync(folder.directory).toSorted()

export const groupsLeft = ({ sandbox }: LeftGuest): ReadonlyArray<string> =>
  groupPaths(detectLayout(), sandbox).filter((path) => Files.existsSync(path))
