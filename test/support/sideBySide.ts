/**
 * Two transactions side by side on real connections: the first is held open at a named point while the second runs
 * until it is done or waits for a lock, which is read from the server and not guessed from time.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { Clone } from "./clone.ts"
import { inTime, waitFor } from "./waiting.ts"

export interface Barrier {
  /** Announces that the point is reached, and waits there until it is opened. */
  readonly arrive: Effect.Effect<void>
  /** Completes when somebody has arrived. */
  readonly reached: Effect.Effect<void>
  readonly open: Effect.Effect<void>
}

/** A point at which one program is held until the test lets it go. */
export const makeBarrier = (name: string): Effect.Effect<Barrier> =>
  Effect.gen(function* () {
    const arrived = yield* Deferred.make<void>()
    const opened = yield* Deferred.make<void>()
    return {
      arrive: Effect.andThen(Deferred.succeed(arrived, undefined), Deferred.await(opened)),
      reached: inTime(`somebody arrives at ${name}`, Deferred.await(arrived)),
      open: Effect.asVoid(Deferred.succeed(opened, undefined))
    }
  })

/** How many connections of the clone wait for a lock that another one holds. */
export const waitingForLocks: Effect.Effect<number, never, Clone> = Effect.flatMap(Clone, (clone) =>
  Effect.map(
    clone.admin(
      `select count(*)::int as waiting from pg_stat_activity
        where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`
    ),
    (rows) => Number(rows[0]?.["waiting"])
  )
)

export interface SideBySide<A, B> {
  readonly holder: Exit.Exit<A, unknown>
  readonly contender: Exit.Exit<B, unknown>
  /** Whether the contender had to wait for a lock of the holder's. */
  readonly waited: boolean
}

/**
 * Starts the holder, waits until it stands at the barrier that it is given (inside its transaction), starts the
 * contender, waits until that one is done or waits for a lock, and then lets the holder end.
 */
export const sideBySide = <A, E, R, B, E2, R2>(
  holder: (held: Effect.Effect<void>) => Effect.Effect<A, E, R>,
  contender: Effect.Effect<B, E2, R2>
): Effect.Effect<SideBySide<A, B>, never, R | R2 | Clone> =>
  Effect.gen(function* () {
    const barrier = yield* makeBarrier("the holder's barrier")
    const first = yield* Effect.forkChild(holder(barrier.arrive))
    yield* Effect.raceFirst(barrier.reached, Fiber.await(first))
    const second = yield* Effect.forkChild(contender)
    const seen = yield* waitFor({
      fact: "the contender is done or waits for a lock",
      look: Effect.map(waitingForLocks, (waiting) => ({ done: second.pollUnsafe() !== undefined, waiting })),
      holds: ({ done, waiting }: { readonly done: boolean; readonly waiting: number }) => done || waiting > 0
    })
    yield* barrier.open
    const ends = yield* inTime(
      "both transactions end",
      Effect.all({ holder: Fiber.await(first), contender: Fiber.await(second) })
    )
    return { ...ends, waited: !seen.done }
  })

/** The same two programs in both orders, each pair on whatever `fresh` makes. */
export const bothOrders = <A, E, R, B, E2, R2, F, E3, R3>(
  fresh: Effect.Effect<F, E3, R3>,
  first: (fixture: F, held: Effect.Effect<void>) => Effect.Effect<A, E, R>,
  second: (fixture: F, held: Effect.Effect<void>) => Effect.Effect<B, E2, R2>
) =>
  Effect.gen(function* () {
    const here = yield* fresh
    const firstHolds = yield* sideBySide((held) => first(here, held), second(here, Effect.void))
    const there = yield* fresh
    const secondHolds = yield* sideBySide((held) => second(there, held), first(there, Effect.void))
    return { firstHolds, secondHolds }
  })
