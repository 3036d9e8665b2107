/**
 * Finishes what dead captures and removals have left on this node: a guest that stands still for nobody goes on, a copy
 * to which nobody comes back goes, a removal that was decided is carried out. Takes no input and asks no caller.
 * Source: SP-OPS-03, FC-22.
 */
import * as Effect from "effect/Effect"
import { reconcilePageRows } from "../Bounds.ts"
import { RuntimeLog } from "../history/RuntimeLog.ts"
import type { ProjectId } from "../Identity.ts"
import { Registry } from "../registry/Registry.ts"
import { SnapshotRows, type UnfinishedSnapshot } from "../runtimes/SnapshotRows.ts"
import { letLeftBehindGoOn } from "./guestPause.ts"
import { endLine, finishRemoval } from "./snapshotRemoval.ts"

const forgotten = { by: "system", reason: "its capture came to nothing" }

/** Whether anything was done for it. */
const finish = Effect.fnUntraced(function* ({ isClaimed, isLive, snapshot }: UnfinishedSnapshot) {
  const rows = yield* SnapshotRows
  // A claim of a dead process is back in the queue by now; a living one lets its guest go on itself.
  const isResumed = isClaimed ? false : yield* letLeftBehindGoOn(snapshot)
  if (snapshot.state === "removing") return yield* finishRemoval(snapshot)
  if (snapshot.state === "ready" || isLive) return isResumed
  if (!(yield* rows.markAbandoned(snapshot.rowId, forgotten))) return isResumed
  const lines = [endLine(snapshot, forgotten)]
  yield* (yield* RuntimeLog).append(snapshot.project, { operation: snapshot.operation, lines })
  return yield* finishRemoval(snapshot)
})

/**
 * One pass; answers for how many snapshots something was done, and for how many it failed. One that fails does not keep
 * the others waiting.
 */
export const sweepSnapshots = Effect.fn("operations.sweepSnapshots")(function* (
  isBusy: (project: ProjectId) => boolean
) {
  const { node } = yield* Registry
  const rows = yield* SnapshotRows
  let done = 0
  let failed = 0
  let after = 0
  for (;;) {
    const page = yield* rows.unfinished({ node, after, limit: reconcilePageRows })
    for (const unfinished of page) {
      const { project, rowId } = unfinished.snapshot
      after = rowId
      if (isBusy(project)) continue
      const isDone = yield* Effect.catch(finish(unfinished), (failure) => {
        failed += 1
        const warning = `a snapshot of project ${project} is not finished: ${failure.message}`
        return Effect.as(Effect.logWarning(warning), false)
      })
      if (isDone) done += 1
    }
    if (page.length < reconcilePageRows) return { attempted: done + failed, done, failed }
  }
})
