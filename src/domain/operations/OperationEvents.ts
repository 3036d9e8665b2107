/**
 * Signals of one process: progress for those who watch, and the wake-up of the dispatcher. Both go out after the
 * durable write has committed and carry no truth: who missed one reads the rows. A watcher that is too slow loses the
 * oldest events, never the writer its pace. Source: SP-TX-09.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PubSub from "effect/PubSub"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import { operationEventsBufferedMax } from "../Bounds.ts"
import type { OperationId, ProjectId } from "../Identity.ts"
import type { Operation, OperationAction, OperationState } from "./Operation.ts"

/** How far an operation is. No recipe, no parameter, no account. */
export interface OperationProgress {
  readonly project: ProjectId
  readonly operation: OperationId
  readonly action: OperationAction
  readonly state: OperationState
  readonly step: string | null
  readonly fraction: number
  readonly message: string | null
  readonly errorCode: string | null
}

/** What may leave the process of an operation's row. */
export const progressOf = (operation: Operation): OperationProgress => ({
  project: operation.project,
  operation: operation.id,
  action: operation.action,
  state: operation.state,
  step: operation.step,
  fraction: operation.fraction,
  message: operation.message,
  errorCode: operation.errorCode
})

export class OperationEvents extends Context.Service<
  OperationEvents,
  {
    readonly publish: (progress: OperationProgress) => Effect.Effect<void>
    /** The same for several, in their order: so many publications one by one cost more than what they tell. */
    readonly publishAll: (progress: ReadonlyArray<OperationProgress>) => Effect.Effect<void>
    /** Everything published from now on, until the scope ends. The oldest is dropped beyond the bound. */
    readonly subscribe: Effect.Effect<PubSub.Subscription<OperationProgress>, never, Scope.Scope>
    /** There may be work. Signals that nobody has taken yet are one. */
    readonly wake: Effect.Effect<void>
    /** Waits for a signal given since the last one was taken, and takes it. For one dispatcher. */
    readonly awaitWake: Effect.Effect<void>
  }
>()("holdfast/domain/operations/OperationEvents") {
  static readonly layer: Layer.Layer<OperationEvents> = Layer.effect(
    OperationEvents,
    Effect.gen(function* () {
      const progress = yield* PubSub.sliding<OperationProgress>(operationEventsBufferedMax)
      const signal = yield* Queue.sliding<void>(1)
      return {
        publish: (event) => Effect.asVoid(PubSub.publish(progress, event)),
        publishAll: (all) => Effect.asVoid(PubSub.publishAll(progress, all)),
        subscribe: PubSub.subscribe(progress),
        wake: Effect.asVoid(Queue.offer(signal, undefined)),
        awaitWake: Queue.take(signal)
      }
    })
  )
}
