/**
 * The end of a snapshot: decided durably, with who and why, before anything of its copy goes; the row goes last. What a
 * crash leaves is finished by the sweep (snapshotSweep.ts). Source: SP-ADM-01, FC-22.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RuntimeLog } from "../history/RuntimeLog.ts"
import { type Caller, HostAccounts } from "../host/Accounts.ts"
import { HostProjects } from "../host/Projects.ts"
import type { ProjectId, SnapshotId } from "../Identity.ts"
import { Registry } from "../registry/Registry.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { type Snapshot, type SnapshotEnd, SnapshotRows } from "../runtimes/SnapshotRows.ts"
import { WorkspaceCopies } from "../runtimes/WorkspaceCopies.ts"
import { OperationInProgress } from "./AdmissionRefusals.ts"
import { OperationRefused } from "./OperationRefused.ts"
import { OperationRows } from "./OperationStore.ts"

/** Removes the copy of a snapshot that is going, then its row. Repeatable; only the node that has the copy may. */
export const finishRemoval = Effect.fnUntraced(function* (snapshot: Snapshot) {
  const rows = yield* SnapshotRows
  yield* (yield* WorkspaceCopies).discard(snapshot.path)
  return yield* rows.remove(snapshot.rowId)
})

/** Takes back a copy that came to nothing. */
export const removeCopy = Effect.fnUntraced(function* (snapshot: Snapshot, end: SnapshotEnd) {
  const rows = yield* SnapshotRows
  if (snapshot.state === "capturing") yield* rows.markRemoving(snapshot.rowId, "capturing", end)
  return yield* finishRemoval(snapshot)
})

/** How the end of a snapshot reads in the runtime's log. */
export const endLine = (snapshot: Pick<Snapshot, "id">, { by, reason }: SnapshotEnd): string =>
  `snapshot ${snapshot.id} is removed: ${reason} (${by})`

const whyRemoved = "it was asked for"

/** In one transaction, after the runtime's row is locked: nobody restores it now, and nobody will. */
const decide = Effect.fnUntraced(function* (caller: Caller, project: ProjectId, id: SnapshotId) {
  const runtimes = yield* RuntimeStore
  const rows = yield* SnapshotRows
  const operations = yield* OperationRows
  const projects = yield* HostProjects
  const accounts = yield* HostAccounts
  const log = yield* RuntimeLog
  return yield* runtimes.transaction("operations.removeSnapshot", (store) =>
    Effect.gen(function* () {
      yield* projects.requireActive(project)
      yield* accounts.requireAccess(caller, project, "write")
      yield* store.runtime(project)
      const snapshot = Option.getOrUndefined(yield* rows.byId(project, id))
      if (snapshot === undefined) {
        return yield* new OperationRefused({
          project,
          code: "snapshot_not_found",
          why: `it has no snapshot ${id}`
        })
      }
      const live = Option.getOrUndefined(yield* operations.live(project))
      if (live?.parameters.snapshot === id) {
        const { action, id: operation, state } = live
        return yield* new OperationInProgress({ project, operation, action, state })
      }
      const end: SnapshotEnd = { by: caller.account, reason: whyRemoved }
      if (yield* rows.markRemoving(snapshot.rowId, snapshot.state, end)) {
        yield* log.append(project, { operation: null, lines: [endLine(snapshot, end)] })
      }
      return snapshot
    })
  )
})

/**
 * Removes a snapshot of the Project. Refused with `snapshot_not_found`, with OperationInProgress while an operation
 * makes or restores it, and as every write of a Project is. From its decision on the snapshot cannot be restored; the copy
 * is gone when it answers, unless another node has it: then that node's sweep removes it.
 */
export const removeSnapshot = Effect.fn("operations.removeSnapshot")(function* (
  caller: Caller,
  { id, project }: { readonly project: ProjectId; readonly id: SnapshotId }
) {
  const snapshot = yield* decide(caller, project, id)
  const { node } = yield* Registry
  if (snapshot.recipe.node === node) yield* finishRemoval(snapshot)
})
