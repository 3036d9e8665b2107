/**
 * Runners of one guest: shells in it that wait for a command, each already bound to a group of its own. Making one
 * takes a round through the guest's agent, so some are kept ready. A runner serves one command.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { GuestFailure } from "../../domain/guests/GuestSupervisor.ts"
import { type AgentLink, channelPipes, type ExpectedAnswer } from "./agentLink.ts"
import { tryRemove } from "./cgroups.ts"
import { bindRunner, type ExecutionBond, findRunner, killUnbound } from "./executionBond.ts"
import { isAlive } from "./kernel.ts"
import { makeStock, type Stock } from "./stock.ts"

export interface RunnerFiles {
  readonly output: string
  readonly errors: string
  readonly script: string
  readonly input: string
}

export interface Runner {
  readonly channel: string
  readonly bond: ExecutionBond
  readonly files: RunnerFiles
  /** Its word that it has opened what it was handed. */
  readonly begun: ExpectedAnswer
  /** Its word about the command's status. */
  readonly done: ExpectedAnswer
}

/** What a guest's executions share. */
export interface ExecutionDesk {
  readonly link: AgentLink
  readonly runners: Stock<Runner, GuestFailure>
  /** Executions at a time. */
  readonly permits: Semaphore.Semaphore
  /** Groups of ended executions that their background processes still keep. */
  readonly leftGroups: Set<string>
}

export const executionFailure = (link: AgentLink, detail: string) =>
  new GuestFailure({ sandbox: link.identity.sandbox, step: "execute", detail })

const filesOf = (link: AgentLink, channel: string): RunnerFiles => {
  const at = (name: string) => Path.join(link.folder.agent, name)
  const [output, errors] = channelPipes(channel)
  return { output: at(output), errors: at(errors), script: at(`${channel}.sh`), input: at(`${channel}.in`) }
}

/** Ends a runner that announces itself after nobody waits for it any more. */
const endLateRunner = (link: AgentLink, started: ExpectedAnswer) =>
  started.wordsWithin(null).pipe(
    Effect.tap((words) =>
      Effect.sync(() => {
        const runner = words === undefined ? undefined : findRunner(link.identity, Number(words[0]))
        if (runner !== undefined) killUnbound(link.identity, runner)
      })
    ),
    Effect.forkDetach
  )

/** Orders a runner and binds it before it may run anything. Not to be interrupted: it ends within its bound. */
const makeRunner = (link: AgentLink): Effect.Effect<Runner, GuestFailure> =>
  Effect.gen(function* () {
    const channel = yield* link.takeChannel
    if (channel === undefined)
      return yield* executionFailure(link, "the pipes of the command could not be made")
    const started = link.expect("started", channel)
    if (!link.order(`exec ${channel}`))
      return yield* executionFailure(link, "the guest's agent takes no orders")
    const words = yield* started.wordsWithin(Bounds.executionStartMillisMax)
    if (words === undefined) {
      yield* endLateRunner(link, started)
      return yield* executionFailure(link, "the guest's agent did not start the command in time")
    }
    if (words[0] === "0") {
      return yield* executionFailure(
        link,
        "the guest has reached its limit of processes: end some, or raise it"
      )
    }
    const runner = findRunner(link.identity, Number(words[0]))
    const bond = runner === undefined ? undefined : yield* bindRunner(link.identity, channel, runner)
    if (bond === undefined)
      return yield* executionFailure(link, "the command's runner ended before it could be bound")
    return {
      channel,
      bond,
      files: filesOf(link, channel),
      begun: link.expect("begun", channel),
      done: link.expect("done", channel)
    }
  }).pipe(Effect.uninterruptible)

/**
 * Removes what a command was handed, its environment and its input, as soon as its runner has them open: they are
 * secrets of the caller's, and a command may run for long. Source: SP-TX-11.
 */
export const removeHanded = (runner: Runner): Effect.Effect<void> =>
  Effect.map(runner.begun.wordsWithin(null), () => {
    for (const path of [runner.files.script, runner.files.input]) Files.rmSync(path, { force: true })
  })

/** Names of the files that a command of a former daemon was handed. */
const handedPattern = /^x[0-9a-f]+-\d+\.(sh|in)$/

/** Removes what former daemons handed to commands and did not come to remove. */
export const removeFormerHanded = (agentDirectory: string): void => {
  for (const name of Files.readdirSync(agentDirectory)) {
    if (handedPattern.test(name)) Files.rmSync(Path.join(agentDirectory, name), { force: true })
  }
}

/** Removes what a runner has on disk. */
export const removeFiles = (runner: Runner): void => {
  for (const path of Object.values(runner.files)) Files.rmSync(path, { force: true })
}

/** Gives a runner's group up, now or when its background processes have ended. */
export const releaseRunner = (desk: Pick<ExecutionDesk, "leftGroups">, runner: Runner): void => {
  runner.begun.giveUp()
  runner.done.giveUp()
  removeFiles(runner)
  const left = runner.bond.release()
  if (left !== null) desk.leftGroups.add(left)
  for (const group of desk.leftGroups) if (tryRemove(group)) desk.leftGroups.delete(group)
}

/** Opens the desk of a guest whose agent answers. */
export const openDesk = (link: AgentLink): ExecutionDesk => {
  const leftGroups = new Set<string>()
  const runners = makeStock({
    first: [],
    keptMin: Bounds.executionRunnersKeptMin,
    make: Effect.map(makeRunner(link), (runner) => [runner]),
    // A closed desk is a guest's end, or this daemon's: the next one ends what is left.
    discard: () => undefined
  })
  return { link, runners, permits: Semaphore.makeUnsafe(Bounds.guestExecutionsAtOnceMax), leftGroups }
}

export const closeDesk = (desk: ExecutionDesk): void => {
  desk.runners.close()
  desk.link.close()
}

/** A waiting runner, from the stock when one there still lives. */
export const takeRunner = (desk: ExecutionDesk): Effect.Effect<Runner, GuestFailure> =>
  Effect.flatMap(desk.runners.take, (runner) => {
    if (runner === undefined) return makeRunner(desk.link)
    if (isAlive(runner.bond.runner)) return Effect.succeed(runner)
    releaseRunner(desk, runner)
    return takeRunner(desk)
  })
