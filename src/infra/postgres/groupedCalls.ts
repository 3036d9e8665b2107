/**
 * Calls of one kind that go together: while a statement is under way, those that come meanwhile wait for the next one and
 * share it. Nobody waits for company, and what has been sent is carried out whoever hangs up. Each caller has an answer of
 * his own. Unlike shared calls, every one of them is served by the statement that he shares.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { PluginTx, type StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { CallRounds } from "./callRounds.ts"

export interface Grouping<In, Out> {
  /** Calls that share one statement at most. */
  readonly max: number
  /** Statements under way at a time, one unless told: more of them where each call costs the server much. */
  readonly atOnce?: number
  /** Carries the calls out; answers one for each, in their order. */
  readonly run: (calls: ReadonlyArray<In>) => Effect.Effect<ReadonlyArray<Out>, StorageFailure>
}

interface Caller<In, Out> {
  readonly given: In
  readonly answer: (answer: Effect.Effect<Out, StorageFailure>) => void
}

/** A fault that one call of several may have brought about for all of them: then each goes alone. */
const mayBeOfOneCall = (exit: Exit.Exit<unknown, StorageFailure>): boolean => {
  const failure = Exit.findErrorOption(exit)
  return failure._tag === "Some" && (failure.value.fault === "constraint" || failure.value.fault === "query")
}

/**
 * The call for one, which goes together with what else is asked for meanwhile. Inside a transaction it goes alone and
 * there, which is the transaction's business or a mistake that the handle tells. Source: SP-TX-02.
 */
export const groupedCalls = <In, Out>({
  atOnce = 1,
  max,
  run
}: Grouping<In, Out>): ((given: In) => Effect.Effect<Out, StorageFailure>) => {
  const alone = (given: In) => Effect.map(run([given]), ([answer]) => answer!)
  const rounds = new CallRounds<Caller<In, Out>, ReadonlyArray<Out>>({
    atOnceMax: atOnce,
    run: Effect.runFork,
    take: (waiting) => [waiting.slice(0, max), waiting.slice(max)],
    statement: (callers) =>
      callers.length === 0 ? Effect.succeed([]) : run(callers.map(({ given }) => given)),
    tell: (callers, exit) => {
      if (callers.length > 1 && mayBeOfOneCall(exit)) {
        Effect.runFork(
          Effect.forEach(callers, ({ answer, given }) => Effect.map(Effect.exit(alone(given)), answer))
        )
        return
      }
      callers.forEach(({ answer }, at) => answer(Exit.map(exit, (answers) => answers[at]!)))
    }
  })
  const ask = (given: In): Effect.Effect<Out, StorageFailure> =>
    Effect.callback((resume) => {
      const caller = { given, answer: resume }
      rounds.enter(caller)
      return Effect.sync(() => rounds.leave(caller))
    })
  return (given) =>
    Effect.flatMap(Effect.serviceOption(PluginTx), (tx) => (tx._tag === "Some" ? alone(given) : ask(given)))
}

/** A call that has a form for many, which leaves out what stands against it, and the whole rule for one. */
export interface Leaving<In, Out> extends Omit<Grouping<In, Out>, "run"> {
  /** Undefined for those that are left out and changed nothing. */
  readonly together: (
    calls: ReadonlyArray<In>
  ) => Effect.Effect<ReadonlyArray<Out | undefined>, StorageFailure>
  readonly alone: (given: In) => Effect.Effect<Out, StorageFailure>
}

/** Those that are left out go one by one: the last place of what they all want is given once, and the others are told. */
export const groupedElseAlone = <In, Out>({
  alone,
  together,
  ...grouping
}: Leaving<In, Out>): ((given: In) => Effect.Effect<Out, StorageFailure>) => {
  const askTogether = groupedCalls<In, Out | undefined>({ ...grouping, run: together })
  const askAlone = groupedCalls<In, Out>({
    max: 1,
    run: (calls) => Effect.forEach(calls, (given) => alone(given))
  })
  return (given) =>
    Effect.flatMap(askTogether(given), (answer) =>
      answer === undefined ? askAlone(given) : Effect.succeed(answer)
    )
}
