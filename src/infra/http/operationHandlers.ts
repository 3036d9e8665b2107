/**
 * Handlers of the group `operations`: admit, read, watch. How an operation is watched is told by operationWatch.ts.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { OperationId } from "../../domain/Identity.ts"
import { admitOperation } from "../../domain/operations/admission.ts"
import type { OperationEvents } from "../../domain/operations/OperationEvents.ts"
import { type OperationRows, OperationStore } from "../../domain/operations/OperationStore.ts"
import { answering, resolveProject } from "./access.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { NotFound } from "./ApiErrors.ts"
import { watchOperation } from "./operationWatch.ts"
import { oneOperationView } from "./operationViews.ts"
import type { ServerStopping } from "./socketServer.ts"

const readOperation = Effect.fnUntraced(function* (id: OperationId) {
  const store = yield* OperationStore
  return yield* answering(store.byId(id))
})

/** The operation, if the caller may see its Project. Receipts of a deleted Project are for administrators only. */
const readable = Effect.fnUntraced(function* (id: OperationId) {
  const found = yield* readOperation(id)
  if (Option.isNone(found)) {
    return yield* new NotFound({
      code: "operation_not_found",
      message: `operation ${id} does not exist`,
      details: { operation: id }
    })
  }
  const caller = yield* CurrentCaller
  if (!caller.administrator) yield* resolveProject(String(found.value.project))
  return found.value
})

export const layer = HttpApiBuilder.group(
  Api,
  "operations",
  Effect.fnUntraced(function* (handlers) {
    const context = yield* Effect.context<OperationStore | OperationRows | OperationEvents | ServerStopping>()
    return handlers.handleAll({
      request: Effect.fnUntraced(function* ({ params, payload }) {
        const caller = yield* CurrentCaller
        const project = yield* resolveProject(params.project)
        const admitted = yield* answering(
          admitOperation(caller, {
            project: project.id,
            action: payload.action,
            requestKey: payload.requestId,
            expectedGeneration: payload.expectedGeneration ?? null,
            parameters: payload.parameters ?? {}
          })
        )
        return yield* oneOperationView(admitted.operation)
      }),
      get: ({ params }) => Effect.flatMap(readable(params.id), oneOperationView),
      events: ({ params }) =>
        Effect.map(readable(params.id), (operation) =>
          Stream.provideContext(watchOperation(operation), context)
        )
    })
  })
)
