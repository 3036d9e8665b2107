/**
 * Whether the host's clock may end a life. A machine may start in 1970, and a clock may be set while it runs; either
 * would take every sandbox for expired, or for one that never will be. So a clock that cannot be right ends nothing,
 * one that has jumped is believed only when it has stayed for a while, and a life whose end was set by a wrong clock is
 * measured by the time for which this process has seen it. Pure. Source: FC-23, RG-DEL-09.
 */
import {
  clockJumpMillisMax,
  clockPlausibleMillisMin,
  clockSettleMillis,
  sandboxLifeSecondsMax,
  sandboxLifeSecondsMin
} from "../Bounds.ts"
import type { SandboxRecord } from "./Record.ts"

/** Both clocks at one moment. */
export interface ClockReading {
  readonly wallMillis: number
  readonly monotonicMillis: number
}

/** What is thought of the host's clock since the last reading. */
export interface ClockView {
  readonly last: ClockReading
  /** Monotonic time from which on it is believed; before a first plausible reading there is none. */
  readonly trustedFromMillis: number | null
  /** Why it was not believed when that time was set. */
  readonly reason: string
  /** Why it is not believed now, one sentence; null: it is. */
  readonly doubt: string | null
}

const isPlausible = ({ wallMillis }: ClockReading): boolean => wallMillis >= clockPlausibleMillisMin

/** How far the wall clock went beyond the time that has passed. */
const jumpMillis = (last: ClockReading, now: ClockReading): number =>
  now.wallMillis - last.wallMillis - (now.monotonicMillis - last.monotonicMillis)

const waitWords = `and is believed when it has stayed for ${clockSettleMillis / 60_000} minutes`
const implausible = "the host's clock shows a time before this release was made"
const jumped = `the host's clock has jumped, ${waitWords}`
const farAhead = `the host's clock is more than a year ahead of the newest sandbox, ${waitWords}`

/** The view after a reading from which on the clock has to stay, when there is a reason to wait. */
const waiting = (now: ClockReading, reason: string | null): ClockView => ({
  last: now,
  trustedFromMillis: now.monotonicMillis + (reason === null ? 0 : clockSettleMillis),
  reason: reason ?? jumped,
  doubt: reason
})

/** Whether a first reading is later than any downtime of a node that has this newest sandbox would explain. */
const isFarAhead = (now: ClockReading, newestMillis: number | null): boolean =>
  newestMillis !== null &&
  newestMillis >= clockPlausibleMillisMin &&
  now.wallMillis - newestMillis > sandboxLifeSecondsMax * 1_000

/**
 * The view after one more reading. The first plausible clock is believed, unless it is far ahead of everything that
 * was recorded by an earlier one: `newestMillis` is when the newest sandbox was created, if there is any.
 */
export const observeClock = (
  view: ClockView | null,
  now: ClockReading,
  newestMillis: number | null = null
): ClockView => {
  if (!isPlausible(now))
    return { last: now, trustedFromMillis: null, reason: implausible, doubt: implausible }
  if (view === null || view.trustedFromMillis === null) {
    return waiting(now, isFarAhead(now, newestMillis) ? farAhead : null)
  }
  if (Math.abs(jumpMillis(view.last, now)) > clockJumpMillisMax) return waiting(now, jumped)
  const doubt = view.trustedFromMillis > now.monotonicMillis ? view.reason : null
  return { ...view, last: now, doubt }
}

/** Whether a right clock cannot have set this end. */
const isForeignEnd = (expiresAtMillis: number, nowMillis: number): boolean =>
  expiresAtMillis < clockPlausibleMillisMin || expiresAtMillis > nowMillis + sandboxLifeSecondsMax * 1_000

/** The life that was asked for, within what may be asked for. */
const lifeMillisOf = ({ createdAtMillis, expiresAtMillis }: SandboxRecord): number =>
  Math.min(
    Math.max(expiresAtMillis - createdAtMillis, sandboxLifeSecondsMin * 1_000),
    sandboxLifeSecondsMax * 1_000
  )

/**
 * Whether the sandbox's life is over, by a clock that is believed. `seenForMillis` is how long this process has known
 * the record.
 */
export const isLifeOver = (record: SandboxRecord, nowMillis: number, seenForMillis: number): boolean =>
  isForeignEnd(record.expiresAtMillis, nowMillis)
    ? seenForMillis >= lifeMillisOf(record)
    : record.expiresAtMillis <= nowMillis
