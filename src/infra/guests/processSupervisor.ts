/**
 * Adapter of GuestSupervisor that carries guests as processes of this machine, by bubblewrap or by the fallback.
 * Everything about a guest that must outlive the daemon is in its folder and its cgroups; what is kept in memory here
 * are open links and locks. Source: RG-RUN, guests of design.md.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import type { SupervisorKind } from "../../domain/guests/GuestSpec.ts"
import {
  GuestCallUnsupported,
  GuestSpecRefused,
  GuestStateRefused,
  GuestSupervisor
} from "../../domain/guests/GuestSupervisor.ts"
import {
  chooseSupervisor,
  readSupervisorKind,
  type SupervisorUnavailable,
  supervisorsByStrength,
  type UnknownSupervisor
} from "../../domain/guests/SupervisorChoice.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { ensureDirectory, errorName } from "../filesystem/privateFiles.ts"
import { askAgent, channelNames, signalMain } from "./agentLink.ts"
import { removeGroup, setFrozen } from "./cgroupControl.ts"
import { controlGroup, groupPaths, ownGroup } from "./cgroups.ts"
import { endUnderGate } from "./ending.ts"
import { executeAt } from "./execution.ts"
import { disksDirectory, readIdentity, readPreparing, readTombstone, runtimeDirectory } from "./folders.ts"
import {
  attempt,
  deskOf,
  folderIn,
  forgetDesk,
  type Ground,
  guestFailure,
  makeGate,
  observe,
  requireRunning
} from "./ground.ts"
import { readIfThere } from "./kernel.ts"
import { makeKits } from "./launchKits.ts"
import { makeFolder } from "./launchFiles.ts"
import { takeOwnerLock } from "./ownerLock.ts"
import { openPortUnderGate } from "./portBridge.ts"
import { probeMachine } from "./probe.ts"
import { closeDesk } from "./runners.ts"
import { sampleGuest } from "./sampling.ts"
import { checkSpec } from "./specCheck.ts"
import { startUnderGate } from "./start.ts"
import { privateUserIds, sharedUserId } from "./userIds.ts"

/** The state directory cannot be used for guests. `path` is relative to it. */
export class GuestStateUnusable extends Schema.TaggedError<GuestStateUnusable>()("GuestStateUnusable", {
  path: Schema.String,
  why: Schema.String
}) {
  readonly code = "state_directory_refused"
  override get message(): string {
    return `guests cannot be kept at ${this.path} of the state directory: ${this.why}`
  }
}

export type SupervisorError = UnknownSupervisor | SupervisorUnavailable | GuestStateUnusable

export interface SupervisorOptions {
  readonly stateDirectory: string
  /** `auto` takes the strongest that works here. */
  readonly kind: "auto" | SupervisorKind
}

const makePlaces = (stateDirectory: string): Effect.Effect<void, GuestStateUnusable> =>
  Effect.forEach(
    [
      { path: runtimeDirectory(stateDirectory), mode: 0o711 },
      { path: disksDirectory(stateDirectory), mode: 0o711 }
    ],
    ({ mode, path }) =>
      Effect.try({
        try: () => ensureDirectory(path, mode),
        catch: (error) => new GuestStateUnusable({ path: Path.basename(path), why: errorName(error) })
      }),
    { discard: true }
  )

