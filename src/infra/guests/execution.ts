/**
 * Runs one command in a guest through its agent. The command waits until its processes are bound together, so that
 * its time-out or an interruption ends all of them and nobody else. Its environment goes through a private file of
 * the guest, never through an argument. Whether the guest is in a state for it was decided before.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { ExecutionEvent, type GuestCommand } from "../../domain/guests/GuestSpec.ts"
import { GuestFailure } from "../../domain/guests/GuestSupervisor.ts"
import { type AgentLink, channelPipes, type ExpectedAnswer } from "./agentLink.ts"
import { commandScript, isEnvironmentName } from "./agentScript.ts"
import { tryRemove } from "./cgroups.ts"
import { bindRunner, type ExecutionBond, findRunner, killUnbound } from "./executionBond.ts"
import { type ExecutionOutputs, openOutputs } from "./executionOutputs.ts"
import { isAlive } from "./kernel.ts"

type Events = Queue.Queue<ExecutionEvent, GuestFailure | Cause.Done>

const killedExitCode = 137
/** A runner's last line may still be under way when its pipes have ended. */
const lastLineMillis = 100

const failed = (link: AgentLink, detail: string) =>
  new GuestFailure({ sandbox: link.identity.sandbox, step: "execute", detail })

/** Refuses what a shell cannot carry exactly. */
const checkCommand = (link: AgentLink, command: GuestCommand) => {
  const words = [...command.argv, ...Object.values(command.environment), command.workingDirectory]
  if (words.some((word) => word.includes("\0"))) {
    return Effect.fail(failed(link, "an argument, a value or the directory holds a NUL byte"))
  }
  return Object.keys(command.environment).every(isEnvironmentName)
    ? Effect.void
    : Effect.fail(
        failed(link, "a variable's name is not made of letters, digits and underscores, no digit first")
      )
}

const writeFor = (path: string, content: string | Uint8Array, owner: number | null): void => {
  Files.writeFileSync(path, content, { flag: "wx", mode: 0o600 })
  if (owner !== null) Files.lchownSync(path, owner, owner)
}

const channelFiles = (link: AgentLink, channel: string) => {
  const at = (name: string) => Path.join(link.folder.agent, name)
  const [output, errors] = channelPipes(channel)
  return { output: at(output), errors: at(errors), script: at(`${channel}.sh`), input: at(`${channel}.in`) }
}
type ChannelFiles = ReturnType<typeof channelFiles>

/** The channel with the command written into it; everything of it is removed with the scope. */
const prepareChannel = (link: AgentLink, command: GuestCommand, owner: number | null) =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const channel = yield* link.takeChannel
      if (channel === undefined) return yield* failed(link, "the pipes of the command could not be made")
      const files = channelFiles(link, channel)
      writeFor(files.script, commandScript(command), owner)
      if (command.standardInput !== null) writeFor(files.input, command.standardInput, owner)
      return { channel, files }
    }),
    ({ files }) =>
      Effect.sync(() => {
        for (const path of Object.values(files)) Files.rmSync(path, { force: true })
      })
  )

/** Ends a runner that announces itself after nobody waits for it any more. */
const endLateRunner = (link: AgentLink, started: ExpectedAnswer) =>
  started.words.pipe(
    Effect.tap(([pid]) =>
      Effect.sync(() => {
        const runner = findRunner(link.identity, Number(pid))
        if (runner !== undefined) killUnbound(link.identity, runner)
      })
    ),
    Effect.forkDetach
  )

/** Orders the runner and binds it before it may run. Not to be interrupted: it ends by itself within its bound. */
const startRunner = (link: AgentLink, channel: string): Effect.Effect<ExecutionBond, GuestFailure> =>
  Effect.gen(function* () {
    const started = link.expect("started", channel)
    if (!link.order(`exec ${channel}`)) return yield* failed(link, "the guest's agent takes no orders")
    const words = yield* started.wordsWithin(Bounds.executionStartMillisMax)
    if (words === undefined) {
      yield* endLateRunner(link, started)
      return yield* failed(link, "the guest's agent did not start the command in time")
    }
    const runner = findRunner(link.identity, Number(words[0]))
    const bond = runner === undefined ? undefined : bindRunner(link.identity, channel, runner)
    if (bond === undefined) return yield* failed(link, "the command's runner ended before it could be bound")
    return bond
  })

