/**
 * The node's own loop: every second it looks for sandboxes whose life is over and begins their deletion. A look waits
 * for nothing, so a slow deletion delays no other; a few are carried out at a time, and none twice. What fails keeps
 * its intent, and the sweep goes on with it; until it is gone it is told as failed. Source: RG-DEL-09, RG figures,
 * FC-05, FC-23.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Semaphore from "effect/Semaphore"
import { deletionsAtOnceMax, maintenanceIntervalMillis } from "../Bounds.ts"
import type { SandboxId } from "../Identity.ts"
import { type ClockView, isLifeOver, observeClock } from "./clockTrust.ts"
import { expireSandbox, type LifeJudge } from "./expiry.ts"
import { nodeSweeps, reportSweep, type SweepCount } from "../SweepReports.ts"
import type { SandboxRecord } from "./Record.ts"
import { Registry } from "./Registry.ts"

const readClocks = Effect.gen(function* () {
  const wallMillis = yield* Clock.currentTimeMillis
  return { wallMillis, monotonicMillis: Number((yield* Clock.monotonicTimeNanos) / 1_000_000n) }
})

/** Follows the host's clock; says once when it is not believed, and once when it is again. */
const makeClockWatch = (newestMillis: () => number | null) => {
  let view: ClockView | null = null
  return Effect.gen(function* () {
    const before = view?.doubt ?? null
    view = observeClock(view, yield* readClocks, newestMillis())
    const { doubt, last } = view
    if (doubt !== before) {
      yield* doubt === null
        ? Effect.logInfo("the host's clock is believed again: sandboxes expire")
        : Effect.logWarning(
            `no sandbox expires: ${doubt} (it reads ${last.wallMillis} ms since 1970): set the clock`
          )
    }
    return view
  })
}

/** One node's maintenance; deletions that a tick begins go on in the scope. */
export const makeMaintenance = Effect.gen(function* () {
  const registry = yield* Registry
  const scope = yield* Effect.scope
  let newestMillis: number | null = null
  const watchClock = makeClockWatch(() => newestMillis)
  const turns = Semaphore.makeUnsafe(deletionsAtOnceMax)
  const inFlight = new Set<SandboxId>()
  /** Expired ones whose deletion has failed and that are still there. */
  const overdue = new Set<SandboxId>()
  let expiredSinceLook = 0
  /** Monotonic time at which each record was first seen here. */
  let firstSeen: ReadonlyMap<SandboxId, number> = new Map()

  const judge: LifeJudge = Effect.map(watchClock, ({ doubt, last }) => {
    const seenFor = ({ id }: SandboxRecord): number =>
      last.monotonicMillis - (firstSeen.get(id) ?? last.monotonicMillis)
    return (record) => doubt === null && isLifeOver(record, last.wallMillis, seenFor(record))
  })

  const see = Effect.fnUntraced(function* (records: ReadonlyMap<SandboxId, SandboxRecord>) {
    const { monotonicMillis } = yield* readClocks
    firstSeen = new Map(Array.from(records.keys(), (id) => [id, firstSeen.get(id) ?? monotonicMillis]))
    newestMillis = null
    for (const { createdAtMillis } of records.values()) {
      newestMillis = Math.max(createdAtMillis, newestMillis ?? createdAtMillis)
    }
  })

  const expire = (sandbox: SandboxId) =>
    turns
      .withPermits(1)(expireSandbox(sandbox, judge))
      .pipe(
        Effect.tap((outcome) => {
          overdue.delete(sandbox)
          if (outcome !== "expired") return Effect.void
          expiredSinceLook += 1
          return Effect.logInfo(`${sandbox} has expired and was deleted`)
        }),
        Effect.catch(({ message }) => {
          overdue.add(sandbox)
          return Effect.logWarning(`${sandbox} has expired and is still there: ${message}`)
        }),
        Effect.ensuring(Effect.sync(() => inFlight.delete(sandbox)))
      )

  /** Begins the deletion of what has expired; answers how many it has begun. */
  const tick = Effect.gen(function* () {
    const records = yield* registry.inventory
    yield* see(records)
    for (const sandbox of overdue) if (!records.has(sandbox)) overdue.delete(sandbox)
    const isOver = yield* judge
    let begun = 0
    for (const [sandbox, record] of records) {
      if (inFlight.has(sandbox) || record.deletion !== null || !isOver(record)) continue
      inFlight.add(sandbox)
      yield* Effect.forkIn(expire(sandbox), scope)
      begun += 1
    }
    return begun
  })
  /** A tick, and what has become of the deletions by then: those that ended since the one before, and those that failed. */
  const pass = Effect.map(tick, (): SweepCount => {
    const [done, failed] = [expiredSinceLook, overdue.size]
    expiredSinceLook = 0
    return { attempted: done + failed, done, failed }
  })
  return { tick, pass }
})

/** Ticks while the scope is open, and reports each pass. Where the registry's storage has failed every pass fails. */
export const maintenanceLoop = Effect.flatMap(makeMaintenance, ({ pass }) =>
  Effect.repeat(reportSweep(nodeSweeps.expired, pass), Schedule.fixed(maintenanceIntervalMillis))
)