/** Probes the machine, chooses, and gathers what the calls share. Links are closed with the scope; guests live on. */
const makeGround = (options: SupervisorOptions): Effect.Effect<Ground, SupervisorError, Scope.Scope> =>
  Effect.gen(function* () {
    const stateDirectory = Path.resolve(options.stateDirectory)
    const asked = yield* Effect.fromResult(readSupervisorKind(options.kind))
    yield* makePlaces(stateDirectory)
    const kinds = asked === "auto" ? supervisorsByStrength : [asked]
    const { results, surroundings } = yield* probeMachine(stateDirectory, kinds)
    const choice = yield* Effect.fromResult(chooseSupervisor(asked, results))
    for (const { kind, why } of choice.passedOver) {
      yield* Effect.logWarning(`guests are carried by ${choice.capabilities.supervisor}; ${kind}: ${why}`)
    }
    const userIds = yield* Effect.try({
      try: () =>
        surroundings.isRoot ? privateUserIds(stateDirectory) : sharedUserId(process.getuid?.() ?? 0),
      catch: (error) => new GuestStateUnusable({ path: "runtime", why: errorName(error) })
    })
    const channelName = channelNames()
    const env = yield* surroundings.shell.run(["/usr/bin/env", "--default-signal=INT,QUIT", "true"])
    const kits = yield* makeKits({ stateDirectory, channelName, shell: surroundings.shell })
    const desks: Ground["desks"] = new Map()
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        for (const desk of desks.values()) closeDesk(desk)
        desks.clear()
      })
    )
    const filter = choice.capabilities.seccomp ? surroundings.filter : null
    return {
      stateDirectory,
      userIds,
      desks,
      filter,
      gate: makeGate(),
      channelName,
      kits,
      envResetsSignals: env === 0,
      layout: surroundings.layout,
      ownGroup: ownGroup(surroundings.layout, readIfThere("/proc/self/cgroup") ?? ""),
      shell: surroundings.shell,
      capabilities: choice.capabilities,
      bubblewrap: surroundings.bubblewrap,
      staging: surroundings.staging
    }
  })

const validate = (ground: Ground): GuestSupervisor["Service"]["validate"] =>
  Effect.fn("guests.validate")(function* (spec) {
    const doubt = yield* Effect.sync(() => checkSpec(ground, spec))
    if (doubt !== null) return yield* new GuestSpecRefused({ sandbox: spec.sandbox, ...doubt })
  })

const start = (ground: Ground): GuestSupervisor["Service"]["start"] =>
  Effect.fn("guests.start")(function* (spec) {
    yield* Effect.annotateCurrentSpan("sandbox", spec.sandbox)
    yield* validate(ground)(spec)
    return yield* ground.gate(spec.sandbox)(startUnderGate(ground, spec))
  })

const ping = (ground: Ground): GuestSupervisor["Service"]["ping"] =>
  Effect.fn("guests.ping")(function* (sandbox) {
    const identity = yield* requireRunning(ground, sandbox, "ping")
    const { link } = yield* deskOf(ground, identity)
    if ((yield* askAgent(link, Bounds.guestPingMillisMax)) === undefined) {
      return yield* guestFailure(sandbox, "ping", "the guest's agent does not answer")
    }
  })

const signal = (ground: Ground): GuestSupervisor["Service"]["signal"] =>
  Effect.fn("guests.signal")(function* (sandbox, name) {
    const identity = yield* requireRunning(ground, sandbox, "signal")
    const { link } = yield* deskOf(ground, identity)
    const status = yield* signalMain(link, name, Bounds.guestPingMillisMax)
    if (status === undefined) {
      return yield* guestFailure(sandbox, "signal", "the guest's agent does not answer")
    }
    if (status !== 0) {
      return yield* new GuestCallUnsupported({
        call: "signal",
        why: "the guest has no main command that runs"
      })
    }
  })

const execute =
  (ground: Ground): GuestSupervisor["Service"]["execute"] =>
  (sandbox, command) =>
    Stream.unwrap(
      Effect.gen(function* () {
        const identity = yield* requireRunning(ground, sandbox, "execute")
        return executeAt(yield* deskOf(ground, identity), command)
      })
    )

/** Freezes or thaws; repeating it changes nothing. */
const setPaused = (ground: Ground, paused: boolean): GuestSupervisor["Service"]["pause"] =>
  Effect.fnUntraced(function* (sandbox) {
    const call = paused ? "pause" : "resume"
    const observation = yield* observe(ground, sandbox)
    if (observation._tag !== "Running" && observation._tag !== "Paused") {
      return yield* new GuestStateRefused({ sandbox, call, state: observation._tag.toLowerCase() })
    }
    const control = controlGroup(observation.identity.groups)
    if (control === null) {
      return yield* new GuestCallUnsupported({
        call,
        why: "the daemon may not use cgroups on this machine"
      })
    }
    if ((observation._tag === "Paused") === paused) return
    if (!(yield* setFrozen(control, paused))) {
      return yield* guestFailure(sandbox, call, "the kernel did not get there in time")
    }
  })

