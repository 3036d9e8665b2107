/**
 * The operations that this process carries out now: at most `operationsAtOnceMax`, each in a fiber of the service's
 * scope. When the scope closes they are interrupted and their claims given back, so that the next daemon need not
 * find out that this one is gone. Claiming is left to the dispatcher.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { operationsAtOnceMax } from "../Bounds.ts"
import type { RuntimeLog } from "../history/RuntimeLog.ts"
import type { ProjectId } from "../Identity.ts"
import type { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { releaseClaim } from "./claims.ts"
import { executeClaimed } from "./execution.ts"
import type { Operation } from "./Operation.ts"
import type { OperationEvents } from "./OperationEvents.ts"
import type { OperationRows, OperationStore } from "./OperationStore.ts"
import type { OperationPlans } from "./plan.ts"

type Needs = OperationPlans | OperationStore | OperationRows | OperationEvents | RuntimeLog | RuntimeStore

/** A claim that cannot be given back stays with its dead holder, and the recovery of the next daemon takes it. */
const giveBack = (operation: Operation) =>
  releaseClaim(operation).pipe(
    Effect.catch((failure) =>
      Effect.logWarning(`operation ${operation.id} was not given back: ${failure.message}`)
    )
  )

export class Executions extends Context.Service<
  Executions,
  {
    /** Waits for a free place, then carries the operation out in the background. */
    readonly take: (operation: Operation) => Effect.Effect<void>
    /** Whether an operation of this Project is carried out here now. */
    readonly isBusy: (project: ProjectId) => boolean
  }
>()("holdfast/domain/operations/Executions") {
  static readonly layer: Layer.Layer<Executions, never, Needs> = Layer.effect(
    Executions,
    Effect.gen(function* () {
      const context = yield* Effect.context<Needs>()
      const scope = yield* Effect.scope
      const places = yield* Semaphore.make(operationsAtOnceMax)
      const running = new Map<ProjectId, Operation>()
      const carryOut = (operation: Operation) =>
        executeClaimed(operation).pipe(
          Effect.onInterrupt(() => giveBack(operation)),
          Effect.ensuring(
            Effect.andThen(
              Effect.sync(() => running.delete(operation.project)),
              places.release(1)
            )
          ),
          Effect.provideContext(context)
        )
      return {
        take: Effect.fnUntraced(function* (operation) {
          yield* places.take(1)
          running.set(operation.project, operation)
          yield* Effect.forkIn(carryOut(operation), scope)
        }, Effect.uninterruptible),
        isBusy: (project) => running.has(project)
      }
    })
  )
}
