/**
 * Chance that a seed repeats, for tests that draw their cases: the same seed gives the same numbers on every machine.
 */

export interface SeededRandom {
  /** A whole number from 0 to below the limit. */
  readonly below: (limit: number) => number
  /** One of the things, which must not be none. */
  readonly pick: <A>(things: ReadonlyArray<A>) => A
  /** Whether something happens that happens so often in a hundred times. */
  readonly percent: (times: number) => boolean
}

/** The generator that is known as mulberry32. */
export const makeSeededRandom = (seed: number): SeededRandom => {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number): number => Math.floor(next() * limit)
  return {
    below,
    pick: (things) => things[below(things.length)]!,
    percent: (times) => below(100) < times
  }
}
