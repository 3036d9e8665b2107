/**
 * Help for tests that carry real guests: a state directory of their own, short words for starting, running and
 * reclaiming, and what a machine without a supervisor answers. Every guest that `withGuest` starts is reclaimed.
 */
import type { Vitest } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { describe, expect, test } from "vitest"
import {
  type ExecutionEvent,
  GuestCommand,
  GuestSpec,
  type SupervisorKind
} from "../../src/domain/guests/GuestSpec.ts"
import { type GuestIdentity, GuestSupervisor } from "../../src/domain/guests/GuestSupervisor.ts"
import { Generation, SandboxId } from "../../src/domain/Identity.ts"
import { reclaimSandbox } from "../../src/domain/reclamation/reclamation.ts"
import { RunState } from "../../src/domain/reclamation/RunState.ts"
import * as FileRunState from "../../src/infra/filesystem/RunState.ts"
import { membersOf } from "../../src/infra/guests/cgroups.ts"
import { probeMachine } from "../../src/infra/guests/probe.ts"
import { layer as processLayer } from "../../src/infra/guests/processSupervisor.ts"

/** What a group of cases declares its tests with: both ports of a daemon are provided. */
export type GuestMethods = Vitest.MethodsNonLive<GuestSupervisor | RunState>

export const drawSandbox = (): SandboxId => SandboxId.make(`sb-${randomUUID()}`)

/** A state directory as the daemon has it. */
export const makeStateDirectory = (parent: string = Os.tmpdir()): string => {
  const directory = Files.mkdtempSync(Path.join(parent, "holdfast-guests-"))
  Files.chmodSync(directory, 0o700)
  return directory
}

export const makeSpec = (changes: Partial<GuestSpec> = {}): GuestSpec =>
  new GuestSpec({
    sandbox: drawSandbox(),
    generation: Generation.make(1),
    runId: randomUUID(),
    attemptId: randomUUID(),
    image: "host",
    argv: [],
    environment: {},
    cpuMillis: 1_000,
    memoryBytes: 128 * 1024 ** 2,
    processesMax: 64,
    disk: null,
    ...changes
  })

/** A daemon over the state directory: its supervisor and its run state. Building it again is a restart. */
export const daemonLayer = (stateDirectory: string, kind: SupervisorKind) =>
  Layer.mergeAll(processLayer({ stateDirectory, kind }), FileRunState.layer({ stateDirectory }))

export interface Answer {
  readonly stdout: string
  readonly stderr: string
  readonly truncated: ReadonlyArray<"stdout" | "stderr">
  readonly exitCode: number | undefined
  readonly ended: string | undefined
}

const textOf = (events: ReadonlyArray<ExecutionEvent>, stream: "stdout" | "stderr"): string =>
  Buffer.concat(
    events.flatMap((event) => (event._tag === "Output" && event.stream === stream ? [event.bytes] : []))
  ).toString("utf8")

export const answerOf = (events: ReadonlyArray<ExecutionEvent>): Answer => {
  const last = events.at(-1)
  return {
    stdout: textOf(events, "stdout"),
    stderr: textOf(events, "stderr"),
    truncated: events.flatMap((event) => (event._tag === "Truncated" ? [event.stream] : [])),
    exitCode: last?._tag === "Exited" ? last.exitCode : undefined,
    ended: last?._tag === "Exited" ? last.ended : undefined
  }
}

export const makeCommand = (
  argv: readonly [string, ...ReadonlyArray<string>],
  changes: Partial<GuestCommand> = {}
): GuestCommand =>
  new GuestCommand({
    argv,
    environment: {},
    workingDirectory: "/workspace",
    standardInput: null,
    timeoutMillis: 10_000,
    ...changes
  })

/** Runs a command in the guest and gathers what it says. */
export const run = (
  sandbox: SandboxId,
  argv: readonly [string, ...ReadonlyArray<string>],
  changes: Partial<GuestCommand> = {}
) =>
  Effect.gen(function* () {
    const supervisor = yield* GuestSupervisor
    return answerOf(yield* Stream.runCollect(supervisor.execute(sandbox, makeCommand(argv, changes))))
  })

/** Runs a shell line in the guest. */
export const shell = (sandbox: SandboxId, line: string, changes: Partial<GuestCommand> = {}) =>
  run(sandbox, ["sh", "-c", line], changes)

/** Starts a guest, uses it, and reclaims it whatever happened. */
export const withGuest = <A, E, R>(
  spec: GuestSpec,
  use: (identity: GuestIdentity) => Effect.Effect<A, E, R>
) =>
  Effect.acquireUseRelease(
    Effect.flatMap(GuestSupervisor, (supervisor) => supervisor.start(spec)),
    use,
    () => reclaimSandbox(spec.sandbox, { graceMillis: 0 }).pipe(Effect.orDie)
  )

/** The words of a process, each with a NUL behind it; none for one that has ended since it was listed. */
export const commandLineOf = (pid: number): string => {
  try {
    return Files.readFileSync(`/proc/${pid}/cmdline`, "latin1")
  } catch {
    return ""
  }
}

/** Waits for a fact with a deadline, and says what it waited for. */
export const eventually = <E, R>(what: string, fact: Effect.Effect<boolean, E, R>) =>
  Effect.gen(function* () {
    for (const deadline = Date.now() + 10_000; Date.now() < deadline;) {
      if (yield* fact) return
      yield* Effect.sleep(5)
    }
    throw new Error(`it did not come about: ${what}`)
  })

/** Why the supervisor does not work on this machine, or null. */
const troubleOf = (kind: SupervisorKind): Promise<string | null> => {
  const stateDirectory = makeStateDirectory()
  for (const name of ["runtime", "disks"]) Files.mkdirSync(Path.join(stateDirectory, name), { mode: 0o711 })
  const probed = Effect.scoped(probeMachine(stateDirectory, [kind])).pipe(
    Effect.map(({ results: [result] }) => (result?._tag === "Works" ? null : (result?.why ?? "no result"))),
    Effect.ensuring(Effect.sync(() => Files.rmSync(stateDirectory, { recursive: true, force: true })))
  )
  return Effect.runPromise(probed)
}

/**
 * Declares tests that need the supervisor. Where it does not work, they fail on a build machine with the line that
 * mends it, and on a laptop are left out with the reason printed.
 */
export const describeWith = async (kind: SupervisorKind, declare: () => void): Promise<void> => {
  const trouble = await troubleOf(kind)
  const isBuildMachine = process.env["CI"] === "true"
  if (trouble !== null) console.log(`guests under ${kind} do not work here: ${trouble}`)
  test(`${kind} works on every build machine`, () => {
    expect(isBuildMachine ? trouble : null).toBeNull()
  })
  describe.runIf(trouble === null)(`guests under ${kind}`, () => {
    declare()
  })
}

/** Pids in the guest's cgroups, each once. */
export const processesOf = (identity: GuestIdentity): ReadonlyArray<number> => [
  ...new Set(identity.groups.flatMap((group) => membersOf(group.path)))
]

/** Everything that a sandbox may have left on this machine: its cgroups and the entries of its folder. */
export const leftOf = (stateDirectory: string, identity: GuestIdentity) => ({
  groups: identity.groups.filter((group) => Files.existsSync(group.path)).map((group) => group.path),
  entries: Files.readdirSync(Path.join(stateDirectory, "runtime", identity.sandbox)).toSorted()
})

export { GuestSupervisor, RunState }
