/**
 * The steps of one launch, each behind the durability of the one before: the guest's files and cgroups, the spawn, the
 * release, and the end of everything when one of them fails. Lock and decision are start.ts's.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Path from "node:path"
import * as Files from "node:fs"
import * as Bounds from "../../domain/Bounds.ts"
import type { OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import type { GuestSpec } from "../../domain/guests/GuestSpec.ts"
import { GuestIdentity } from "../../domain/guests/GuestSupervisor.ts"
import { type AgentLink, askAgent, openAgentLink } from "./agentLink.ts"
import { agentFiles, agentMount } from "./agentScript.ts"
import { bubblewrapPlan, bubblewrapUserId } from "./bubblewrap.ts"
import { removeGroup } from "./cgroupControl.ts"
import { createGroups } from "./cgroups.ts"
import { killAll, targetOf } from "./ending.ts"
import { isDiskOfOurs, readRun, readStatus, type SandboxFolder } from "./folders.ts"
import {
  attempt,
  attemptAsync,
  folderIn,
  forgetDesk,
  type Ground,
  guestFailure,
  keepDesk,
  lookAt
} from "./ground.ts"
import { type GuestRoot, rootEntries } from "./guestRoot.ts"
import { childrenOf, isAlive, readBootId, signalIfAlive } from "./kernel.ts"
import {
  findInit,
  type LaunchOptions,
  moveInPlace,
  openHold,
  startLaunch,
  type StartedLaunch,
  writeLaunch
} from "./launcher.ts"
import {
  abandonLaunches,
  forgetFormer,
  launchMarkOf,
  makeStorage,
  placeAgent,
  publishIdentity,
  publishPreparing
} from "./launchFiles.ts"
import type { LaunchPlan } from "./launchPlan.ts"
import { runProgram } from "./programs.ts"
import { openDesk } from "./runners.ts"
import { unsharePlan, unshareUserId } from "./unshare.ts"
import { waitUntil } from "./waiting.ts"

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

const planOf = (ground: Ground, root: GuestRoot, spec: GuestSpec): LaunchPlan => {
  // Of the host's own env it is known whether it can reset signals; an image's is asked.
  const signals = spec.image === "host" && ground.envResetsSignals ? "reset" : "ask"
  const bond = ground.capabilities.limits === "cgroup" ? "group" : "session"
  const command = ["/bin/sh", `${agentMount}/${agentFiles.script}`, "serve", bond, signals]
  return ground.capabilities.supervisor === "bubblewrap"
    ? bubblewrapPlan({
        root,
        command,
        features: ground.bubblewrap,
        hasFilter: ground.filter !== null
      })
    : unsharePlan({ root, command })
}

/**
 * The disk belongs to the guest's user; one that another guest had is given over, links never followed. A directory of
 * the host's own keeps its owner: what the guest's user may do there, its mode says. Source: SP-DEL-07.
 */
const giveDisk = (ground: Ground, spec: GuestSpec, owner: number | null) =>
  Effect.gen(function* () {
    const { disk, sandbox } = spec
    if (disk === null || owner === null || !isDiskOfOurs(ground.stateDirectory, disk)) return
    const found = yield* attempt(sandbox, "look at the disk", () => Files.lstatSync(disk))
    if (found.uid === owner) return
    const { status } = yield* runProgram({
      argv: ["chown", "-RhP", `${owner}:${owner}`, "--", disk],
      stdio: "ignore"
    })
    if (status !== 0) return yield* guestFailure(sandbox, "give the disk to the guest's user", "chown failed")
  })

interface Binding {
  readonly folder: SandboxFolder
  readonly groups: ReadonlyArray<OwnedGroup>
  readonly userId: number
  readonly bootId: string
  readonly channels: ReadonlyArray<string>
}

interface Prepared extends Binding {
  readonly options: LaunchOptions
}

/** Makes the guest's files and what the supervisor's program reads at its start. */
const writeFiles = (ground: Ground, spec: GuestSpec, binding: Binding) =>
  Effect.gen(function* () {
    const { channels, folder, groups, userId } = binding
    const { attemptId, sandbox } = spec
    const owner = ground.userIds.isPrivate ? userId : null
    yield* attempt(sandbox, "make the guest's files", () => {
      makeStorage(folder, owner)
      placeAgent({ folder, spec, channels, owner, innerUserId: innerUserIdOf(ground) })
    })
    const plan = yield* attempt(sandbox, "read the image", () =>
      planOf(ground, rootOf(ground, folder, spec), spec)
    )
    const options: LaunchOptions = {
      shell: ground.shell,
      sandbox,
      folder,
      groups,
      plan,
      mark: launchMarkOf(folder, attemptId),
      filter: ground.filter,
      enter: ground.staging.enter(userId)
    }
    yield* attempt(sandbox, "write the launch's files", () => writeLaunch(options))
    return options
  })

/**
 * Everything up to the durable preparing.json, whose disk is waited for while the guest's files are made. The former
 * guest is gone and its groups are removed.
 */
