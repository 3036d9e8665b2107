/**
 * Taking a queued operation back: whoever may write to the Project need not wait for a worker that never appears. What
 * was claimed is at work and ends by itself; where its node is not seen any more, it is marked, for a claim that may be
 * alive is never stolen. A deletion's operation belongs to the deletion. Source: FC-06, FC-22, SP-OPS-02.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Caller } from "../host/Accounts.ts"
import { OperationId, type ProjectId } from "../Identity.ts"
import { OperationAction, OperationState } from "./Operation.ts"
import { OperationEvents, progressOf } from "./OperationEvents.ts"
import { OperationStore } from "./OperationStore.ts"

/** There is no such operation, or its receipt is gone. */
export class OperationNotFound extends Schema.TaggedError<OperationNotFound>()("OperationNotFound", {
  operation: OperationId
}) {
  readonly code = "operation_not_found"
  override get message(): string {
    return `operation ${this.operation} does not exist`
  }
}

/** It is not queued, or belongs to the deletion of its Project. Nothing was changed. */
export class OperationNotQueued extends Schema.TaggedError<OperationNotQueued>()("OperationNotQueued", {
  operation: OperationId,
  action: OperationAction,
  state: OperationState
}) {
  readonly code = "operation_not_queued"
  override get message(): string {
    return this.action === "delete"
      ? `operation ${this.operation} belongs to the deletion of its project: it cannot be taken back`
      : `operation ${this.operation} is ${this.state}: only a queued one can be taken back, or one whose node is not seen`
  }
}

/**
 * Supersedes a queued operation for the caller, whose id stays on the receipt, and answers it; one that is superseded
 * already is answered as it is. A claimed one of a node that was not seen for `nodeUnseenSeconds` is answered as it is
 * with the caller's mark: it is superseded once its claim comes back. Refused with `OperationNotFound`, `AccessRefused`, `OperationNotQueued`.
 */
export const supersedeOperation = Effect.fn("operations.supersede")(function* (
  caller: Caller,
  { id, project }: { readonly id: OperationId; readonly project: ProjectId }
) {
  const store = yield* OperationStore
  const taken = yield* store.takeBack(caller, { id, project })
  if (Option.isNone(taken)) return yield* new OperationNotFound({ operation: id })
  const { operation, outcome } = taken.value
  if (outcome === "refused") {
    return yield* new OperationNotQueued({ operation: id, action: operation.action, state: operation.state })
  }
  if (outcome === "superseded" || outcome === "asked")
    yield* (yield* OperationEvents).publish(progressOf(operation))
  return operation
})
