/**
 * Bounds on how long the server may leave a COMMIT without an answer, one instance a handle. Every transaction has such
 * a bound and next to none ever meets it, so a timer for each would be most of what a COMMIT costs here: the deadlines
 * are kept in a set, and one sleeper wakes at the earliest of them. Time is the clock's monotonic one: a wall clock
 * that is set forward makes no outcome unknown.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as FiberSet from "effect/FiberSet"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import type { SqlError } from "effect/sql/SqlError"
import type { Sent } from "./statements.ts"

export type Answered = Exit.Exit<PgConnection.Result, SqlError>

interface Awaited {
  readonly dueAtNanos: bigint
  readonly giveUp: () => void
}

const nanosPerMilli = 1_000_000n

export class AnswerDeadlines {
  private readonly clock: Clock.Clock
  private readonly runFork: (effect: Effect.Effect<void>) => unknown
  private readonly awaited = new Set<Awaited>()
  /** When a sleeper wakes next, or null while none is asleep. */
  private nextLookNanos: bigint | null = null

  constructor(clock: Clock.Clock, runFork: (effect: Effect.Effect<void>) => unknown) {
    this.clock = clock
    this.runFork = runFork
  }

  /**
   * The exit of what was sent, or none after the bound. The fiber that waits for the answer is left alone: one that is
   * interrupted would wait for its cancel. Not interruptible itself.
   */
  within(sent: Sent, millisMax: number): Effect.Effect<Option.Option<Answered>> {
    return Effect.callback((resume) => {
      const dueAtNanos = this.clock.monotonicTimeNanosUnsafe() + BigInt(millisMax) * nanosPerMilli
      const one: Awaited = { dueAtNanos, giveUp: () => resume(Effect.succeedNone) }
      this.awaited.add(one)
      sent.addObserver((exit) => {
        this.awaited.delete(one)
        resume(Effect.succeed(Option.some(exit)))
      })
      this.lookAt(dueAtNanos)
    })
  }

  private lookAt(nanos: bigint): void {
    if (this.nextLookNanos !== null && this.nextLookNanos <= nanos) return
    this.nextLookNanos = nanos
    const left = nanos - this.clock.monotonicTimeNanosUnsafe()
    const millis = Math.max(0, Math.ceil(Number(left) / Number(nanosPerMilli)))
    this.runFork(Effect.andThen(Effect.sleep(millis), () => Effect.sync(() => this.look())))
  }

  private look(): void {
    const nowNanos = this.clock.monotonicTimeNanosUnsafe()
    let earliest: bigint | null = null
    for (const one of this.awaited) {
      if (one.dueAtNanos <= nowNanos) {
        this.awaited.delete(one)
        one.giveUp()
      } else if (earliest === null || one.dueAtNanos < earliest) earliest = one.dueAtNanos
    }
    this.nextLookNanos = null
    if (earliest !== null) this.lookAt(earliest)
  }
}

/** Deadlines on the clock of whoever builds them; their sleeper ends with the scope. */
export const makeAnswerDeadlines: Effect.Effect<AnswerDeadlines, never, Scope.Scope> = Effect.gen(
  function* () {
    return new AnswerDeadlines(yield* Clock.Clock, yield* FiberSet.makeRuntime<never, void, never>())
  }
)
