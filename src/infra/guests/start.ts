/**
 * Launches a guest. Each step is durable before the next: lock, cgroups, preparing.json, spawn, identity.json, release.
 * A failure or an interruption anywhere ends everything of the attempt before it is told. Source: RG-RUN-02, RG-RUN-03.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Files from "node:fs"
import * as Bounds from "../../domain/Bounds.ts"
import { decideObservation } from "../../domain/guests/GuestFacts.ts"
import type { OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import type { GuestSpec } from "../../domain/guests/GuestSpec.ts"
import {
  type GuestFailure,
  type GuestIdentity,
  GuestStateRefused
} from "../../domain/guests/GuestSupervisor.ts"
import { decideStart, type FormerLaunch } from "../../domain/guests/StartDecision.ts"
import { readRun, type SandboxFolder } from "./folders.ts"
import { attempt, deskUnderGate, folderIn, type Ground, guestFailure, lookAt } from "./ground.ts"
import { launchPipes, makeFolder } from "./launchFiles.ts"
import { placeKit } from "./launchKits.ts"
import { awaitReady, endAttempt, launch, prepare } from "./launchSteps.ts"
import { takeOwnerLock } from "./ownerLock.ts"

type StartError = GuestFailure | GuestStateRefused

/** Takes the owner lock with the agent's pipes: from a kit for a new sandbox, else by a program. Answers the channels. */
const takeLock = (
  ground: Ground,
  folder: SandboxFolder,
  spec: GuestSpec
): Effect.Effect<ReadonlyArray<string>, StartError, Scope.Scope> =>
  Effect.gen(function* () {
    const kit = Files.existsSync(folder.directory) ? undefined : ground.kits.takeReady()
    if (kit !== undefined && placeKit(kit, folder)) {
      yield* Effect.addFinalizer(() => Effect.sync(() => Files.closeSync(kit.descriptor)))
      return kit.channels
    }
    yield* attempt(spec.sandbox, "make the sandbox's folder", () => makeFolder(folder))
    const channels = Array.from({ length: Bounds.executionChannelsMadeMax }, ground.channelName)
    const lock = yield* takeOwnerLock(folder.lock, {
      directory: folder.agentNew,
      names: launchPipes(channels)
    })
    if (lock === "taken elsewhere") {
      return yield* new GuestStateRefused({
        sandbox: spec.sandbox,
        call: "start",
        state: "locked by another launch or a reclamation"
      })
    }
    if (lock === "failed") return yield* guestFailure(spec.sandbox, "lock", "flock or mkfifo failed")
    return channels
  })

interface Verdict {
  readonly adopted: GuestIdentity | null
  readonly formerGroups: ReadonlyArray<OwnedGroup>
}

/** Reads what is there and decides; a refusal fails. */
const decide = (ground: Ground, spec: GuestSpec): Effect.Effect<Verdict, StartError> =>
  Effect.gen(function* () {
    const { sandbox } = spec
    const facts = yield* lookAt(ground, sandbox)
    const run = yield* attempt(sandbox, "read run.json", () => readRun(folderIn(ground, sandbox)))
    const former: FormerLaunch | null =
      run === undefined ? null : { ...run, hadGuest: facts.identity?.attemptId === run.attemptId }
    const decision = decideStart(spec, decideObservation(facts), former)
    if (decision._tag === "Refuse") {
      return yield* new GuestStateRefused({ sandbox, call: "start", state: decision.state })
    }
    return {
      adopted: decision._tag === "Adopt" ? decision.identity : null,
      formerGroups: facts.identity?.groups ?? facts.preparing?.groups ?? []
    }
  })

/** Launches under the owner lock, unless somebody got there between the first look and the lock. */
const launchLocked = (ground: Ground, spec: GuestSpec): Effect.Effect<GuestIdentity, StartError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { sandbox } = spec
      const folder = folderIn(ground, sandbox)
      const channels = yield* takeLock(ground, folder, spec)
      const { adopted, formerGroups } = yield* decide(ground, spec)
      if (adopted !== null) return adopted
      return yield* Effect.gen(function* () {
        const prepared = yield* prepare(ground, spec, channels, formerGroups)
        const { identity, started } = yield* launch(ground, spec, prepared)
        yield* awaitReady(ground, prepared, identity, started)
        return identity
      }).pipe(Effect.onError(() => endAttempt(ground, spec)))
    })
  )

/** Starts or adopts, for a caller that holds the sandbox's gate and has checked the specification. */
export const startUnderGate = (ground: Ground, spec: GuestSpec): Effect.Effect<GuestIdentity, StartError> =>
  Effect.gen(function* () {
    const { adopted } = yield* decide(ground, spec)
    if (adopted === null) {
      const identity = yield* launchLocked(ground, spec)
      yield* ground.kits.refill
      return identity
    }
    const { frozen } = yield* lookAt(ground, spec.sandbox)
    if (!frozen) yield* (yield* deskUnderGate(ground, adopted)).runners.refill
    return adopted
  })
