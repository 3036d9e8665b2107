/**
 * A double of GuestSupervisor wholly in memory, for tests of programs and for consumers of the library. It follows the
 * port's rules by the same decisions as the real one; what goes wrong is told by the script in ScriptedState.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { GuestCapabilities, GuestSample } from "../../domain/guests/GuestSpec.ts"
import {
  type GuestFailure,
  type GuestIdentity,
  GuestStateRefused,
  GuestSupervisor
} from "../../domain/guests/GuestSupervisor.ts"
import { decideStart } from "../../domain/guests/StartDecision.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { drawIdentity, observeScripted, scripted, type ScriptedState } from "./scriptedState.ts"

export const scriptedCapabilities = new GuestCapabilities({
  supervisor: "scripted",
  isolation: "none",
  limits: "none",
  pause: true,
  survivesDaemon: true,
  privateUser: false,
  seccomp: false,
  ports: true,
  proof: "cgroup"
})

const refuse = (sandbox: SandboxId, call: string, state: string) =>
  Effect.fail(new GuestStateRefused({ sandbox, call, state }))

const requireRunning = (
  state: ScriptedState,
  sandbox: SandboxId,
  call: string
): Effect.Effect<GuestIdentity, GuestStateRefused> =>
  Effect.suspend(() => {
    const observation = observeScripted(state, sandbox)
    return observation._tag === "Running"
      ? Effect.succeed(observation.identity)
      : refuse(sandbox, call, observation._tag.toLowerCase())
  })

const start = (state: ScriptedState): GuestSupervisor["Service"]["start"] =>
  Effect.fn("guests.start")(function* (spec) {
    const { sandbox } = spec
    const act = Effect.gen(function* () {
      if (state.locked.has(sandbox)) {
        return yield* refuse(sandbox, "start", "locked by another launch or a reclamation")
      }
      const former = state.guests.get(sandbox)
      const decision = decideStart(
        spec,
        observeScripted(state, sandbox),
        former === undefined ? null : { ...former.identity, hadGuest: true }
      )
      if (decision._tag === "Refuse") return yield* refuse(sandbox, "start", decision.state)
      if (decision._tag === "Adopt") return decision.identity
      const identity = drawIdentity(state, spec)
      state.guests.set(sandbox, {
        spec,
        identity,
        isAlive: true,
        isPaused: false,
        hasStragglers: false,
        exit: null,
        groups: "same"
      })
      return identity
    })
    return yield* scripted(state, "start", sandbox, act)
  })

const setPaused = (state: ScriptedState, paused: boolean): GuestSupervisor["Service"]["pause"] => {
  const call = paused ? "pause" : "resume"
  return (sandbox) =>
    scripted(
      state,
      call,
      sandbox,
      Effect.suspend(() => {
        const guest = state.guests.get(sandbox)
        const { _tag } = observeScripted(state, sandbox)
        if (guest === undefined || (_tag !== "Running" && _tag !== "Paused")) {
          return refuse(sandbox, call, _tag.toLowerCase())
        }
        guest.isPaused = paused
        return Effect.void
      })
    )
}

const end = (state: ScriptedState): GuestSupervisor["Service"]["end"] =>
  Effect.fn("guests.end")(function* (sandbox) {
    const act = Effect.sync(() => {
      const guest = state.guests.get(sandbox)
      const { _tag } = observeScripted(state, sandbox)
      // As the real one: what the kernel contradicts is not touched.
      if (guest !== undefined && _tag !== "Gone" && _tag !== "Uncertain") {
        guest.isAlive = false
        guest.isPaused = false
        guest.hasStragglers = false
      }
      return observeScripted(state, sandbox)
    })
    return yield* scripted(state, "end", sandbox, act)
  })

const execute =
  (state: ScriptedState): GuestSupervisor["Service"]["execute"] =>
  (sandbox, command) =>
    Stream.unwrap(
      scripted(
        state,
        "execute",
        sandbox,
        Effect.gen(function* () {
          yield* requireRunning(state, sandbox, "execute")
          return Stream.fromIterable(yield* state.commandScript(sandbox, command))
        })
      )
    )

const lockOwner = (state: ScriptedState): GuestSupervisor["Service"]["lockOwner"] =>
  Effect.fn("guests.lockOwner")(function* (sandbox) {
    const take = Effect.suspend(() => {
      if (state.locked.has(sandbox)) return refuse(sandbox, "lock", "locked by a launch or a reclamation")
      state.locked.add(sandbox)
      return Effect.void
    })
    yield* Effect.acquireRelease(scripted(state, "lockOwner", sandbox, take), () =>
      Effect.sync(() => state.locked.delete(sandbox))
    )
  })

const removeGroups =
  (state: ScriptedState): GuestSupervisor["Service"]["removeGroups"] =>
  (sandbox) =>
    scripted(
      state,
      "removeGroups",
      sandbox,
      Effect.sync(() => {
        const guest = state.guests.get(sandbox)
        if (guest !== undefined) guest.groups = "removed"
      })
    )

const emptySample = new GuestSample({
  cpuMicros: null,
  memoryBytes: null,
  memoryPeakBytes: null,
  diskBytes: null,
  ioReadBytes: null,
  ioWriteBytes: null,
  processes: null
})

/** A supervisor over the given state. Building it again over the same state is a daemon's restart: locks are free. */
export const layerScripted = (state: ScriptedState): Layer.Layer<GuestSupervisor> =>
  Layer.sync(GuestSupervisor, () => {
    state.locked.clear()
    return {
      capabilities: scriptedCapabilities,
      validate: () => Effect.void,
      start: start(state),
      inspect: (sandbox) =>
        scripted(
          state,
          "inspect",
          sandbox,
          Effect.sync(() => observeScripted(state, sandbox))
        ),
      ping: (sandbox) =>
        scripted(state, "ping", sandbox, Effect.asVoid(requireRunning(state, sandbox, "ping"))),
      execute: execute(state),
      pause: setPaused(state, true),
      resume: setPaused(state, false),
      signal: (sandbox) =>
        scripted(state, "signal", sandbox, Effect.asVoid(requireRunning(state, sandbox, "signal"))),
      end: end(state),
      sample: (sandbox): Effect.Effect<GuestSample, GuestFailure> =>
        scripted(state, "sample", sandbox, Effect.succeed(emptySample)),
      openPort: (sandbox, { port, token }) =>
        scripted(
          state,
          "openPort",
          sandbox,
          Effect.as(
            requireRunning(state, sandbox, "open a port"),
            `/scripted/${sandbox}/${port}-${token.slice(0, 8)}.sock`
          )
        ),
      removeGroups: removeGroups(state),
      lockOwner: lockOwner(state)
    }
  })