const openPort = (ground: Ground): GuestSupervisor["Service"]["openPort"] =>
  Effect.fn("guests.openPort")(function* (sandbox, options) {
    yield* Effect.annotateCurrentSpan("sandbox", sandbox)
    const open = Effect.flatMap(requireRunning(ground, sandbox, "open a port"), (identity) =>
      openPortUnderGate(ground, identity, options)
    )
    return yield* ground.gate(sandbox)(open)
  })

const end = (ground: Ground): GuestSupervisor["Service"]["end"] =>
  Effect.fn("guests.end")(function* (sandbox, { graceMillis }) {
    yield* Effect.annotateCurrentSpan("sandbox", sandbox)
    return yield* ground.gate(sandbox)(endUnderGate(ground, sandbox, graceMillis))
  })

/** Groups that the sandbox may have left: the recorded ones, and those of its name in this boot's hierarchies. */
const leftGroups = (ground: Ground, sandbox: SandboxId): ReadonlyArray<string> => {
  const folder = folderIn(ground, sandbox)
  const recorded = readIdentity(folder)?.groups ?? readPreparing(folder)?.groups ?? []
  return [...new Set([...recorded.map((group) => group.path), ...groupPaths(ground.layout, sandbox)])]
}

const removeGroups = (ground: Ground): GuestSupervisor["Service"]["removeGroups"] =>
  Effect.fn("guests.removeGroups")(function* (sandbox) {
    const tombstone = yield* attempt(sandbox, "read the tombstone", () =>
      readTombstone(folderIn(ground, sandbox))
    )
    if (tombstone === undefined) {
      return yield* guestFailure(sandbox, "remove cgroups", "no tombstone fences the sandbox")
    }
    yield* Effect.sync(() => forgetDesk(ground, sandbox))
    for (const path of yield* attempt(sandbox, "find cgroups", () => leftGroups(ground, sandbox))) {
      if (!(yield* removeGroup(path))) {
        return yield* guestFailure(sandbox, "remove cgroups", "one of them still holds processes")
      }
    }
    yield* Effect.sync(() => ground.userIds.giveBack(sandbox))
  })

const lockOwner = (ground: Ground): GuestSupervisor["Service"]["lockOwner"] =>
  Effect.fn("guests.lockOwner")(function* (sandbox) {
    const folder = folderIn(ground, sandbox)
    yield* attempt(sandbox, "make the sandbox's folder", () => makeFolder(folder))
    const lock = yield* takeOwnerLock(folder.lock, null)
    if (lock === "taken elsewhere") {
      return yield* new GuestStateRefused({
        sandbox,
        call: "lock",
        state: "locked by a launch or a reclamation"
      })
    }
    if (lock === "failed") return yield* guestFailure(sandbox, "lock", "flock failed")
  })

/**
 * Carries guests below the state directory, which must be there. Fails when the asked supervisor is unknown or does
 * not work here; a weaker one is never taken for it.
 */
export const layer = (options: SupervisorOptions): Layer.Layer<GuestSupervisor, SupervisorError> =>
  Layer.effect(
    GuestSupervisor,
    Effect.map(makeGround(options), (ground) => ({
      capabilities: ground.capabilities,
      validate: validate(ground),
      start: start(ground),
      inspect: Effect.fn("guests.inspect")((sandbox: SandboxId) => observe(ground, sandbox)),
      ping: ping(ground),
      execute: execute(ground),
      pause: setPaused(ground, true),
      resume: setPaused(ground, false),
      signal: signal(ground),
      end: end(ground),
      sample: (sandbox) => sampleGuest(ground, sandbox),
      openPort: openPort(ground),
      removeGroups: removeGroups(ground),
      lockOwner: lockOwner(ground)
    }))
  )
