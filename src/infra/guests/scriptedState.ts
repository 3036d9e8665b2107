/**
 * The machine behind the scripted supervisor: guests as plain records, and the script of what goes wrong. It outlives
 * the layers built on it, so that a test can "restart the daemon" over the same guests. No time passes here.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { decideObservation, type GuestFacts, SeenGroup, SeenInit } from "../../domain/guests/GuestFacts.ts"
import type { ExitReport, OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import { ExecutionEvent, type GuestCommand, type GuestSpec } from "../../domain/guests/GuestSpec.ts"
import { GuestFailure, GuestIdentity, type GuestObservation } from "../../domain/guests/GuestSupervisor.ts"
import { Generation, type SandboxId } from "../../domain/Identity.ts"

/** The calls of the port that can be held, failed or counted. */
export type ScriptedCall =
  | "start"
  | "inspect"
  | "ping"
  | "execute"
  | "pause"
  | "resume"
  | "end"
  | "sample"
  | "removeGroups"
  | "openPort"
  | "signal"
  | "lockOwner"

export interface ScriptedGuest {
  readonly spec: GuestSpec
  readonly identity: GuestIdentity
  isAlive: boolean
  isPaused: boolean
  /** Processes beside init that outlive it: the guest is half dead then. */
  hasStragglers: boolean
  groups: "same" | "missing" | "replaced" | "removed"
  exit: ExitReport | null
}

/** A point at which calls stop until they are let go. */
export interface Barrier {
  /** A call has arrived. */
  readonly reached: Effect.Effect<void>
  /** Lets the waiting call, and every later one, pass. */
  readonly release: Effect.Effect<void>
}

/** What a command in a guest answers. The last event has to be `Exited`. */
export type CommandScript = (
  sandbox: SandboxId,
  command: GuestCommand
) => Effect.Effect<ReadonlyArray<ExecutionEvent>, GuestFailure>

interface Fault {
  readonly call: ScriptedCall
  readonly when: "before" | "after"
}

export interface ScriptedState {
  bootId: string
  readonly guests: Map<SandboxId, ScriptedGuest>
  readonly locked: Set<SandboxId>
  /** Every call that arrived, in order. */
  readonly calls: Array<{ readonly call: ScriptedCall; readonly sandbox: SandboxId }>
  readonly faults: Array<Fault>
  readonly barriers: Map<
    ScriptedCall,
    { readonly arrived: Deferred.Deferred<void>; readonly open: Deferred.Deferred<void> }
  >
  commandScript: CommandScript
  nextPid: number
  nextBoot: number
}

const bootIdOf = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`

export const makeScriptedState = (): ScriptedState => ({
  bootId: bootIdOf(1),
  guests: new Map(),
  locked: new Set(),
  calls: [],
  faults: [],
  barriers: new Map(),
  commandScript: () => Effect.succeed([ExecutionEvent.cases.Exited.make({ exitCode: 0, ended: "exited" })]),
  nextPid: 1_000,
  nextBoot: 2
})

/** The next call of that name fails: `before` it did anything, or `after` it did everything. */
export const failNext = (
  state: ScriptedState,
  call: ScriptedCall,
  when: "before" | "after" = "before"
): void => void state.faults.push({ call, when })

/** Calls of that name stop from now on until the barrier is released. */
export const hold = (state: ScriptedState, call: ScriptedCall): Barrier => {
  const barrier = { arrived: Deferred.makeUnsafe<void>(), open: Deferred.makeUnsafe<void>() }
  state.barriers.set(call, barrier)
  return {
    reached: Deferred.await(barrier.arrived),
    release: Effect.suspend(() => {
      if (state.barriers.get(call) === barrier) state.barriers.delete(call)
      return Effect.asVoid(Deferred.succeed(barrier.open, undefined))
    })
  }
}

/** The guest ends by itself, with this status. */
export const endByItself = (state: ScriptedState, sandbox: SandboxId, exitCode: number | null): void => {
  const guest = state.guests.get(sandbox)
  if (guest === undefined) return
  guest.isAlive = false
  guest.isPaused = false
  guest.exit = { exitCode }
}

/** The machine boots: no guest of before can be alive. */
export const reboot = (state: ScriptedState): void => {
  state.bootId = bootIdOf(state.nextBoot)
  state.nextBoot += 1
}

/** How often the call arrived, of one sandbox or of all. */
export const countCalls = (state: ScriptedState, call: ScriptedCall, sandbox?: SandboxId): number =>
  state.calls.filter((each) => each.call === call && (sandbox === undefined || each.sandbox === sandbox))
    .length

const takeFault = (state: ScriptedState, call: ScriptedCall, when: Fault["when"]): boolean => {
  const at = state.faults.findIndex((fault) => fault.call === call && fault.when === when)
  if (at === -1) return false
  state.faults.splice(at, 1)
  return true
}

/** Counts a call, holds it, fails it as the script says, and else does it. */
export const scripted = <A, E, R>(
  state: ScriptedState,
  call: ScriptedCall,
  sandbox: SandboxId,
  act: Effect.Effect<A, E, R>
): Effect.Effect<A, E | GuestFailure, R> =>
  Effect.gen(function* () {
    state.calls.push({ call, sandbox })
    const barrier = state.barriers.get(call)
    if (barrier !== undefined) {
      yield* Deferred.succeed(barrier.arrived, undefined)
      yield* Deferred.await(barrier.open)
    }
    const failed = new GuestFailure({ sandbox, step: call, detail: "the script says so" })
    if (takeFault(state, call, "before")) return yield* failed
    const answer = yield* act
    if (takeFault(state, call, "after")) return yield* failed
    return answer
  })

export const drawIdentity = (state: ScriptedState, spec: GuestSpec): GuestIdentity => {
  const pid = state.nextPid
  state.nextPid += 2
  const process = (number: number) => ({ pid: number, startTicks: String(number * 10) })
  const groups: ReadonlyArray<OwnedGroup> = [
    { path: `/scripted/holdfast/${spec.sandbox}`, inode: String(pid * 100) }
  ]
  const { attemptId, generation, runId, sandbox } = spec
  return new GuestIdentity({
    supervisor: "scripted",
    sandbox,
    generation,
    runId,
    attemptId,
    bootId: state.bootId,
    groups,
    monitor: process(pid),
    init: process(pid + 1),
    userId: 30_000 + (pid % 10_000)
  })
}

const seenGroups = (guest: ScriptedGuest): ReadonlyArray<SeenGroup> =>
  guest.identity.groups.map(() => {
    if (guest.groups === "same") return SeenGroup.Same({ populated: guest.isAlive || guest.hasStragglers })
    return guest.groups === "replaced" ? SeenGroup.Replaced() : SeenGroup.Missing()
  })

/** Facts as a real machine would show them, so that the double decides by the same rules. */
const factsOf = (state: ScriptedState, guest: ScriptedGuest | undefined): GuestFacts => ({
  bootId: state.bootId,
  tombstone: null,
  preparing: null,
  // Behind a tombstone the groups are removed and the identity is reclaimed.
  identity: guest === undefined || guest.groups === "removed" ? null : guest.identity,
  groups: guest === undefined ? [] : seenGroups(guest),
  init: guest?.isAlive === true ? SeenInit.Alive({ isOfGuest: true }) : SeenInit.Gone(),
  witnesses: 0,
  frozen: guest?.isPaused === true,
  exit: guest?.exit ?? null,
  generation: guest?.identity.generation ?? Generation.make(1)
})

export const observeScripted = (state: ScriptedState, sandbox: SandboxId): GuestObservation =>
  decideObservation(factsOf(state, state.guests.get(sandbox)))
