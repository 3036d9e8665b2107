/** What the tests of repository claims share: how one is asked for, who holds what, and clocks that are off. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { Generation } from "../../../src/domain/Identity.ts"
import { claimRepository } from "../../../src/domain/leases/repository.ts"
import { RepositoryName } from "../../../src/domain/leases/RepositoryClaim.ts"
import { type SeededRuntime, sql } from "./fixture.ts"

/** Claims a repository of the runtime's Project; does not wait unless told to. */
export const claim = ({ project, sandbox }: SeededRuntime, name = "app", waitMillis = 0) =>
  claimRepository({
    project,
    sandbox,
    generation: Generation.make(1),
    repository: RepositoryName.make(name),
    waitMillis
  })

/** Every claim with its holder. */
export const holders = Effect.map(
  sql("select repository, process from repository_claims order by repository"),
  (rows) => rows.map((row) => [String(row["repository"]), String(row["process"])])
)

/** A clock whose sleeps are over at once, and whose monotonic time goes on by them. The wall clock is off by a distance. */
export const sleepless = (wallOffMillis = 0) =>
  Effect.map(Clock.Clock, (real) => {
    let sleptNanos = 0n
    const nanos = () => sleptNanos
    const millis = () => real.currentTimeMillisUnsafe() + wallOffMillis
    const clock: Clock.Clock = {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: () => BigInt(millis()) * 1_000_000n,
      currentTimeNanos: Effect.sync(() => BigInt(millis()) * 1_000_000n),
      monotonicTimeNanosUnsafe: nanos,
      monotonicTimeNanos: Effect.sync(nanos),
      sleep: (duration) =>
        Effect.sync(() => {
          sleptNanos += BigInt(Math.round(Duration.toMillis(duration) * 1e6))
        })
    }
    return { provide: Effect.provideService(Clock.Clock, clock), sleptMillis: () => Number(sleptNanos) / 1e6 }
  })
