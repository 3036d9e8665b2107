/** Both clocks of the host in the hands of a test: it lets time pass, or sets the wall clock as somebody would. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { clockPlausibleMillisMin } from "../../../src/domain/Bounds.ts"

export const startMillis = clockPlausibleMillisMin + 1_000_000_000

/** Waits are the real clock's; only what is read is steered. */
export const makeSteeredClocks = (wallMillis: number = startMillis) =>
  Effect.map(Clock.Clock, (real) => {
    let wall = wallMillis
    let monotonicNanos = 0n
    const clock: Clock.Clock = {
      currentTimeMillisUnsafe: () => wall,
      currentTimeMillis: Effect.sync(() => wall),
      currentTimeNanosUnsafe: () => BigInt(wall) * 1_000_000n,
      currentTimeNanos: Effect.sync(() => BigInt(wall) * 1_000_000n),
      monotonicTimeNanosUnsafe: () => monotonicNanos,
      monotonicTimeNanos: Effect.sync(() => monotonicNanos),
      sleep: (duration) => real.sleep(duration)
    }
    return {
      provide: Effect.provideService(Clock.Clock, clock),
      pass: (millis: number): void => {
        wall += millis
        monotonicNanos += BigInt(millis) * 1_000_000n
      },
      set: (millis: number): void => void (wall = millis)
    }
  })
