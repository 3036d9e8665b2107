/**
 * Drives one operation in as many loops as there are workers, each beginning the next call when the last has ended.
 * There is a loop for Effects and one for promises, with the same bookkeeping, so that neither kind of contender
 * pays for the other's way of waiting.
 */
import * as Effect from "effect/Effect"
import type { Figures, Load } from "./definition.ts"
import { percentile } from "./statistics.ts"

/** Counts what is done, and times it while the warm-up is over and the end has not come. */
class Tally {
  stopped = false
  /** Every operation that ended, the warm-up's included: what the check has to find. */
  all = 0
  private counting = false
  private readonly latencies: Array<number> = []
  private begunAtMillis = 0
  private endedAtMillis = 0
  private cpuBegun = process.cpuUsage()
  private cpuMicros = 0

  record(latencyMillis: number): void {
    this.all += 1
    if (this.counting) this.latencies.push(latencyMillis)
  }

  begin(): void {
    this.begunAtMillis = performance.now()
    this.cpuBegun = process.cpuUsage()
    this.counting = true
  }

  end(): void {
    this.endedAtMillis = performance.now()
    const cpu = process.cpuUsage(this.cpuBegun)
    this.cpuMicros = cpu.user + cpu.system
    this.counting = false
    this.stopped = true
  }

  figures(): Figures {
    const seconds = (this.endedAtMillis - this.begunAtMillis) / 1000
    const operations = this.latencies.length
    return {
      operations,
      operationsAll: this.all,
      perSecond: operations / seconds,
      p50Millis: percentile(this.latencies, 0.5),
      p99Millis: percentile(this.latencies, 0.99),
      clientCpuMicros: this.cpuMicros / operations
    }
  }
}

const timed = (tally: Tally, load: Load): Effect.Effect<void> =>
  Effect.gen(function* () {
    yield* Effect.sleep(load.warmUpSeconds * 1000)
    tally.begin()
    yield* Effect.sleep(load.seconds * 1000)
    tally.end()
  })

/** Ends with the first failure of an operation, or when the time is over and the last calls have ended. */
export const loopEffects = <E, R>(
  load: Load,
  operation: (worker: number, call: number) => Effect.Effect<unknown, E, R>
): Effect.Effect<Figures, E, R> =>
  Effect.gen(function* () {
    const tally = new Tally()
    const worker = (index: number) =>
      Effect.gen(function* () {
        for (let call = 0; !tally.stopped; call++) {
          const begun = performance.now()
          yield* operation(index, call)
          tally.record(performance.now() - begun)
        }
      })
    const workers = Array.from({ length: load.workers }, (_, index) => worker(index))
    yield* Effect.all([timed(tally, load), ...workers], { concurrency: "unbounded", discard: true })
    return tally.figures()
  })

/** As `loopEffects`, for operations that answer a promise. */
export const loopPromises = (
  load: Load,
  operation: (worker: number, call: number) => Promise<unknown>
): Effect.Effect<Figures, unknown> =>
  Effect.gen(function* () {
    const tally = new Tally()
    const worker = async (index: number): Promise<void> => {
      for (let call = 0; !tally.stopped; call++) {
        const begun = performance.now()
        await operation(index, call)
        tally.record(performance.now() - begun)
      }
    }
    const workers = Effect.tryPromise({
      try: () => Promise.all(Array.from({ length: load.workers }, (_, index) => worker(index))),
      catch: (failure) => failure
    })
    yield* Effect.all([timed(tally, load), workers], { concurrency: "unbounded", discard: true })
    return tally.figures()
  })

/** Opens every connection of a pool before time counts: as many calls at once as there are workers, each held a while. */
export const openConnections = <E, R>(
  load: Load,
  hold: (sql: string) => Effect.Effect<unknown, E, R>
): Effect.Effect<void, E, R> =>
  Effect.all(
    Array.from({ length: load.workers }, () => hold("select pg_sleep(0.05)")),
    { concurrency: "unbounded", discard: true }
  )
