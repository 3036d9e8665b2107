/**
 * What one runtime remembers of creations whose answers were lost: that their acquisitions are over, and since when their
 * providers have not listed what they were to make. There are never more of them than intents. Source: BX-01, BX-03.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { EnvironmentLeaseId } from "../Identity.ts"

export class LostCreations extends Context.Service<
  LostCreations,
  {
    /** This process's acquisition is over, and nobody knows what became of the creation. */
    readonly note: (intent: EnvironmentLeaseId) => Effect.Effect<void>
    readonly isNoted: (intent: EnvironmentLeaseId) => Effect.Effect<boolean>
    /** The provider does not list it; answers for how long it has not, the first observation being none. */
    readonly observeAbsence: (intent: EnvironmentLeaseId) => Effect.Effect<number>
    /** It is settled, or was seen after all. */
    readonly forget: (intent: EnvironmentLeaseId) => Effect.Effect<void>
  }
>()("holdfast/domain/runLeases/LostCreations") {
  static readonly layer: Layer.Layer<LostCreations> = Layer.sync(LostCreations, () => {
    const noted = new Set<EnvironmentLeaseId>()
    const absentSinceNanos = new Map<EnvironmentLeaseId, bigint>()
    return {
      note: (intent) => Effect.sync(() => void noted.add(intent)),
      isNoted: (intent) => Effect.sync(() => noted.has(intent)),
      observeAbsence: (intent) =>
        Effect.map(Clock.monotonicTimeNanos, (now) => {
          const since = absentSinceNanos.get(intent) ?? now
          absentSinceNanos.set(intent, since)
          return Number((now - since) / 1_000_000n)
        }),
      forget: (intent) =>
        Effect.sync(() => {
          noted.delete(intent)
          absentSinceNanos.delete(intent)
        })
    }
  })
}
