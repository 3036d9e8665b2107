/** The machine's clock, which a test moves ahead for whoever is given it; sleeps take as long as they take. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

export const makeMovableClock = Effect.map(Clock.Clock, (real) => {
  let aheadMillis = 0
  const nanos = () => BigInt(aheadMillis) * 1_000_000n
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: () => real.currentTimeMillisUnsafe() + aheadMillis,
    currentTimeMillis: Effect.map(real.currentTimeMillis, (now) => now + aheadMillis),
    currentTimeNanosUnsafe: () => real.currentTimeNanosUnsafe() + nanos(),
    currentTimeNanos: Effect.map(real.currentTimeNanos, (now) => now + nanos()),
    monotonicTimeNanosUnsafe: () => real.monotonicTimeNanosUnsafe() + nanos(),
    monotonicTimeNanos: Effect.map(real.monotonicTimeNanos, (now) => now + nanos()),
    sleep: (duration) => real.sleep(duration)
  }
  return { clock, ahead: (millis: number) => Effect.sync(() => void (aheadMillis += millis)) }
})
