/**
 * Handlers of the group `snapshots`: what there is, one more, back to one, one less. Making and restoring are operations
 * on the runtime; removing one is not, and is done when it is answered.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type { OperationAction } from "../../domain/operations/Operation.ts"
import { removeSnapshot } from "../../domain/operations/snapshotRemoval.ts"
import { requestOperation } from "../../domain/operations/snapshotRequests.ts"
import { SnapshotRows } from "../../domain/runtimes/SnapshotRows.ts"
import { answering, resolveProject } from "./access.ts"
import { Api, CurrentCaller } from "./Api.ts"
import type { SnapshotRequest } from "./requestTerms.ts"
import { operationView, snapshotView } from "./present.ts"

const request = Effect.fnUntraced(function* (
  action: Extract<OperationAction, "snapshot" | "restore">,
  reference: string,
  { expectedGeneration, requestId, snapshot }: SnapshotRequest
) {
  const caller = yield* CurrentCaller
  const project = yield* resolveProject(reference)
  const admitted = yield* answering(
    requestOperation(caller, {
      project: project.id,
      action,
      requestKey: requestId,
      expectedGeneration: expectedGeneration ?? null,
      parameters: { snapshot }
    })
  )
  return operationView(admitted.operation)
})

export const layer = HttpApiBuilder.group(Api, "snapshots", (handlers) =>
  handlers.handleAll({
    list: Effect.fnUntraced(function* ({ params }) {
      const project = yield* resolveProject(params.project)
      const rows = yield* SnapshotRows
      return (yield* answering(rows.ofProject(project.id))).map(snapshotView)
    }),
    create: ({ params, payload }) => request("snapshot", params.project, payload),
    restore: ({ params, payload }) => request("restore", params.project, payload),
    remove: Effect.fnUntraced(function* ({ params, query }) {
      const caller = yield* CurrentCaller
      const project = yield* resolveProject(params.project)
      yield* answering(removeSnapshot(caller, { project: project.id, id: query.snapshot }))
    })
  })
)
