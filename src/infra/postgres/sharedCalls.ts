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
import { sharedCallsAtOnceMax, sharedCallsMax } from "../../domain/Bounds.ts"
import { PluginTx, type StorageFailure } from "../../domain/persistence/PluginDb.ts"
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

class SharedCalls<A, B, E> {
  private readonly forms: Forms<A, B, E | StorageFailure>
  private readonly run: (effect: Effect.Effect<unknown, unknown>) => unknown
  private waiting: Array<Caller<A, B, E | StorageFailure>> = []
  /** Calls that were asked alone because nobody else was there, and have not ended. */
  private lone = 0
  private shared = 0
  /** A statement is about to take those who wait. */
  private gathering = false

  constructor(
    forms: Forms<A, B, E | StorageFailure>,
    run: (effect: Effect.Effect<unknown, unknown>) => unknown
  ) {
    this.forms = forms
    this.run = run
  }

  ask(asked: A): Effect.Effect<B, E | StorageFailure> {
    if (this.lone === 0 && this.shared === 0) {
      this.lone += 1
      return Effect.onExitPrimitive(this.forms.alone(asked), () => void (this.lone -= 1))
    }
    return Effect.callback((resume) => {
      const caller = { asked, answer: resume }
      this.waiting.push(caller)
      this.share()
      return Effect.sync(() => void (this.waiting = this.waiting.filter((one) => one !== caller)))
    })
  }

  /** Nobody who waits is left without an answer. */
  close(): void {
    for (const { answer } of this.waiting.splice(0)) answer(Effect.interrupt)
  }

  private share(): void {
    if (this.gathering || this.shared === sharedCallsAtOnceMax || this.waiting.length === 0) return
    this.gathering = true
    this.shared += 1
    this.run(this.round)
  }

  /** Callers that are answered together come back together: they are let in before the next ones are taken. */
  private readonly round = Effect.suspend(() => {
    let callers: ReadonlyArray<Caller<A, B, E | StorageFailure>> = []
    const statement = Effect.suspend(() => {
      callers = this.take()
      this.gathering = false
      this.share()
      return callers.length === 0
        ? Effect.succeed(new Map<number, B>())
        : this.forms.together(callers.map(({ asked }) => asked))
    })
    return Effect.onExit(Effect.andThen(Effect.yieldNow, statement), (exit) =>
      Effect.sync(() => {
        this.shared -= 1
        this.tell(callers, exit)
        this.share()
      })
    )
  })

  private take(): ReadonlyArray<Caller<A, B, E | StorageFailure>> {
    const subjects = new Set<number>()
    const taken: Array<Caller<A, B, E | StorageFailure>> = []
    const left: Array<Caller<A, B, E | StorageFailure>> = []
    for (const caller of this.waiting) {
      const subject = this.forms.subjectOf(caller.asked)
      const fits = taken.length < sharedCallsMax && !subjects.has(subject)
      subjects.add(subject)
      ;(fits ? taken : left).push(caller)
    }
    this.waiting = left
    return taken
  }

  private tell(
    callers: ReadonlyArray<Caller<A, B, E | StorageFailure>>,
    exit: Exit.Exit<ReadonlyMap<number, B>, StorageFailure>
  ): void {
    for (const { answer, asked } of callers) {
      const found = Exit.isSuccess(exit) ? exit.value.get(this.forms.subjectOf(asked)) : undefined
      if (found !== undefined) answer(Effect.succeed(found))
      else if (Exit.isFailure(exit) && isUnknown(exit)) answer(Effect.failCause(exit.cause))
      else {
        this.run(
          Effect.onExit(this.forms.alone(asked), (own) =>
            Effect.sync(() =>
              answer(Exit.isSuccess(own) ? Effect.succeed(own.value) : Effect.failCause(own.cause))
            )
          )
        )
      }
    }
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
    const calls = new SharedCalls(forms, run)
    yield* Effect.addFinalizer(() => Effect.sync(() => calls.close()))
    return (asked) =>
      Effect.flatMap(Effect.serviceOption(PluginTx), (tx) =>
        tx._tag === "Some" ? forms.alone(asked) : calls.ask(asked)
      )
  })
