/**
 * Handlers of the group `operations`: admit, list, read, explain, take back, watch. How an operation is watched is told by operationWatch.ts.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { operationsListMax, runtimeLogRowsMax } from "../../domain/Bounds.ts"
import { RuntimeLog } from "../../domain/history/RuntimeLog.ts"
import type { Project } from "../../domain/host/ProjectStore.ts"
import type { OperationId } from "../../domain/Identity.ts"

import type { Operation } from "../../domain/operations/Operation.ts"
import type { OperationEvents } from "../../domain/operations/OperationEvents.ts"
import { OperationRows, OperationStore } from "../../domain/operations/OperationStore.ts"
import { OperationNotFound, supersedeOperation } from "../../domain/operations/supersede.ts"
import { requestOperation } from "../../domain/operations/snapshotRequests.ts"
import { waitingOf } from "../../domain/operations/waiting.ts"
import { explainOperation } from "../../domain/operations/why.ts"
import { answering, resolveProject } from "./access.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { watchOperation } from "./operationWatch.ts"
import { oneOperationView, operationViews } from "./operationViews.ts"
import { operationView } from "./present.ts"
import { answerOf } from "./refusals.ts"
import type { ServerStopping } from "./socketServer.ts"

const readOperation = Effect.fnUntraced(function* (id: OperationId) {
  const store = yield* OperationStore
  return yield* answering(store.byId(id))
})

/** The operation, if the caller may see its Project. Receipts of a deleted Project are for administrators only. */
const readable = Effect.fnUntraced(function* (id: OperationId) {
  const found = yield* readOperation(id)
  if (Option.isNone(found)) return yield* answerOf(new OperationNotFound({ operation: id }))
  const caller = yield* CurrentCaller
  if (!caller.administrator) yield* resolveProject(String(found.value.project))
  return found.value
})

/** One page of a Project's receipts, newest first. The cursor has to be one of the Project's. */
const pageOf = Effect.fnUntraced(function* (project: Project, before: OperationId | undefined) {
  const store = yield* OperationStore
  const cursor = before === undefined ? Option.none() : yield* readOperation(before)
  if (before !== undefined && Option.getOrUndefined(cursor)?.project !== project.id) {
    return yield* answerOf(new OperationNotFound({ operation: before }))
  }
  const below = Option.match(cursor, { onNone: () => ({}), onSome: ({ rowId }) => ({ beforeRow: rowId }) })
  return yield* answering(store.newestOfProject(project.id, { limit: operationsListMax, ...below }))
})

const why = Effect.fnUntraced(function* (operation: Operation) {
  const { id, project } = operation
  const rows = yield* OperationRows
  const log = yield* RuntimeLog
  const [sight] = yield* answering(rows.queueSights([id]))
  const lines = yield* answering(log.newest(project, runtimeLogRowsMax))
  const steps = explainOperation({
    operation,
    waiting: waitingOf(operation, sight),
    lines: lines.filter((line) => line.operation === id)
  })
  return { operation: id, steps }
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
          requestOperation(caller, {
            project: project.id,
            action: payload.action,
            requestKey: payload.requestId,
            expectedGeneration: payload.expectedGeneration ?? null,
            parameters: payload.parameters ?? {}
          })
        )
        return yield* oneOperationView(admitted.operation)
      }),
      list: Effect.fnUntraced(function* ({ params, query }) {
        const project = yield* resolveProject(params.project)
        return yield* operationViews(yield* pageOf(project, query.before))
      }),
      supersede: Effect.fnUntraced(function* ({ params }) {
        const caller = yield* CurrentCaller
        const { id, project } = yield* readable(params.id)
        return operationView(yield* answering(supersedeOperation(caller, { id, project })))
      }),
      why: ({ params }) => Effect.flatMap(readable(params.id), why),
      get: ({ params }) => Effect.flatMap(readable(params.id), oneOperationView),
      events: ({ params }) =>
        Effect.map(readable(params.id), (operation) =>
          Stream.provideContext(watchOperation(operation), context)
        )
    })
  })
)
