/**
 * Launches a guest. Each step is durable before the next: lock, cgroups, preparing.json, spawn, identity.json, release.
 * A failure or an interruption anywhere ends everything of the attempt before it is told. Source: RG-RUN-02, RG-RUN-03.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Path from "node:path"
import * as Files from "node:fs"
import * as Bounds from "../../domain/Bounds.ts"
import { decideObservation } from "../../domain/guests/GuestFacts.ts"
import type { OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import type { GuestSpec } from "../../domain/guests/GuestSpec.ts"
import { type GuestFailure, GuestIdentity, GuestStateRefused } from "../../domain/guests/GuestSupervisor.ts"
import { decideStart, type FormerLaunch } from "../../domain/guests/StartDecision.ts"
import { type AgentLink, askAgent, openAgentLink } from "./agentLink.ts"
import { agentFiles, agentMount } from "./agentScript.ts"
import { bubblewrapPlan, bubblewrapUserId } from "./bubblewrap.ts"
import { removeGroup } from "./cgroupControl.ts"
import { createGroups } from "./cgroups.ts"
import { killAll, targetOf } from "./ending.ts"
import { readRun, readStatus, type SandboxFolder } from "./folders.ts"
import {
  attempt,
  attemptAsync,
  closeLink,
  folderIn,
  type Ground,
  guestFailure,
  linkUnderGate,
  lookAt
} from "./ground.ts"
import { type GuestRoot, rootEntries } from "./guestRoot.ts"
import { childrenOf, readBootId } from "./kernel.ts"
import { findInit, joinRefused, startLaunch, type StartedLaunch } from "./launcher.ts"
import {
  firstPipes,
  forgetFormer,
  makeFolder,
  makeStorage,
  placeAgent,
  publishIdentity,
  publishPreparing
} from "./launchFiles.ts"
import type { LaunchPlan } from "./launchPlan.ts"
import { takeOwnerLock } from "./ownerLock.ts"
import { runProgram } from "./programs.ts"
import { unsharePlan, unshareUserId } from "./unshare.ts"
import { waitUntil } from "./waiting.ts"

type StartError = GuestFailure | GuestStateRefused

const innerUserIdOf = (ground: Ground): number =>
  ground.capabilities.supervisor === "bubblewrap" ? bubblewrapUserId : unshareUserId

const rootOf = (ground: Ground, folder: SandboxFolder, spec: GuestSpec): GuestRoot => {
  const agent = ground.staging.seenAt(folder.agent)
  return {
    entries: rootEntries(spec.image),
    accounts:
      spec.image === "host"
        ? { passwd: Path.join(agent, agentFiles.passwd), group: Path.join(agent, agentFiles.group) }
        : null,
    agent,
    workspace: ground.staging.seenAt(spec.disk ?? folder.workspace),
    scratch: ground.staging.seenAt(folder.scratch),
    hostname: spec.sandbox.slice(0, 11)
  }
}

const planOf = (ground: Ground, root: GuestRoot): LaunchPlan => {
  const bond = ground.capabilities.limits === "cgroup" ? "group" : "session"
  const command = ["/bin/sh", `${agentMount}/${agentFiles.script}`, "serve", bond]
  return ground.capabilities.supervisor === "bubblewrap"
    ? bubblewrapPlan({ root, command, features: ground.bubblewrap, hasFilter: ground.filter !== null })
    : unsharePlan({ root, command })
}

/** The disk belongs to the guest's user; one that another guest had is given over, links never followed. */
const giveDisk = (spec: GuestSpec, owner: number | null) =>
  Effect.gen(function* () {
    const { disk, sandbox } = spec
    if (disk === null || owner === null) return
    const found = yield* attempt(sandbox, "look at the disk", () => Files.lstatSync(disk))
    if (found.uid === owner) return
    const { status } = yield* runProgram({
      argv: ["chown", "-RhP", `${owner}:${owner}`, "--", disk],
      stdio: "ignore"
    })
    if (status !== 0) return yield* guestFailure(sandbox, "give the disk to the guest's user", "chown failed")
  })

interface Prepared {
  readonly folder: SandboxFolder
  readonly groups: ReadonlyArray<OwnedGroup>
  readonly userId: number
  readonly bootId: string
  readonly channels: ReadonlyArray<string>
}

/** Everything up to the durable preparing.json. The former guest is gone and its groups are removed. */
const prepare = (ground: Ground, spec: GuestSpec, channels: ReadonlyArray<string>, former: FormerGroups) =>
  Effect.gen(function* () {
    const { sandbox } = spec
    const folder = folderIn(ground, sandbox)
    yield* attemptAsync(sandbox, "forget the former guest", () => forgetFormer(folder))
    yield* Effect.forEach(former, (group) => removeGroup(group.path), { discard: true })
    const userId = ground.userIds.take(sandbox, readRun(folder)?.userId ?? null)
    if (userId === undefined) return yield* guestFailure(sandbox, "choose the guest's user", "none is free")
    const owner = ground.userIds.isPrivate ? userId : null
    yield* giveDisk(spec, owner)
    yield* attempt(sandbox, "make the guest's files", () => {
      makeStorage(folder, owner)
      placeAgent({ folder, spec, channels, owner, innerUserId: innerUserIdOf(ground) })
    })
    const groups = yield* attempt(sandbox, "make the guest's cgroups", () =>
      createGroups(ground.layout, sandbox, spec)
    )
    const bootId = readBootId()
    yield* attemptAsync(sandbox, "publish preparing.json", () =>
      publishPreparing({ folder, spec, bootId, userId, groups })
    )
    return { folder, groups, userId, bootId, channels }
  })
