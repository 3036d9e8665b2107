/**
 * A few things made ahead, so that whoever needs one does not wait for its making. What is made and how is the
 * caller's; a making that fails behind the scenes is simply tried again by the next one who finds the stock empty.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export interface Stock<A, E> {
  /** One from the stock, else the next that is being made, else one made now. Undefined: the making made none. */
  readonly take: Effect.Effect<A | undefined, E>
  /** One from the stock, or undefined. */
  readonly takeReady: () => A | undefined
  /** How many are there. */
  readonly left: () => number
  /** Makes more in the background when fewer than the minimum are left, one making at a time. */
  readonly refill: Effect.Effect<void>
  /** Takes everything out, and lets nothing in any more. */
  readonly close: () => ReadonlyArray<A>
}

export interface StockOptions<A, E> {
  readonly first: ReadonlyArray<A>
  /** Fewer than this, and a refill makes more. */
  readonly keptMin: number
  readonly make: Effect.Effect<ReadonlyArray<A>, E>
  /** Gets what a making brings after the close. */
  readonly discard: (made: A) => void
  /** Where the making in the background belongs; it ends with it. None: it runs to its own end. */
  readonly scope?: Scope.Scope
}

/** What is there, and who waits for the next one that is made in the background. */
interface Shelf<A> {
  readonly ready: Array<A>
  isMaking: boolean
  isOpen: boolean
  wake: (() => void) | undefined
}

const putOn = <A>(shelf: Shelf<A>, made: ReadonlyArray<A>, discard: (made: A) => void): void => {
  if (shelf.isOpen) shelf.ready.push(...made)
  else for (const each of made) discard(each)
  shelf.wake?.()
}

/** Waits until something was put on the shelf, or the making ended without it. */
const nextPut = <A>(shelf: Shelf<A>): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    shelf.wake = () => {
      shelf.wake = undefined
      resume(Effect.void)
    }
    return Effect.sync(() => {
      shelf.wake = undefined
    })
  })

/** Makes until enough is there; what fails is left to the next who asks. */
const fill = <A, E>(shelf: Shelf<A>, options: StockOptions<A, E>): Effect.Effect<void, E> =>
  Effect.suspend(() =>
    shelf.isOpen && shelf.ready.length < options.keptMin
      ? Effect.flatMap(options.make, (made) => {
          const isAwaited = shelf.wake !== undefined
          putOn(shelf, made, options.discard)
          // Whoever waited is at work with it now: the next one is made when it is asked for again.
          return made.length === 0 || isAwaited ? Effect.void : fill(shelf, options)
        })
      : Effect.void
  )

const refillBehind = <A, E>(shelf: Shelf<A>, options: StockOptions<A, E>): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (shelf.isMaking || !shelf.isOpen || shelf.ready.length >= options.keptMin) return Effect.void
    shelf.isMaking = true
    const done = Effect.sync(() => {
      shelf.isMaking = false
      shelf.wake?.()
    })
    const behind = fill(shelf, options).pipe(Effect.ensuring(done), Effect.ignoreCause)
    return Effect.asVoid(
      options.scope === undefined ? Effect.forkDetach(behind) : Effect.forkIn(behind, options.scope)
    )
  })

/** A stock that is refilled below its minimum. */
export const makeStock = <A, E>(options: StockOptions<A, E>): Stock<A, E> => {
  const shelf: Shelf<A> = { ready: [...options.first], isMaking: false, isOpen: true, wake: undefined }
  const makeNow = Effect.map(options.make, ([made, ...rest]) => {
    putOn(shelf, rest, options.discard)
    return made
  })
  const take: Effect.Effect<A | undefined, E> = Effect.suspend(() => {
    const taken = shelf.ready.shift()
    if (taken !== undefined) return Effect.succeed(taken)
    // One may wait for what is under way; the others make their own beside it.
    return shelf.isMaking && shelf.wake === undefined ? Effect.andThen(nextPut(shelf), take) : makeNow
  })
  return {
    take,
    takeReady: () => shelf.ready.shift(),
    left: () => shelf.ready.length,
    refill: refillBehind(shelf, options),
    close: () => {
      shelf.isOpen = false
      return shelf.ready.splice(0)
    }
  }
}