export const prepare = (
  ground: Ground,
  spec: GuestSpec,
  channels: ReadonlyArray<string>,
  former: FormerGroups
) =>
  Effect.gen(function* () {
    const { sandbox } = spec
    const folder = folderIn(ground, sandbox)
    yield* attemptAsync(sandbox, "forget the former guest", () => forgetFormer(folder))
    yield* Effect.forEach(former, (group) => removeGroup(group.path), { discard: true })
    const userId = ground.userIds.take(sandbox, readRun(folder)?.userId ?? null)
    if (userId === undefined) return yield* guestFailure(sandbox, "choose the guest's user", "none is free")
    yield* giveDisk(ground, spec, ground.userIds.isPrivate ? userId : null)
    const groups = yield* attempt(sandbox, "make the guest's cgroups", () =>
      createGroups(ground.layout, sandbox, spec)
    )
    if (ground.ownGroup !== null && groups.length > 0) ground.shell.begin(moveInPlace(ground.ownGroup))
    const binding: Binding = { folder, groups, userId, bootId: readBootId(), channels }
    const durable = attemptAsync(sandbox, "publish preparing.json", () =>
      publishPreparing({ ...binding, spec })
    )
    // Not to be interrupted: a record that is still under way must not outlive the owner lock.
    const [, options] = yield* Effect.uninterruptible(
      Effect.all([durable, writeFiles(ground, spec, binding)], { concurrency: 2 })
    )
    return { ...binding, options }
  })
type FormerGroups = ReadonlyArray<OwnedGroup>

const launchTrouble = (started: StartedLaunch): string =>
  isAlive(started.monitor)
    ? "the supervisor's program did not come up in time"
    : "the supervisor's program has ended; its words are in launch.log of the sandbox's folder"

/** Waits until init is there and held, and makes its binding durable. */
const recordGuest = (ground: Ground, spec: GuestSpec, prepared: Prepared, started: StartedLaunch) =>
  Effect.gen(function* () {
    const { attemptId, generation, runId, sandbox } = spec
    const { bootId, folder, groups, userId } = prepared
    const { plan } = prepared.options
    yield* waitUntil(
      () => !isAlive(started.monitor) || findInit(folder, plan, started.monitor) !== undefined,
      {
        watch: folder.status,
        pollMillis: Bounds.guestPollMillis,
        millisMax: Bounds.guestLaunchMillisMax
      }
    )
    const init = findInit(folder, plan, started.monitor)
    if (init === undefined) {
      return yield* guestFailure(sandbox, "launch", launchTrouble(started))
    }
    const identity = new GuestIdentity({
      supervisor: ground.capabilities.supervisor,
      sandbox,
      generation,
      runId,
      attemptId,
      bootId,
      monitor: started.monitor,
      init,
      groups,
      userId
    })
    yield* attemptAsync(sandbox, "publish identity.json", () => publishIdentity(folder, identity))
    return { identity, started }
  })

/**
 * Spawns, and waits until init is recorded. From the spawn on the monitor's pid is known whatever happens: one that has
 * not joined its groups yet is in nobody's sight, so a failure ends it by its pid.
 */
export const launch = (ground: Ground, spec: GuestSpec, prepared: Prepared) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const { sandbox } = spec
      const holder = yield* attempt(sandbox, "hold the launch", () => openHold(prepared.folder))
      const started = yield* startLaunch(prepared.options, holder)
      if (started === undefined) {
        return yield* guestFailure(sandbox, "launch", "the supervisor's program could not be started")
      }
      return yield* restore(recordGuest(ground, spec, prepared, started)).pipe(
        Effect.onError(() => Effect.sync(() => signalIfAlive(started.monitor, "SIGKILL")))
      )
    })
  )

const notReady = (folder: SandboxFolder, started: StartedLaunch): string =>
  !isAlive(started.monitor) || readStatus(folder).exit !== null
    ? "the guest ended before its agent answered; see launch.log of the sandbox's folder"
    : "the guest's agent did not answer in time"

/** Lets the guest run and waits until its agent answers and its init has a child. */
export const awaitReady = (
  ground: Ground,
  prepared: Prepared,
  identity: GuestIdentity,
  started: StartedLaunch
) =>
  Effect.gen(function* () {
    const { sandbox } = identity
    const { channels, folder } = prepared
    const owner = ground.userIds.isPrivate ? identity.userId : null
    const link: AgentLink = yield* attempt(sandbox, "open the agent's pipes", () =>
      openAgentLink({
        identity,
        folder,
        owner,
        channels,
        name: ground.channelName,
        shell: ground.shell
      })
    )
    const desk = keepDesk(ground, openDesk(link))
    started.release()
    const ended = waitUntil(() => !isAlive(started.monitor), {
      watch: null,
      pollMillis: 20,
      millisMax: Bounds.guestReadyMillisMax
    })
    const answered = yield* Effect.forkChild(
      Effect.raceFirst(askAgent(link, Bounds.guestReadyMillisMax), Effect.as(ended, undefined)),
      { startImmediately: true }
    )
    // Ordered behind the ping, so that the first command finds its runner made.
    yield* desk.runners.refill
    const pong = yield* Fiber.join(answered)
    // A guest whose main command is over already was ready: its end is an inspection's business.
    const hasChild = childrenOf(identity.init.pid).length > 0 || !isAlive(identity.init)
    if (pong === undefined || !hasChild) {
      return yield* guestFailure(sandbox, "ready", notReady(folder, started))
    }
  })

/** Ends whatever the failed attempt has started; its files stay, as evidence that it is over. */
export const endAttempt = (ground: Ground, spec: GuestSpec) =>
  Effect.gen(function* () {
    forgetDesk(ground, spec.sandbox)
    abandonLaunches(folderIn(ground, spec.sandbox))
    const facts = yield* lookAt(ground, spec.sandbox)
    yield* killAll(targetOf(spec.sandbox, facts))
  }).pipe(Effect.ignoreCause, Effect.uninterruptible)