type FormerGroups = ReadonlyArray<OwnedGroup>

const launchTrouble = (status: number | undefined): string =>
  status === undefined
    ? "the supervisor's program did not come up in time"
    : status === joinRefused
      ? "the launch could not join the guest's cgroups"
      : `the supervisor's program ended with status ${status}; its words are in launch.log of the sandbox's folder`

/** Spawns, and waits until init is there and held. */
const launch = (ground: Ground, spec: GuestSpec, prepared: Prepared) =>
  Effect.gen(function* () {
    const { sandbox } = spec
    const { folder, groups, userId } = prepared
    const plan = yield* attempt(sandbox, "read the image", () => planOf(ground, rootOf(ground, folder, spec)))
    const started = yield* startLaunch({
      sandbox,
      folder,
      groups,
      plan,
      filter: ground.filter,
      strays: ground.strays,
      enter: ground.staging.enter(userId)
    })
    if (started === undefined) return yield* guestFailure(sandbox, "launch", "the shell could not be started")
    yield* waitUntil(
      () => started.monitorStatus() !== undefined || findInit(folder, plan, started.monitor) !== undefined,
      { watch: null, pollMillis: Bounds.guestPollMillis, millisMax: Bounds.guestLaunchMillisMax }
    )
    const init = findInit(folder, plan, started.monitor)
    if (init === undefined)
      return yield* guestFailure(sandbox, "launch", launchTrouble(started.monitorStatus()))
    const { attemptId, generation, runId } = spec
    const identity = new GuestIdentity({
      supervisor: ground.capabilities.supervisor,
      sandbox,
      generation,
      runId,
      attemptId,
      bootId: prepared.bootId,
      monitor: started.monitor,
      init,
      groups,
      userId
    })
    yield* attemptAsync(sandbox, "publish identity.json", () => publishIdentity(folder, identity))
    return { identity, started }
  })

const notReady = (folder: SandboxFolder, started: StartedLaunch): string =>
  started.monitorStatus() !== undefined || readStatus(folder).exit !== null
    ? "the guest ended before its agent answered; see launch.log of the sandbox's folder"
    : "the guest's agent did not answer in time"

/** Lets the guest run and waits until its agent answers and its init has a child. */
const awaitReady = (ground: Ground, prepared: Prepared, identity: GuestIdentity, started: StartedLaunch) =>
  Effect.gen(function* () {
    const { sandbox } = identity
    const { channels, folder } = prepared
    const owner = ground.userIds.isPrivate ? identity.userId : null
    const link: AgentLink = yield* attempt(sandbox, "open the agent's pipes", () =>
      openAgentLink({ identity, folder, owner, channels, name: ground.channelName })
    )
    closeLink(ground, sandbox)
    ground.links.set(sandbox, link)
    started.release()
    const ended = waitUntil(() => started.monitorStatus() !== undefined, {
      watch: null,
      pollMillis: 20,
      millisMax: Bounds.guestReadyMillisMax
    })
    const pong = yield* Effect.raceFirst(
      askAgent(link, Bounds.guestReadyMillisMax),
      Effect.as(ended, undefined)
    )
    if (pong === undefined || childrenOf(identity.init.pid).length === 0) {
      return yield* guestFailure(sandbox, "ready", notReady(folder, started))
    }
  })

/** Ends whatever the failed attempt has started; its files stay, as evidence that it is over. */
const endAttempt = (ground: Ground, spec: GuestSpec) =>
  Effect.gen(function* () {
    closeLink(ground, spec.sandbox)
    const facts = yield* lookAt(ground, spec.sandbox)
    yield* killAll(targetOf(spec.sandbox, facts))
  }).pipe(Effect.ignoreCause, Effect.uninterruptible)

const takeLock = (
  folder: SandboxFolder,
  spec: GuestSpec,
  channels: ReadonlyArray<string>
): Effect.Effect<void, StartError, Scope.Scope> =>
  Effect.gen(function* () {
    const lock = yield* takeOwnerLock(folder.lock, {
      directory: folder.agentNew,
      names: firstPipes(channels)
    })
    if (lock === "taken elsewhere") {
      return yield* new GuestStateRefused({
        sandbox: spec.sandbox,
        call: "start",
        state: "locked by another launch or a reclamation"
      })
    }
    if (lock === "failed") return yield* guestFailure(spec.sandbox, "lock", "flock or mkfifo failed")
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
      const channels = Array.from({ length: Bounds.executionChannelsKeptMin }, ground.channelName)
      yield* attemptAsync(sandbox, "make the sandbox's folder", () =>
        makeFolder(ground.stateDirectory, folder)
      )
      yield* takeLock(folder, spec, channels)
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
    const identity = adopted ?? (yield* launchLocked(ground, spec))
    const { frozen } = yield* lookAt(ground, spec.sandbox)
    if (!frozen) yield* linkUnderGate(ground, identity)
    return identity
  })
