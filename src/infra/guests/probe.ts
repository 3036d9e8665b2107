/**
 * Tries each supervisor on this machine by a real run of a small program in its sandbox, and tells what it can do or
 * why it cannot. Nothing is assumed from a version or a file. Which one is taken is decided in the domain.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Files from "node:fs"
import * as Path from "node:path"
import { randomUUID } from "node:crypto"
import * as Bounds from "../../domain/Bounds.ts"
import { GuestCapabilities, type SupervisorKind } from "../../domain/guests/GuestSpec.ts"
import { ProbeResult } from "../../domain/guests/SupervisorChoice.ts"
import { SandboxId } from "../../domain/Identity.ts"
import { agentFiles } from "./agentScript.ts"
import { type BubblewrapFeatures, bubblewrapPlan } from "./bubblewrap.ts"
import { removeGroup } from "./cgroupControl.ts"
import { type CgroupLayout, createGroups, detectLayout, ensureParents, noCgroups } from "./cgroups.ts"
import { folderAt, probePrefix, readStatus, runtimeDirectory, type SandboxFolder } from "./folders.ts"
import { rootEntries } from "./guestRoot.ts"
import { isAlive } from "./kernel.ts"
import { findInit, joining, openHold, startLaunch, writeLaunch } from "./launcher.ts"
import type { LaunchPlan } from "./launchPlan.ts"
import { type LaunchShell, makeLaunchShell } from "./launchShell.ts"
import { architectureOf, denyProgram } from "./seccomp.ts"
import { makeStaging, noStaging, type Staging } from "./staging.ts"
import { unsharePlan } from "./unshare.ts"
import { waitUntil } from "./waiting.ts"

/** How to get what a supervisor needs. */
export const setUpLines = {
  bubblewrap: "run: apt-get install -y --no-install-recommends bubblewrap",
  unshare: "run: apt-get install -y --no-install-recommends util-linux iproute2, and allow user namespaces"
} as const

/** What the probe found out about the machine, beside the supervisors. */
export interface Surroundings {
  readonly layout: CgroupLayout
  readonly staging: Staging
  readonly filter: Uint8Array | null
  readonly bubblewrap: BubblewrapFeatures
  readonly isRoot: boolean
  /** What leads a guest's ports out. */
  readonly hasSocat: boolean
  readonly shell: LaunchShell
}

const drawSandbox = (): SandboxId => SandboxId.make(`sb-${randomUUID()}`)

const probeLimits = { cpuMillis: 1_000, memoryBytes: 64 * 1024 ** 2, processesMax: 32 }

/** Joins groups with a real process: that they can be made does not mean that they can be joined. */
const canJoin = (shell: LaunchShell, layout: CgroupLayout): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const paths = yield* Effect.sync(() => {
      try {
        ensureParents(layout)
        return createGroups(layout, drawSandbox(), probeLimits).map((group) => group.path)
      } catch {
        return null
      }
    })
    if (paths === null) return false
    const status = yield* shell.run(joining(null, paths, ["true"]))
    yield* Effect.forEach(paths, removeGroup, { discard: true })
    return status === 0
  })

/** The hierarchies that this daemon can really use; `none` where it may not. */
export const usableLayout = (shell: LaunchShell): Effect.Effect<CgroupLayout> =>
  Effect.suspend(() => {
    const layout = detectLayout()
    if (layout.mode === "none") return Effect.succeed(noCgroups)
    return Effect.map(canJoin(shell, layout), (joined) => (joined ? layout : noCgroups))
  })

/** Removes what a daemon that died while it probed has left. */
const removeFormerProbes = (stateDirectory: string): void => {
  const runtime = runtimeDirectory(stateDirectory)
  for (const name of Files.readdirSync(runtime)) {
    if (name.startsWith(probePrefix)) Files.rmSync(Path.join(runtime, name), { recursive: true, force: true })
  }
}

/** A probe's directory, removed with the scope; below runtime/, so that it is reached like a guest's. */
const probeFolder = (stateDirectory: string, userId: number | null) =>
  Effect.acquireRelease(
    Effect.sync((): SandboxFolder => {
      const folder = folderAt(Path.join(runtimeDirectory(stateDirectory), `${probePrefix}${randomUUID()}`))
      Files.mkdirSync(folder.directory)
      Files.mkdirSync(folder.run)
      for (const path of [folder.directory, folder.run]) Files.chmodSync(path, 0o711)
      for (const path of [folder.workspace, folder.scratch, folder.agent]) {
        Files.mkdirSync(path, { mode: 0o700 })
        if (userId !== null) Files.lchownSync(path, userId, userId)
      }
      return folder
    }),
    (folder) => Effect.sync(() => Files.rmSync(folder.directory, { recursive: true, force: true }))
  )

/** Succeeds only where the walls stand: no new privileges, no capability, and the filter where one was given. */
const checkScript = (hasFilter: boolean): ReadonlyArray<string> => [
  "/bin/sh",
  "-c",
  `n= b= s=
while read -r key value; do
  case $key in NoNewPrivs:) n=$value ;; CapBnd:) b=$value ;; Seccomp:) s=$value ;; esac
done </proc/self/status
[ "$n" = 1 ] && [ "$b" = 0000000000000000 ]${hasFilter ? ' && [ "$s" = 2 ]' : ""} && exit 42`
]

const passed = 42

