/** Counter of duties that live in this process alone: while it is not zero the process must not be ended lightly. Source: RL-SPOOL-05. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export class IdleWork extends Context.Service<
  IdleWork,
  {
    readonly begin: Effect.Effect<void>
    readonly end: Effect.Effect<void>
    readonly snapshot: Effect.Effect<{ readonly active: number }>
  }
>()("holdfast/domain/runLeases/IdleWork") {
  static readonly layer: Layer.Layer<IdleWork> = Layer.sync(IdleWork, () => {
    let active = 0
    return {
      begin: Effect.sync(() => void (active += 1)),
      end: Effect.sync(() => void (active -= 1)),
      snapshot: Effect.sync(() => ({ active }))
    }
  })
}
