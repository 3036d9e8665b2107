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
import type { OperationId, ProjectId } from "../Identity.ts"
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
    /** Waits for a free place and answers how many there are: for the dispatcher, who alone fills them. */
    readonly room: Effect.Effect<number>
    /** Waits for a free place, then carries the operation out in the background. It is held here from the call on. */
    readonly take: (operation: Operation) => Effect.Effect<void>
    /**
     * Gives back those of this process's claims that nobody here holds: the answer to their claim was lost on the
     * way. Of the same operation a later claim stays untouched. Source: SP-OPS-02, BX-04.
     */
    readonly giveBackUnheld: (own: ReadonlyArray<Operation>) => Effect.Effect<void>
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
      const held = new Map<OperationId, Operation>()
      const carryOut = (operation: Operation) =>
        executeClaimed(operation).pipe(
          Effect.onInterrupt(() => giveBack(operation)),
          Effect.ensuring(
            Effect.andThen(
              Effect.sync(() => held.delete(operation.id)),
              places.release(1)
            )
          ),
          Effect.provideContext(context)
        )
      return {
        room: Effect.map(places.withPermits(1)(Effect.void), () =>
          Math.max(1, operationsAtOnceMax - held.size)
        ),
        take: Effect.fnUntraced(function* (operation) {
          held.set(operation.id, operation)
          yield* places.take(1)
          yield* Effect.forkIn(carryOut(operation), scope)
        }, Effect.uninterruptible),
        giveBackUnheld: (own) =>
          Effect.forEach(
            own.filter(({ id }) => !held.has(id)),
            giveBack,
            { discard: true }
          ).pipe(Effect.provideContext(context)),
        isBusy: (project) => [...held.values()].some((operation) => operation.project === project)
      }
    })
  )
}
