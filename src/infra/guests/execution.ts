/**
 * Runs one command in a guest by one of its runners. The runner waits, bound, until its outputs are read; so a time-out
 * or an interruption ends every process of the command and of nobody else. The environment goes through a private file
 * of the guest, never through an argument. Whether the guest is in a state for it was decided before.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Bounds from "../../domain/Bounds.ts"
import { ExecutionEvent, type GuestCommand } from "../../domain/guests/GuestSpec.ts"
import type { GuestFailure } from "../../domain/guests/GuestSupervisor.ts"
import { errorName } from "../filesystem/privateFiles.ts"
import { isEnvironmentName, runnerScript } from "./agentScript.ts"
import { type ExecutionOutputs, openOutputs } from "./executionOutputs.ts"
import { writeGuestFile } from "./guestFile.ts"
import { isAlive } from "./kernel.ts"
import { waitUntil } from "./waiting.ts"
import {
  type ExecutionDesk,
  executionFailure,
  releaseRunner,
  removeHanded,
  type Runner,
  takeRunner
} from "./runners.ts"

type Events = Queue.Queue<ExecutionEvent, GuestFailure | Cause.Done>

const killedExitCode = 137
/** A runner's last line may still be under way when its pipes have ended. */
const lastLineMillis = 100
const guestEndMillis = 250

/** Refuses what a shell cannot carry exactly. */
const checkCommand = ({ link }: ExecutionDesk, command: GuestCommand) => {
  const words = [...command.argv, ...Object.values(command.environment), command.workingDirectory]
  if (words.some((word) => word.includes("\0"))) {
    return Effect.fail(executionFailure(link, "an argument, a value or the directory holds a NUL byte"))
  }
  return Object.keys(command.environment).every(isEnvironmentName)
    ? Effect.void
    : Effect.fail(
        executionFailure(
          link,
          "a variable's name is not made of letters, digits and underscores, no digit first"
        )
      )
}

interface Run {
  readonly desk: ExecutionDesk
  readonly runner: Runner
  readonly outputs: ExecutionOutputs
  readonly events: Events
  /** Whether the command's end has been told: then its background processes are left alone. */
  isOver: boolean
}

/** Hands the command to the waiting runner and opens its outputs, which lets it go on. */
const hand = (
  desk: ExecutionDesk,
  runner: Runner,
  command: GuestCommand,
  events: Events
): ExecutionOutputs => {
  const { owner } = desk.link
  writeGuestFile(runner.files.script, runnerScript(runner.channel, command), { owner })
  if (command.standardInput !== null) writeGuestFile(runner.files.input, command.standardInput, { owner })
  return openOutputs({ output: runner.files.output, errors: runner.files.errors, events })
}

/** Has a runner for the time of the scope; a command that has not ended by then is ended. */
const acquireRunner = (desk: ExecutionDesk): Effect.Effect<Runner, GuestFailure, Scope.Scope> =>
  Effect.acquireRelease(takeRunner(desk), (runner) =>
    Effect.andThen(
      Effect.sync(() => releaseRunner(desk, runner)),
      desk.runners.refill
    )
  )

const acquireRun = (
  desk: ExecutionDesk,
  runner: Runner,
  command: GuestCommand
): Effect.Effect<Run, GuestFailure, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const events: Events = yield* Queue.make<ExecutionEvent, GuestFailure | Cause.Done>()
      const outputs = yield* Effect.try({
        try: () => hand(desk, runner, command, events),
        catch: (error) => executionFailure(desk.link, errorName(error))
      }).pipe(Effect.onError(() => runner.bond.kill))
      return { desk, runner, outputs, events, isOver: false }
    }),
    (run) =>
      Effect.gen(function* () {
        if (!run.isOver) yield* run.runner.bond.kill
        run.outputs.close()
      })
  )

const statusOf = (word: string | undefined): number => {
  const status = Number(word)
  return Number.isInteger(status) && status >= 0 && status <= 255 ? status : 255
}

type Outcome = Option.Option<number | "lost">

/** The command's status by its runner's word, `lost` when its pipes ended without one, none at the time-out. */
const awaitOutcome = (run: Run, timeoutMillis: number): Effect.Effect<Outcome> => {
  const told = run.runner.done
    .wordsWithin(null)
    .pipe(Effect.map((words): number | "lost" => (words === undefined ? "lost" : statusOf(words[0]))))
  // A runner that died before its pipes were opened never brings them to an end.
  const ended = isAlive(run.runner.bond.runner) ? run.outputs.ended : Effect.void
  const lost = ended.pipe(Effect.andThen(Effect.sleep(lastLineMillis)), Effect.as("lost" as const))
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
    yield* run.runner.bond.kill
    if (Option.isNone(outcome)) return yield* finish(run, killedExitCode, "timeout")
    // The runner's end may be the first that is seen of the guest's.
    const isGone = yield* waitUntil(() => !isAlive(run.desk.link.identity.init), {
      watch: null,
      pollMillis: 5,
      millisMax: guestEndMillis
    })
    if (!isGone) return yield* finish(run, killedExitCode, "exited")
    run.isOver = true
    return yield* Queue.fail(
      run.events,
      executionFailure(run.desk.link, "the guest ended while the command ran")
    )
  })

/**
 * The command's events as a stream; leaving it early ends the command. At most `Bounds.guestExecutionsAtOnceMax` of one
 * guest run at a time, more wait.
 */
export const executeAt = (
  desk: ExecutionDesk,
  command: GuestCommand
): Stream.Stream<ExecutionEvent, GuestFailure> =>
  Stream.unwrap(
    Effect.gen(function* () {
      yield* checkCommand(desk, command)
      yield* Effect.acquireRelease(desk.permits.take(1), () => desk.permits.release(1), {
        interruptible: true
      })
      const runner = yield* acquireRunner(desk)
      const run = yield* acquireRun(desk, runner, command)
      yield* Effect.forkScoped(removeHanded(runner))
      yield* Effect.forkScoped(supervise(run, command.timeoutMillis))
      // Not beside the command's own start: a short one is over before the next one's runner is begun.
      yield* Effect.forkScoped(Effect.delay(desk.runners.refill, Bounds.executionRunnersDelayMillis))
      return Stream.fromQueue(run.events).pipe(
        Stream.tap((event) => Effect.sync(() => run.outputs.taken(event)))
      )
    })
  )
