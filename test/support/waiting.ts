/** Waits for a fact on the machine's own clock, up to a deadline, and then tells what was seen instead. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

const realClock = Effect.runSync(Clock.Clock)

/** Runs an effect on the real clock, also under a steered one. */
export const onRealClock = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(effect, Clock.Clock, realClock)

export interface Waiting<A, E, R> {
  /** The fact in words, for the message. */
  readonly fact: string
  readonly look: Effect.Effect<A, E, R>
  readonly holds: (seen: A) => boolean
  /** What to print beside the last thing seen when the deadline passes. */
  readonly diagnosis?: Effect.Effect<unknown, E, R>
  readonly deadlineMillis?: number
  readonly everyMillis?: number
}

const deadlineMillisDefault = 5_000
const everyMillisDefault = 2

/** Looks until the fact holds and answers what was seen; dies with the diagnosis when the deadline passes. */
export const waitFor = <A, E, R>(waiting: Waiting<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const deadline = waiting.deadlineMillis ?? deadlineMillisDefault
    const started = yield* Clock.currentTimeMillis
    for (;;) {
      const seen = yield* waiting.look
      if (waiting.holds(seen)) return seen
      if ((yield* Clock.currentTimeMillis) - started > deadline) {
        const diagnosis = yield* waiting.diagnosis ?? Effect.succeed("no diagnosis given")
        return yield* Effect.die(
          new Error(
            `${waiting.fact}: not after ${deadline} milliseconds; last seen ${show(seen)}; ${show(diagnosis)}`
          )
        )
      }
      yield* Effect.sleep(waiting.everyMillis ?? everyMillisDefault)
    }
  }).pipe(onRealClock)

/** Runs an effect that must end, and answers it; dies when it has not ended by the deadline. */
export const inTime = <A, E, R>(
  fact: string,
  effect: Effect.Effect<A, E, R>,
  deadlineMillis = deadlineMillisDefault
): Effect.Effect<A, E, R> =>
  onRealClock(Effect.timeoutOption(effect, deadlineMillis)).pipe(
    Effect.flatMap(
      Option.match({
        onNone: () => Effect.die(new Error(`${fact}: not after ${deadlineMillis} milliseconds`)),
        onSome: (value) => Effect.succeed(value)
      })
    )
  )

const show = (value: unknown): string =>
  JSON.stringify(value, (_key, each: unknown) => (typeof each === "bigint" ? `${each}n` : each)) ??
  String(value)
