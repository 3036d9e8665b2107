/**
 * Requests on snapshots that can be seen to come to nothing are refused before they are admitted. It is a courtesy: what
 * decides is the operation itself, under its locks.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { projectSnapshotsMax } from "../Bounds.ts"
import type { Caller } from "../host/Accounts.ts"
import type { SnapshotId } from "../Identity.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { type Snapshot, SnapshotRows } from "../runtimes/SnapshotRows.ts"
import { admitOperation } from "./admission.ts"
import type { OperationRequest } from "./Operation.ts"
import { OperationRefused } from "./OperationRefused.ts"
import { OperationRows } from "./OperationStore.ts"

/** Why a request on the snapshot would come to nothing, by the snapshots that there are; null where it may go on. */
export const refusalOf = (
  { action, project }: Pick<OperationRequest, "action" | "project">,
  id: SnapshotId,
  snapshots: ReadonlyArray<Pick<Snapshot, "id" | "state">>
): OperationRefused | null => {
  const refuse = (code: OperationRefused["code"], why: string) => new OperationRefused({ project, code, why })
  const found = snapshots.find((snapshot) => snapshot.id === id)
  if (action === "restore") {
    return found?.state === "ready"
      ? null
      : refuse("snapshot_not_found", `it has no snapshot ${id} to restore`)
  }
  if (action !== "snapshot") return null
  if (found !== undefined) {
    return refuse("snapshot_exists", `it has a snapshot ${id} already, or one that is going`)
  }
  return snapshots.length < projectSnapshotsMax
    ? null
    : refuse("snapshots_full", `it has ${projectSnapshotsMax} snapshots, as many as it may: delete one first`)
}

/** What is known of the key and of the Project's snapshots, in one read-only snapshot of the database. */
const look = Effect.fnUntraced(function* ({ project, requestKey }: OperationRequest) {
  const runtimes = yield* RuntimeStore
  const rows = yield* OperationRows
  const copies = yield* SnapshotRows
  return yield* runtimes.snapshot("operations.lookAtSnapshots", () =>
    Effect.gen(function* () {
      const receipt = yield* rows.byKey(project, requestKey)
      return { isAskedBefore: Option.isSome(receipt), snapshots: yield* copies.ofProject(project) }
    })
  )
})

/** Admits a request on a runtime as `admitOperation` does; a repeated one is not looked at twice. */
export const requestOperation = Effect.fn("operations.request")(function* (
  caller: Caller,
  request: OperationRequest
) {
  const id = request.parameters.snapshot
  if (id !== undefined) {
    const { isAskedBefore, snapshots } = yield* look(request)
    const refusal = isAskedBefore ? null : refusalOf(request, id, snapshots)
    if (refusal !== null) return yield* refusal
  }
  return yield* admitOperation(caller, request)
})