const runPlan = (
  surroundings: Surroundings,
  stateDirectory: string,
  planFor: (folder: SandboxFolder) => LaunchPlan
): Effect.Effect<number | undefined> =>
  Effect.scoped(
    Effect.gen(function* () {
      const userId = surroundings.isRoot ? Bounds.guestUserIdFirst - 1 : null
      const folder = yield* probeFolder(stateDirectory, userId)
      const { filter, shell, staging } = surroundings
      const options = {
        shell,
        sandbox: drawSandbox(),
        folder,
        groups: [],
        mark: null,
        enter: userId === null ? [] : staging.enter(userId),
        plan: planFor(folder),
        filter
      }
      yield* shell.run(["mkfifo", "-m", "600", Path.join(folder.agent, agentFiles.hold)])
      yield* Effect.sync(() => writeLaunch(options))
      const started = yield* startLaunch(options, yield* Effect.sync(() => openHold(folder)))
      if (started === undefined) return undefined
      const { monitor } = started
      const waiting = { watch: null, pollMillis: 2, millisMax: Bounds.supervisorProbeMillisMax }
      yield* waitUntil(
        () => !isAlive(monitor) || findInit(folder, options.plan, monitor) !== undefined,
        waiting
      )
      started.release()
      if (!(yield* waitUntil(() => !isAlive(monitor), waiting))) process.kill(-monitor.pid, "SIGKILL")
      return readStatus(folder).exit?.exitCode ?? undefined
    })
  )

const probeRoot = (surroundings: Surroundings, folder: SandboxFolder) => ({
  entries: rootEntries("host"),
  accounts: null,
  agent: surroundings.staging.seenAt(folder.agent),
  workspace: surroundings.staging.seenAt(folder.workspace),
  scratch: surroundings.staging.seenAt(folder.scratch),
  hostname: "probe"
})

const runBubblewrap = (surroundings: Surroundings, stateDirectory: string) =>
  runPlan(surroundings, stateDirectory, (folder) =>
    bubblewrapPlan({
      root: probeRoot(surroundings, folder),
      command: checkScript(surroundings.filter !== null),
      features: surroundings.bubblewrap,
      hasFilter: surroundings.filter !== null
    })
  )

const capabilitiesOf = (surroundings: Surroundings, supervisor: SupervisorKind): GuestCapabilities => {
  const hasGroups = surroundings.layout.mode !== "none"
  return new GuestCapabilities({
    supervisor,
    isolation: "namespaces",
    limits: hasGroups ? "cgroup" : "none",
    pause: hasGroups,
    survivesDaemon: true,
    privateUser: surroundings.isRoot,
    seccomp: supervisor === "bubblewrap" && surroundings.filter !== null,
    ports: surroundings.isRoot && surroundings.hasSocat,
    proof: hasGroups ? "cgroup" : "process"
  })
}

const why = (status: number | undefined, kind: "bubblewrap" | "unshare"): string =>
  status === undefined
    ? `its trial run did not come to its end; ${setUpLines[kind]}`
    : `its trial run ended with status ${status}; ${setUpLines[kind]}`

export interface Probe {
  readonly surroundings: Surroundings
  readonly results: ReadonlyArray<ProbeResult>
}

const probeBubblewrap = (surroundings: Surroundings, stateDirectory: string) =>
  Effect.gen(function* () {
    const strict = { ...surroundings, bubblewrap: { disablesUserNamespaces: true } }
    if ((yield* runBubblewrap(strict, stateDirectory)) === passed) {
      return {
        surroundings: strict,
        result: ProbeResult.Works({ capabilities: capabilitiesOf(strict, "bubblewrap") })
      }
    }
    const status = yield* runBubblewrap(surroundings, stateDirectory)
    const result =
      status === passed
        ? ProbeResult.Works({ capabilities: capabilitiesOf(surroundings, "bubblewrap") })
        : ProbeResult.Fails({ kind: "bubblewrap", why: why(status, "bubblewrap") })
    return { surroundings, result }
  })

const probeUnshare = (surroundings: Surroundings, stateDirectory: string) =>
  Effect.map(
    runPlan({ ...surroundings, filter: null }, stateDirectory, (folder) =>
      unsharePlan({ root: probeRoot(surroundings, folder), command: checkScript(false) })
    ),
    (status): ProbeResult =>
      status === passed
        ? ProbeResult.Works({ capabilities: capabilitiesOf(surroundings, "unshare") })
        : ProbeResult.Fails({ kind: "unshare", why: why(status, "unshare") })
  )

/**
 * Probes the wanted supervisors. runtime/ and disks/ of the state directory must be there. A root daemon's staging
 * lives as long as the scope.
 */
export const probeMachine = (
  stateDirectory: string,
  kinds: ReadonlyArray<SupervisorKind>
): Effect.Effect<Probe, never, Scope.Scope> =>
  Effect.gen(function* () {
    const isRoot = process.getuid?.() === 0
    yield* Effect.sync(() => removeFormerProbes(stateDirectory))
    const architecture = architectureOf(process.arch)
    const staging = yield* Effect.result(isRoot ? makeStaging(stateDirectory) : Effect.succeed(noStaging))
    const shell = yield* makeLaunchShell()
    const layout = yield* usableLayout(shell)
    const plain: Surroundings = {
      layout,
      isRoot,
      hasSocat: (yield* shell.run(["socat", "-V"])) === 0,
      bubblewrap: { disablesUserNamespaces: false },
      staging: staging._tag === "Success" ? staging.success : noStaging,
      shell,
      filter: architecture === null ? null : denyProgram(architecture)
    }
    if (staging._tag === "Failure") {
      const reason = staging.failure.message
      return {
        surroundings: plain,
        results: kinds.map((kind) => ProbeResult.Fails({ kind, why: reason }))
      }
    }
    const results: Array<ProbeResult> = []
    let surroundings = plain
    for (const kind of kinds) {
      if (kind === "bubblewrap") {
        const probed = yield* probeBubblewrap(plain, stateDirectory)
        surroundings = probed.surroundings
        results.push(probed.result)
      }
      if (kind === "unshare") results.push(yield* probeUnshare(plain, stateDirectory))
    }
    return { surroundings, results }
  })
