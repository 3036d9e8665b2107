/**
 * The run parents under which commands were executed, by lease: in memory of one runtime, the latest one of each lease,
 * so that what is done about a lease later stands in the same trace. Source: RL-TRACE-01, RL-TRACE-02, U19.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { traceParentsKeptMax } from "../Bounds.ts"
import type { EnvironmentLeaseId } from "../Identity.ts"
import { ActiveStepContext, type ParentContext, withRunParent } from "./RunParent.ts"

export class TraceParents extends Context.Service<
  TraceParents,
  {
    /** Notes this fiber's run parent for the lease, if it has one. The oldest note gives way to one too many. */
    readonly remember: (lease: EnvironmentLeaseId) => Effect.Effect<void>
    /** Runs the effect under the lease's parent; as it is where nothing was executed on the lease. */
    readonly under: (
      lease: EnvironmentLeaseId
    ) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    /** The lease is over. */
    readonly forget: (lease: EnvironmentLeaseId) => Effect.Effect<void>
  }
>()("holdfast/domain/runLeases/TraceParents") {
  static readonly layer: Layer.Layer<TraceParents> = Layer.sync(TraceParents, () => {
    const parents = new Map<EnvironmentLeaseId, ParentContext>()
    const keep = (lease: EnvironmentLeaseId, parent: ParentContext) => {
      parents.delete(lease)
      parents.set(lease, parent)
      const oldest = parents.size > traceParentsKeptMax ? parents.keys().next().value : undefined
      if (oldest !== undefined) parents.delete(oldest)
    }
    return {
      remember: (lease) =>
        Effect.map(ActiveStepContext, (active) => {
          if (active !== null) keep(lease, active.parentContext)
        }),
      under: (lease) => (effect) =>
        Effect.suspend(() => {
          const parent = parents.get(lease)
          return parent === undefined ? effect : withRunParent(parent)(effect)
        }),
      forget: (lease) => Effect.sync(() => void parents.delete(lease))
    }
  })
}
