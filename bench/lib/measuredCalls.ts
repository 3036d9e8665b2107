/**
 * The calls of the registry's adapter with a meter in between: flushes are counted, what blocks the event loop is timed,
 * and a flush can be made slower by a fixed time, as a slow disk would.
 */
import * as Files from "node:fs"
import type { FileCalls } from "../../src/infra/filesystem/durable.ts"
import { percentile } from "./statistics.ts"

export interface Meter {
  readonly calls: FileCalls
  /** Flushes that have ended, of files and of directories. */
  readonly flushes: () => number
  /** Begins to count and to time anew; from now on every flush takes so much more. */
  readonly begin: (flushDelayMillis?: number) => void
  /** Milliseconds that the call at this fraction of all synchronous calls has held the event loop. */
  readonly blockedMillis: (fraction: number) => number
}

type Done = (error: NodeJS.ErrnoException | null) => void

/** Synchronous calls that a write makes; the others are made by an open, before anybody is served. */
const timedNames = ["fstatSync", "closeSync"] as const

export const measuredCalls = (): Meter => {
  let delayMillis = 0
  let ended = 0
  let blocked: Array<number> = []
  const flush = (descriptor: number, done: Done): void =>
    Files.fsync(descriptor, (error) => {
      ended += 1
      done(error)
    })
  const timed = (name: (typeof timedNames)[number]) => (descriptor: number) => {
    const begun = performance.now()
    const answer = Files[name](descriptor)
    blocked.push(performance.now() - begun)
    return answer
  }
  const changed = {
    fsync: (descriptor: number, done: Done): void =>
      delayMillis === 0
        ? flush(descriptor, done)
        : void setTimeout(() => flush(descriptor, done), delayMillis),
    ...Object.fromEntries(timedNames.map((name) => [name, timed(name)]))
  }
  return {
    calls: { ...Files, ...changed },
    flushes: () => ended,
    begin: (flushDelayMillis = 0) => {
      delayMillis = flushDelayMillis
      ended = 0
      blocked = []
    },
    blockedMillis: (fraction) => percentile(blocked, fraction)
  }
}
