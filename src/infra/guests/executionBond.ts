/**
 * Keeps the processes of one execution together, so that ending it ends them and no other: in a cgroup below the
 * guest's where there are cgroups, else as a session and its descendants, which a process that detaches itself twice
 * can leave. Finding a runner goes from its pid inside to the host's, among the guest's own processes only.
 */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import type { ObservedProcess } from "../../domain/guests/AbsenceProof.ts"
import type { GuestIdentity } from "../../domain/guests/GuestSupervisor.ts"
import { killUntilEmpty } from "./cgroupControl.ts"
import { controlGroup, membersOf, tryRemove } from "./cgroups.ts"
import { childrenOf, innerPid, isAlive, observeProcess, signalIfAlive } from "./kernel.ts"
import { waitUntil } from "./waiting.ts"

const { O_WRONLY } = Files.constants

export interface ExecutionBond {
  readonly runner: ObservedProcess
  /** Ends every process of the execution; answers whether none is left. */
  readonly kill: Effect.Effect<boolean>
  /** Gives the group up; answers its path when background processes still keep it. */
  readonly release: () => string | null
}

/** The agent is init's first child, and every runner a child of the agent. */
const agentChildren = (identity: GuestIdentity): ReadonlyArray<number> => {
  const agent = childrenOf(identity.init.pid)[0]
  return agent === undefined ? [] : childrenOf(agent)
}

/** The host's view of the runner with this pid inside; undefined when it is no process of the guest. */
export const findRunner = (identity: GuestIdentity, insidePid: number): ObservedProcess | undefined => {
  const control = controlGroup(identity.groups)
  const near = agentChildren(identity).toReversed()
  const found =
    near.find((pid) => innerPid(pid) === insidePid) ??
    (control === null ? undefined : membersOf(control).find((pid) => innerPid(pid) === insidePid))
  return found === undefined ? undefined : observeProcess(found)
}

const groupBond = (group: string, runner: ObservedProcess): ExecutionBond => ({
  runner,
  kill: killUntilEmpty(group, Bounds.guestEndMillisMax),
  release: () => (tryRemove(group) ? null : group)
})

const descendants = (pid: number): ReadonlyArray<number> =>
  childrenOf(pid).flatMap((child) => [child, ...descendants(child)])

const signalSession = (pid: number): void => {
  try {
    process.kill(-pid, "SIGKILL")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error
  }
}

/** Kills the runner's session, and the descendants that have left it but not its tree. */
const killSession = (runner: ObservedProcess): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    if (!isAlive(runner)) return Effect.succeed(true)
    const tree = [runner.pid, ...descendants(runner.pid)].flatMap((pid) => observeProcess(pid) ?? [])
    signalSession(runner.pid)
    for (const each of tree) signalIfAlive(each, "SIGKILL")
    return waitUntil(() => !tree.some(isAlive), {
      watch: null,
      pollMillis: Bounds.guestPollMillis,
      millisMax: Bounds.guestEndMillisMax
    })
  })

/** Makes the group and moves the process into it; false, and there is no group, when process or guest is gone. */
const moveInto = (group: string, pid: number): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    const moved = (isMoved: boolean) => {
      if (!isMoved) tryRemove(group)
      resume(Effect.succeed(isMoved))
    }
    try {
      Files.mkdirSync(group)
      const members = Files.openSync(Path.join(group, "cgroup.procs"), O_WRONLY)
      Files.write(members, String(pid), (error) => {
        Files.closeSync(members)
        moved(error === null)
      })
    } catch {
      moved(false)
    }
  })

/**
 * Binds a waiting runner. Undefined when it is gone, or when its pid has become somebody else's while it was moved:
 * then nothing of it runs. The kernel may take ten milliseconds and more for a move, which the daemon does not stand
 * still for.
 */
export const bindRunner = (
  identity: GuestIdentity,
  channel: string,
  runner: ObservedProcess
): Effect.Effect<ExecutionBond | undefined> =>
  Effect.suspend(() => {
    const control = controlGroup(identity.groups)
    if (control === null) {
      return Effect.succeed({ runner, kill: killSession(runner), release: () => null })
    }
    const group = Path.join(control, channel)
    return Effect.map(moveInto(group, runner.pid), (isMoved) =>
      isMoved && isAlive(runner) ? groupBond(group, runner) : undefined
    )
  })

/** Ends a runner that was never bound. */
export const killUnbound = (identity: GuestIdentity, runner: ObservedProcess): void => {
  if (controlGroup(identity.groups) === null) signalSession(runner.pid)
  signalIfAlive(runner, "SIGKILL")
}

/**
 * Ends what a former daemon's executions have left: their groups, and runners that still wait for a reader. Nobody
 * reads their answers any more. `keeper` is the main command's and stays.
 */
export const endFormerExecutions = (identity: GuestIdentity, keeper: number): Effect.Effect<void> =>
  Effect.gen(function* () {
    const control = controlGroup(identity.groups)
    if (control !== null) {
      for (const name of Files.readdirSync(control).filter((each) => /^x[0-9a-f]+-\d+$/.test(each))) {
        yield* killUntilEmpty(Path.join(control, name), Bounds.guestEndMillisMax)
        tryRemove(Path.join(control, name))
      }
    }
    for (const pid of agentChildren(identity)) {
      const runner = observeProcess(pid)
      if (runner !== undefined && innerPid(pid) !== keeper) killUnbound(identity, runner)
    }
  })
