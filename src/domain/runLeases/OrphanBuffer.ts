/**
 * Orphans that one runtime remembers beside the spool, because their rows could not be written. One stays until its row is
 * there, also while a flush works on it; as long as this process alone knows of it the process is not idle.
 * Source: RL-SPOOL-01, RL-SPOOL-02, RL-SPOOL-05, U14.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { orphanBufferMax } from "../Bounds.ts"
import type { EnvironmentLeaseId } from "../Identity.ts"
import { IdleWork } from "./IdleWork.ts"
import type { OrphanRecord } from "./OrphanSpool.ts"

export class OrphanBuffer extends Context.Service<
  OrphanBuffer,
  {
    /** Keeps it, and counts it as unfinished work unless it is durable elsewhere; false when the buffer is full. */
    readonly hold: (record: OrphanRecord, isDurable: boolean) => Effect.Effect<boolean>
    readonly held: Effect.Effect<ReadonlyArray<OrphanRecord>>
    /** Its row is there. */
    readonly letGo: (record: EnvironmentLeaseId) => Effect.Effect<void>
    /** One flush at a time, so that nothing is recovered or counted twice. */
    readonly oneAtATime: <A, E, R>(flush: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>()("holdfast/domain/runLeases/OrphanBuffer") {
  static readonly layer: Layer.Layer<OrphanBuffer, never, IdleWork> = Layer.effect(
    OrphanBuffer,
    Effect.map(IdleWork, (idle) => {
      const orphans = new Map<EnvironmentLeaseId, { record: OrphanRecord; isCounted: boolean }>()
      const flushing = Semaphore.makeUnsafe(1)
      return {
        hold: (record, isDurable) =>
          Effect.suspend(() => {
            if (orphans.size >= orphanBufferMax) return Effect.succeed(false)
            orphans.set(record.id, { record, isCounted: !isDurable })
            return Effect.as(isDurable ? Effect.void : idle.begin, true)
          }),
        held: Effect.sync(() => [...orphans.values()].map(({ record }) => record)),
        letGo: (id) =>
          Effect.suspend(() => {
            const orphan = orphans.get(id)
            orphans.delete(id)
            return orphan?.isCounted === true ? idle.end : Effect.void
          }),
        oneAtATime: flushing.withPermits(1)
      }
    })
  )
}