const sweepLeftGroups = (link: AgentLink): void => {
  for (const group of link.leftGroups) if (tryRemove(group)) link.leftGroups.delete(group)
}

interface Run {
  readonly link: AgentLink
  readonly bond: ExecutionBond
  readonly outputs: ExecutionOutputs
  readonly events: Events
  readonly done: ExpectedAnswer
  /** Whether the command's end has been told: then its background processes are left alone. */
  isOver: boolean
}

/** Binds the runner while the scope is open; a command that has not ended by then is ended. */
const acquireRun = (
  link: AgentLink,
  channel: string,
  files: ChannelFiles
): Effect.Effect<Run, GuestFailure, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const events: Events = yield* Queue.make<ExecutionEvent, GuestFailure | Cause.Done>()
      const bond = yield* startRunner(link, channel)
      const done = link.expect("done", channel)
      const outputs = openOutputs({ output: files.output, errors: files.errors, events })
      return { link, bond, outputs, events, done, isOver: false }
    }),
    (run) =>
      Effect.gen(function* () {
        if (!run.isOver) yield* run.bond.kill
        run.done.giveUp()
        run.outputs.close()
        const left = run.bond.release()
        if (left !== null) link.leftGroups.add(left)
        sweepLeftGroups(link)
      })
  )

const statusOf = (word: string | undefined): number => {
  const status = Number(word)
  return Number.isInteger(status) && status >= 0 && status <= 255 ? status : 255
}

type Outcome = Option.Option<number | "lost">

/** The command's status by its runner's word, `lost` when its pipes ended without one, none at the time-out. */
const awaitOutcome = (run: Run, timeoutMillis: number): Effect.Effect<Outcome> => {
  const told = Effect.map(run.done.words, ([word]): number | "lost" => statusOf(word))
  const lost = run.outputs.ended.pipe(
    Effect.andThen(Effect.sleep(lastLineMillis)),
    Effect.as("lost" as const)
  )
  return Effect.raceFirst(told, lost).pipe(Effect.timeoutOption(timeoutMillis))
}

/** Passes on what is still in the pipes, then the end. */
const finish = (run: Run, exitCode: number, ended: "exited" | "timeout") =>
  Effect.gen(function* () {
    run.outputs.hurry()
    yield* Effect.timeoutOption(run.outputs.ended, Bounds.executionDrainMillis)
    run.outputs.close()
    run.isOver = true
    Queue.offerUnsafe(run.events, ExecutionEvent.cases.Exited.make({ exitCode, ended }))
    yield* Queue.end(run.events)
  })

const supervise = (run: Run, timeoutMillis: number) =>
  Effect.gen(function* () {
    const outcome = yield* awaitOutcome(run, timeoutMillis)
    if (Option.isSome(outcome) && outcome.value !== "lost") return yield* finish(run, outcome.value, "exited")
    yield* run.bond.kill
    if (Option.isNone(outcome)) return yield* finish(run, killedExitCode, "timeout")
    if (isAlive(run.link.identity.init)) return yield* finish(run, killedExitCode, "exited")
    run.isOver = true
    return yield* Queue.fail(run.events, failed(run.link, "the guest ended while the command ran"))
  })

/**
 * The command's events as a stream; leaving it early ends the command. `owner`: host user that files are given to, or
 * null where it is the daemon's own. At most `Bounds.guestExecutionsAtOnceMax` of one guest run at a time, more wait.
 */
export const executeIn = (
  link: AgentLink,
  command: GuestCommand,
  owner: number | null
): Stream.Stream<ExecutionEvent, GuestFailure> =>
  Stream.unwrap(
    Effect.gen(function* () {
      yield* checkCommand(link, command)
      yield* Effect.acquireRelease(link.permits.take(1), () => link.permits.release(1), {
        interruptible: true
      })
      const { channel, files } = yield* prepareChannel(link, command, owner)
      const run = yield* acquireRun(link, channel, files)
      yield* Effect.forkScoped(supervise(run, command.timeoutMillis))
      return Stream.fromQueue(run.events).pipe(
        Stream.tap((event) => Effect.sync(() => run.outputs.taken(event)))
      )
    })
  )
