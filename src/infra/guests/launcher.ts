/**
 * Starts a supervisor's program for one guest: first into every cgroup of the guest, then to the guest's user, then
 * the program itself, so that nothing of a guest ever runs outside its cgroups. The program holds before the guest's
 * first instruction until it is released; when the daemon dies it is released too, which is why a launch is durable
 * before this is called.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Files from "node:fs"
import * as Path from "node:path"
import type { ObservedProcess, OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { agentFiles } from "./agentScript.ts"
import { readStatus, type SandboxFolder } from "./folders.ts"
import { childrenOf, innerPid, observeProcess } from "./kernel.ts"
import { descriptors, type LaunchPlan } from "./launchPlan.ts"
import { type LaunchShell, quote } from "./launchShell.ts"
import { launchMark } from "./witnesses.ts"

const ownerOnly = 0o600

/** Status of a launch that could not join a cgroup. */
export const joinRefused = 97
/** Status of a launch that was given up before it had joined. */
const launchAbandoned = 96

/**
 * Script that puts whoever does it into the groups (0 stands for the writer), and ends it when the mark is gone by then;
 * null: no mark. The look at the mark comes behind the joins: whoever takes the mark away and then looks at the groups
 * misses nobody.
 */
export const joinScript = (mark: string | null, groups: ReadonlyArray<string>): string =>
  [
    ...groups.map((group) => `echo 0 >${quote(`${group}/cgroup.procs`)} || exit ${joinRefused};`),
    ...(mark === null ? [] : [`[ -e ${quote(mark)} ] || exit ${launchAbandoned};`])
  ].join(" ")

/** A shell and words that do the same before they become the program. */
export const joining = (
  mark: string | null,
  groups: ReadonlyArray<string>,
  argv: ReadonlyArray<string>
): readonly [string, ...ReadonlyArray<string>] => [
  "/bin/sh",
  "-c",
  `${joinScript(mark, groups)} exec "$@"`,
  "holdfast-launch",
  ...argv
]

/**
 * Script that moves its process into the group that it is in. Nothing changes by it, but the kernel waits before a move
 * until every processor has passed a quiet moment, ten milliseconds and more on an idle machine, and does not wait
 * again for the moves right behind. Begun while a launch is still written, it takes that wait off the launch's joins.
 */
export const moveInPlace = (group: string): string => `echo 0 >${quote(`${group}/cgroup.procs`)}`

export interface StartedLaunch {
  readonly monitor: ObservedProcess
  /** Lets the guest's first instruction run. Not before init was found: the program has opened its files by then. */
  readonly release: () => void
}

export interface LaunchOptions {
  readonly shell: LaunchShell
  readonly sandbox: SandboxId
  readonly folder: SandboxFolder
  readonly groups: ReadonlyArray<OwnedGroup>
  /** File that has to be there when the groups are joined; null: none. */
  readonly mark: string | null
  /** Words that lead to the guest's user; empty where the daemon's own is used. */
  readonly enter: ReadonlyArray<string>
  readonly plan: LaunchPlan
  readonly filter: Uint8Array | null
}

const { O_NONBLOCK, O_RDWR } = Files.constants

const holdOf = (folder: SandboxFolder): string => Path.join(folder.agent, agentFiles.hold)

/** Writes what the program reads at its start. Throws where the disk refuses. */
export const writeLaunch = ({ filter, folder, plan }: LaunchOptions): void => {
  const files = [
    [folder.log, ""],
    [folder.status, ""],
    [folder.options, plan.options],
    ...(filter === null ? [] : [[folder.filter, filter] as const])
  ] as const
  for (const [path, content] of files) Files.writeFileSync(path, content, { flag: "w", mode: ownerOnly })
}

/** Opens the pipe "hold", which must be there; answers its descriptor, for `startLaunch` to close. */
export const openHold = (folder: SandboxFolder): number => Files.openSync(holdOf(folder), O_RDWR | O_NONBLOCK)

/**
 * What comes before the program. The shell's own process joins the groups, which saves one program; where there are
 * none, the look at the mark is left to a process that carries the launch's variable already, since nothing else shows
 * it to whoever has taken the mark away.
 */
export const entering = (
  mark: string | null,
  groups: ReadonlyArray<string>,
  argv: ReadonlyArray<string>
): { readonly first: string; readonly argv: ReadonlyArray<string> } =>
  groups.length === 0
    ? { first: "", argv: joining(mark, groups, argv) }
    : { first: joinScript(mark, groups), argv }

/** Closes the pipe once, by the caller or at the latest with the scope, and removes what only the launch reads. */
const releasing = (folder: SandboxFolder, holder: number): Effect.Effect<() => void, never, Scope.Scope> =>
  Effect.suspend(() => {
    let isHeld = true
    const release = () => {
      if (!isHeld) return
      isHeld = false
      Files.closeSync(holder)
      for (const path of [holdOf(folder), folder.options, folder.filter]) Files.rmSync(path, { force: true })
    }
    return Effect.as(
      Effect.addFinalizer(() => Effect.sync(release)),
      release
    )
  })

/**
 * Starts a written launch, which is held until it is released or the scope is closed. Undefined: nothing was started,
 * or it has ended already, or the shell died meanwhile: a launch that nobody knows of ends by its missing mark.
 */
export const startLaunch = (
  options: LaunchOptions,
  holder: number
): Effect.Effect<StartedLaunch | undefined, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { filter, folder, groups, mark, plan, sandbox, shell } = options
    const release = yield* releasing(folder, holder)
    const paths = groups.map((group) => group.path)
    const pid = yield* shell.start({
      ...entering(mark, paths, [...options.enter, ...plan.argv]),
      mark: [launchMark, sandbox],
      output: folder.log,
      written: [[descriptors.status, folder.status]],
      read: [
        [descriptors.options, folder.options],
        [descriptors.filter, filter === null ? "/dev/null" : folder.filter]
      ],
      pipe: [descriptors.block, holdOf(folder)]
    })
    const monitor = pid === undefined ? undefined : observeProcess(pid)
    return monitor === undefined ? undefined : { monitor, release }
  })

const isInit = (pid: number): boolean => innerPid(pid) === 1

/** Init of a started launch, once it is there and its root is built; undefined before. */
export const findInit = (
  folder: SandboxFolder,
  plan: LaunchPlan,
  monitor: ObservedProcess
): ObservedProcess | undefined => {
  const status = readStatus(folder)
  if (plan.initIs === "reported") {
    return status.childPid === null ? undefined : observeProcess(status.childPid)
  }
  if (!status.isSetUp) return undefined
  const init = childrenOf(monitor.pid).flatMap(childrenOf).find(isInit)
  return init === undefined ? undefined : observeProcess(init)
}
