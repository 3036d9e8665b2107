/**
 * Calls that wait anyway share one statement, and so one commit:
 *
 *     nobody else is at it ─► alone                      one caller pays nothing for the others that are not there
 *     others are at it     ─► waiting ─► together ─► answered
 *                                             └─► left out, or the statement failed ─► alone
 *
 * What goes together neither waits for a row nor refuses anybody: whoever would have to wait or is refused asks alone,
 * by the statement that is the rule. So a row that is held stalls its own caller only, and so does a refusal.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberSet from "effect/FiberSet"
import type * as Scope from "effect/Scope"
import { halvedCallsMin, sharedCallsAtOnceMax, sharedCallsMax } from "../../domain/Bounds.ts"
import { PluginTx, type StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { CallRounds } from "./callRounds.ts"
import { answerLost } from "./storageFailure.ts"

export interface Forms<A, B, E> {
  /** The whole rule for one. It may wait, and it tells refusals. */
  readonly alone: (asked: A) => Effect.Effect<B, E>
  /** Answers by subject for those that could be served at once; the others are left out and changed nothing. */
  readonly together: (asked: ReadonlyArray<A>) => Effect.Effect<ReadonlyMap<number, B>, StorageFailure>
  /** What no two calls of one statement may be about. */
  readonly subjectOf: (asked: A) => number
}

interface Caller<A, B, E> {
  readonly asked: A
  readonly answer: (answer: Effect.Effect<B, E>) => void
}

/** A column of what is asked for. Null where it has no value: the driver finds no type for nulls alone. */
export const columnOf = <A, B>(asked: ReadonlyArray<A>, value: (one: A) => B | null) => {
  const values = asked.map(value)
  return values.every((one) => one === null) ? null : values
}

/** The server has not said that it stored nothing: to ask again would be a guess. */
const isUnknown = (exit: Exit.Exit<unknown, StorageFailure>): boolean => {
  const failure = Exit.findErrorOption(exit)
  return failure._tag === "None" || answerLost(failure.value)
}

type Run = (effect: Effect.Effect<unknown, unknown>) => unknown

/** Those who go together: each subject once, the others stay. */
const takeSubjects =
  <A, B, E>(subjectOf: Forms<A, B, E>["subjectOf"]) =>
  (waiting: ReadonlyArray<Caller<A, B, E>>) => {
    const subjects = new Set<number>()
    const taken: Array<Caller<A, B, E>> = []
    const left: Array<Caller<A, B, E>> = []
    for (const caller of waiting) {
      const subject = subjectOf(caller.asked)
      const fits = taken.length < sharedCallsMax && !subjects.has(subject)
      subjects.add(subject)
      ;(fits ? taken : left).push(caller)
    }
    return [taken, left] as const
  }

/** Tells those who were served; whoever was left out, or met a statement that failed, asks alone. */
const tellServed =
  <A, B, E>({ alone, subjectOf }: Forms<A, B, E | StorageFailure>, run: Run) =>
  (
    callers: ReadonlyArray<Caller<A, B, E | StorageFailure>>,
    exit: Exit.Exit<ReadonlyMap<number, B>, StorageFailure>
  ): void => {
    for (const { answer, asked } of callers) {
      const found = Exit.isSuccess(exit) ? exit.value.get(subjectOf(asked)) : undefined
      if (found !== undefined) answer(Effect.succeed(found))
      else if (Exit.isFailure(exit) && isUnknown(exit)) answer(Effect.failCause(exit.cause))
      else run(Effect.onExit(alone(asked), (own) => Effect.sync(() => answer(own))))
    }
  }

/**
 * The call in its shared form, for as long as the scope lives: at most `sharedCallsMax` go together, and at most
 * `sharedCallsAtOnceMax` statements are under way. What has been taken into one is carried out whoever hangs up.
 * Inside a transaction the call is asked alone, which is the transaction's business or a mistake that `alone` tells.
 */
export const makeSharedCalls = <A, B, E>(
  forms: Forms<A, B, E | StorageFailure>
): Effect.Effect<(asked: A) => Effect.Effect<B, E | StorageFailure>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const run = yield* FiberSet.makeRuntime<never, unknown, unknown>()
    const rounds = new CallRounds<Caller<A, B, E | StorageFailure>, ReadonlyMap<number, B>>({
      atOnceMax: sharedCallsAtOnceMax,
      halvedMin: halvedCallsMin,
      run,
      take: takeSubjects(forms.subjectOf),
      statement: (callers) =>
        callers.length === 0 ? Effect.succeed(new Map()) : forms.together(callers.map(({ asked }) => asked)),
      tell: tellServed(forms, run)
    })
    // Nobody who waits is left without an answer.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => rounds.dismiss().forEach(({ answer }) => answer(Effect.interrupt)))
    )
    /** Calls that were asked alone because nobody else was there, and have not ended. */
    let lone = 0
    const ask = (asked: A): Effect.Effect<B, E | StorageFailure> => {
      if (lone === 0 && rounds.isIdle) {
        lone += 1
        return Effect.onExitPrimitive(forms.alone(asked), () => void (lone -= 1))
      }
      return Effect.callback((resume) => {
        const caller = { asked, answer: resume }
        rounds.enter(caller)
        return Effect.sync(() => rounds.leave(caller))
      })
    }
    return (asked) =>
      Effect.flatMap(Effect.serviceOption(PluginTx), (tx) =>
        tx._tag === "Some" ? forms.alone(asked) : ask(asked)
      )
  })
