/**
 * Reclamation step by step: refused without proof, and interrupted at every step. Guests are scripted, files are real:
 * what an interruption leaves on disk is what the next run has to go on from.
 */
import { it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Files from "node:fs"
import * as Path from "node:path"
import { describe, expect } from "vitest"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import {
  reclaimSandbox,
  type ReclamationStep,
  reclamationSteps
} from "../../../src/domain/reclamation/reclamation.ts"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import * as FileRunState from "../../../src/infra/filesystem/RunState.ts"
import {
  countCalls,
  endByItself,
  failNext,
  hold,
  makeScriptedState,
  reboot,
  type ScriptedCall,
  type ScriptedState
} from "../../../src/infra/guests/scriptedState.ts"
import { layerScripted } from "../../../src/infra/guests/scriptedSupervisor.ts"
import { makeSpec, makeStateDirectory } from "../../suites/guestHarness.ts"

interface Bench {
  readonly state: ScriptedState
  readonly stateDirectory: string
  /** Runs with a daemon freshly started over the same guests and files. */
  readonly daemon: <A, E>(effect: Effect.Effect<A, E, GuestSupervisor | RunState>) => Effect.Effect<A, E>
}

const withBench = <A, E>(use: (bench: Bench) => Effect.Effect<A, E>) =>
  Effect.acquireUseRelease(
    Effect.sync((): Bench => {
      const state = makeScriptedState()
      const stateDirectory = makeStateDirectory()
      return {
        state,
        stateDirectory,
        daemon: (effect) =>
          Effect.suspend(() =>
            Effect.provide(
              effect,
              Layer.mergeAll(layerScripted(state), FileRunState.layer({ stateDirectory })),
              { local: true }
            )
          )
      }
    }),
    use,
    (bench) => Effect.sync(() => Files.rmSync(bench.stateDirectory, { recursive: true, force: true }))
  )

/** Private files as a guest leaves them. */
const leaveFiles = (bench: Bench, sandbox: string) => {
  const folder = Path.join(bench.stateDirectory, "runtime", sandbox)
  Files.mkdirSync(Path.join(folder, "run/workspace/a"), { recursive: true })
  Files.writeFileSync(Path.join(folder, "run/workspace/a/file"), "x")
  Files.writeFileSync(Path.join(folder, "identity.json"), "{}")
  Files.writeFileSync(Path.join(folder, "owner.lock"), "")
  return folder
}

const startGuest = (bench: Bench, spec: ReturnType<typeof makeSpec>) =>
  bench
    .daemon(Effect.flatMap(GuestSupervisor, (supervisor) => supervisor.start(spec)))
    .pipe(Effect.as(leaveFiles(bench, spec.sandbox)))

const options = { graceMillis: 0 }

/** The process is killed at this point: nothing after it happens, no failure is handled. */
const killedAt = (step: ReclamationStep, when: "before" | "after") => {
  const die = (_: string, at: string) => (at === step ? Effect.die(`killed ${when} ${step}`) : Effect.void)
  const pass = () => Effect.void
  return when === "before" ? { before: die, after: pass } : { before: pass, after: die }
}

const declareCases = (): void => {
  it.effect("ends, proves, fences and removes, and answers the same proof each time", () =>
    withBench((bench) =>
      Effect.gen(function* () {
        const spec = makeSpec()
        const folder = yield* startGuest(bench, spec)
        const proof = yield* bench.daemon(reclaimSandbox(spec.sandbox, options))
        expect(proof).toMatchObject({
          sandbox: spec.sandbox,
          generation: 1,
          evidence: { _tag: "GroupsEmpty" }
        })
        expect(Files.readdirSync(folder).toSorted()).toEqual(["owner.lock", "tombstone.json"])
        expect(yield* bench.daemon(reclaimSandbox(spec.sandbox, options))).toEqual(proof)
        expect(countCalls(bench.state, "end")).toBe(1)
      })
    )
  )

  for (const step of reclamationSteps) {
    for (const when of ["before", "after"] as const) {
      it.effect(`RG-DEL-05 killed ${when} "${step}" and run again ends in the same state`, () =>
        withBench((bench) =>
          Effect.gen(function* () {
            const spec = makeSpec()
            const folder = yield* startGuest(bench, spec)
            const exit = yield* Effect.exit(
              bench
                .daemon(reclaimSandbox(spec.sandbox, options))
                .pipe(Effect.provideService(StepObserver, killedAt(step, when)))
            )
            expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
            const proof = yield* bench.daemon(reclaimSandbox(spec.sandbox, options))
            expect(proof).toMatchObject({ evidence: { _tag: "GroupsEmpty" } })
            expect(Files.readdirSync(folder).toSorted()).toEqual(["owner.lock", "tombstone.json"])
            expect(bench.state.guests.get(spec.sandbox)).toMatchObject({ isAlive: false, groups: "removed" })
            expect(bench.state.locked.size).toBe(0)
          })
        )
      )
    }
  }

  const calls: ReadonlyArray<ScriptedCall> = ["end", "inspect", "lockOwner", "removeGroups"]
  for (const call of calls) {
    for (const when of ["before", "after"] as const) {
      it.effect(
        `RG-DEL-05 a failure ${when} ${call} is told, keeps what is needed, and the next run completes`,
        () =>
          withBench((bench) =>
            Effect.gen(function* () {
              const spec = makeSpec()
              const folder = yield* startGuest(bench, spec)
              failNext(bench.state, call, when)
              const error = yield* Effect.flip(bench.daemon(reclaimSandbox(spec.sandbox, options)))
              expect(error).toMatchObject({ code: "guest_failure" })
              const proof = yield* bench.daemon(reclaimSandbox(spec.sandbox, options))
              expect(proof.evidence._tag).toBe("GroupsEmpty")
              expect(Files.readdirSync(folder).toSorted()).toEqual(["owner.lock", "tombstone.json"])
            })
          )
      )
    }
  }

  it.effect(
    "RG-DEL-06 a missing or replaced cgroup leaves no tombstone, removes nothing and touches no guest",
    () =>
      withBench((bench) =>
        Effect.forEach(["missing", "replaced"] as const, (groups) =>
          Effect.gen(function* () {
            const spec = makeSpec()
            const folder = yield* startGuest(bench, spec)
            const before = Files.readdirSync(folder)
            const guest = bench.state.guests.get(spec.sandbox)
            if (guest === undefined) throw new Error("the guest was not started")
            guest.groups = groups
            const error = yield* Effect.flip(bench.daemon(reclaimSandbox(spec.sandbox, options)))
            expect(error).toMatchObject({ code: "absence_not_proved", state: "Uncertain" })
            expect(Files.readdirSync(folder)).toEqual(before)
            expect(guest.isAlive).toBe(true)
            expect(countCalls(bench.state, "removeGroups", spec.sandbox)).toBe(0)
          })
        )
      )
  )

  it.effect("a guest launched between the proof and the lock is not fenced", () =>
    withBench((bench) =>
      Effect.gen(function* () {
        const spec = makeSpec()
        yield* startGuest(bench, spec)
        endByItself(bench.state, spec.sandbox, 0)
        const barrier = hold(bench.state, "lockOwner")
        yield* bench.daemon(
          Effect.gen(function* () {
            const reclaiming = yield* Effect.forkChild(Effect.exit(reclaimSandbox(spec.sandbox, options)))
            yield* barrier.reached
            const supervisor = yield* GuestSupervisor
            yield* supervisor.start(makeSpec({ sandbox: spec.sandbox, generation: Generation.make(2) }))
            yield* barrier.release
            const exit = yield* Fiber.join(reclaiming)
            const error = Exit.isFailure(exit)
              ? Option.getOrUndefined(Cause.findErrorOption(exit.cause))
              : undefined
            expect(error).toMatchObject({ code: "absence_not_proved", state: "Running" })
            expect(Option.isNone(yield* (yield* RunState).readTombstone(spec.sandbox))).toBe(true)
            expect((yield* supervisor.inspect(spec.sandbox))._tag).toBe("Running")
          })
        )
      })
    )
  )

  it.effect("the owner lock is held from before the tombstone until the files are gone", () =>
    withBench((bench) =>
      Effect.gen(function* () {
        const spec = makeSpec()
        yield* startGuest(bench, spec)
        const held: Array<readonly [string, boolean]> = []
        const note = (_: string, at: string) =>
          Effect.sync(() => void held.push([at, bench.state.locked.has(spec.sandbox)]))
        yield* bench
          .daemon(reclaimSandbox(spec.sandbox, options))
          .pipe(Effect.provideService(StepObserver, { before: note, after: () => Effect.void }))
        expect(held).toEqual([
          ["end", false],
          ["prove", false],
          ["lock", false],
          ["tombstone", true],
          ["groups", true],
          ["files", true]
        ])
        expect(bench.state.locked.has(spec.sandbox)).toBe(false)
      })
    )
  )

  it.effect(
    "a sandbox that was never started and one of a former boot are reclaimed by their own evidence",
    () =>
      withBench((bench) =>
        Effect.gen(function* () {
          const never = makeSpec()
          const asked = { ...options, generation: Generation.make(4) }
          expect(yield* bench.daemon(reclaimSandbox(never.sandbox, asked))).toMatchObject({
            evidence: { _tag: "NeverStarted" },
            generation: 4
          })
          const spec = makeSpec()
          yield* startGuest(bench, spec)
          reboot(bench.state)
          expect((yield* bench.daemon(reclaimSandbox(spec.sandbox, options))).evidence._tag).toBe(
            "BootChanged"
          )
        })
      )
  )
}

describe("reclaiming a sandbox", () => {
  declareCases()
})
