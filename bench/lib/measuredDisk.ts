/**
 * The registry's disk with a meter in between: flushes are counted when their steps are answered, the handing over is
 * timed, since nothing else of a write is done on the event loop, and flushes can be made slower by a fixed time, as a
 * slow disk's are.
 */
import type { CarryOut, Disk, DiskStep } from "../../src/infra/filesystem/diskSteps.ts"
import { nodeDisk } from "../../src/infra/filesystem/diskThreads.ts"
import { percentile } from "./statistics.ts"

export interface Meter {
  readonly disk: Disk
  /** Flushes that have ended, of files and of directories. */
  readonly flushes: () => number
  /** Begins to count and to time anew; from now on every flush takes so much more. */
  readonly begin: (flushDelayMillis?: number) => void
  /** Milliseconds that the handing over at this fraction of all has held the event loop. */
  readonly blockedMillis: (fraction: number) => number
}

const flushesOf = (steps: ReadonlyArray<DiskStep>): number =>
  steps.filter(({ step }) => step === "create" || step === "sync").length

export const measuredDisk = (): Meter => {
  let delayMillis = 0
  let ended = 0
  let blocked: Array<number> = []
  const hand: CarryOut = (steps, done) => {
    const begun = performance.now()
    nodeDisk.carryOut(steps, (failed) => {
      ended += flushesOf(failed === null ? steps : steps.slice(0, failed.at))
      done(failed)
    })
    blocked.push(performance.now() - begun)
  }
  const carryOut: CarryOut = (steps, done) => {
    const millis = delayMillis * flushesOf(steps)
    if (millis === 0) hand(steps, done)
    else setTimeout(() => hand(steps, done), millis)
  }
  return {
    disk: { ...nodeDisk, carryOut },
    flushes: () => ended,
    begin: (flushDelayMillis = 0) => {
      delayMillis = flushDelayMillis
      ended = 0
      blocked = []
    },
    blockedMillis: (fraction) => percentile(blocked, fraction)
  }
}
