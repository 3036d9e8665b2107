/**
 * The scoped loops of a daemon. Each reads everything, decides and records; none takes input, so a missed signal or a
 * failed pass costs only the time to the next one. All of them end with the scope.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import {
  deletionRetryMillis,
  historyPruneIntervalMillis,
  reconcileIntervalMillis,
  storageRetryMillisMax
} from "../domain/Bounds.ts"
import { pruneHistory } from "../domain/history/maintenance.ts"
import { continueDeletions } from "../domain/host/projectDeletion.ts"
import { heartbeatLoop } from "../domain/leases/heartbeat.ts"
import { sweepLeases } from "../domain/leases/sweep.ts"
import { dispatch } from "../domain/operations/claims.ts"
import { Executions } from "../domain/operations/Executions.ts"
import { OperationEvents } from "../domain/operations/OperationEvents.ts"
import { recoverClaims } from "../domain/operations/recovery.ts"
import { sweepSnapshots } from "../domain/operations/snapshotSweep.ts"
import { Processes } from "../domain/Processes.ts"
import { maintenanceLoop } from "../domain/registry/maintenance.ts"
import { type Reconciled, reconcileSandboxes } from "../domain/registry/reconciliation.ts"
import { Registry } from "../domain/registry/Registry.ts"
import { recoverRuntimes } from "../domain/operations/autoRecovery.ts"
import { presenceLoop } from "../domain/runtimes/nodePresence.ts"
import { reconcileRuntimes } from "../domain/runtimes/reconciliation.ts"
import { allDone, nodeSweeps, reportSweep, type SweepCount } from "../domain/SweepReports.ts"
import { sweepWorktrees } from "../domain/worktrees/sweep.ts"
import { samplingLoop } from "../domain/sampling/sampleLoop.ts"

const forked = <E, R>(loop: Effect.Effect<unknown, E, R>) => Layer.effectDiscard(Effect.forkScoped(loop))

/** Claims queued operations as they are signalled; a database that is away is asked again. */
const dispatcher = Effect.gen(function* () {
  const { current } = yield* Processes
  const executions = yield* Executions
  const events = yield* OperationEvents
  yield* Effect.andThen(events.wake, dispatch(current, executions)).pipe(
    Effect.tapError((failure) => Effect.logWarning(`the dispatcher waits: ${failure.message}`)),
    Effect.retry(Schedule.spaced(storageRetryMillisMax))
  )
})

const reconciledCount = (reconciled: ReadonlyArray<Reconciled>): SweepCount => {
  const attempted = reconciled.filter(({ verdict }) => verdict !== "busy").length
  const failed = reconciled.filter(({ verdict }) => verdict === "failed").length
  return { attempted, done: attempted - failed, failed }
}

const sandboxes = reportSweep(nodeSweeps.sandboxes, Effect.map(reconcileSandboxes, reconciledCount))

const recoverOwnAndDead = Effect.gen(function* () {
  const { own, stolen } = yield* recoverClaims()
  yield* (yield* Executions).giveBackUnheld(own)
  return allDone(own.length + stolen.length)
})

/**
 * The sweep: dead claimants' work, what the node's guests became, and whatever a lost signal left in the queue. What
 * builds upon the node's registry waits for a pass that could read it.
 */
export const sweep = Effect.gen(function* () {
  const { node } = yield* Registry
  const { isBusy } = yield* Executions
  yield* reportSweep("claims", recoverOwnAndDead)
  const isSeen = yield* sandboxes
  if (isSeen) yield* reportSweep("snapshots", sweepSnapshots(isBusy))
  if (isSeen && (yield* reportSweep("runtimes", Effect.map(reconcileRuntimes(isBusy), allDone)))) {
    yield* reportSweep("automatic recoveries", recoverRuntimes(node))
    yield* reportSweep(
      "leases",
      Effect.map(sweepLeases(node), ({ ended, swept }) => allDone(swept + ended))
    )
  }
  yield* (yield* OperationEvents).wake
})

const pruning = reportSweep("resource history", Effect.map(pruneHistory(), allDone)).pipe(
  Effect.repeat(Schedule.fixed(historyPruneIntervalMillis))
)

/** Worktrees that were left half made. A loop of its own: git may take its time in a guest. */
const worktrees = reportSweep("worktrees", sweepWorktrees()).pipe(
  Effect.repeat(Schedule.spaced(reconcileIntervalMillis))
)

/** Pending deletions of Projects. It waits after each pass, since one may last. Source: FC-09. */
export const deletions = reportSweep("deletions", continueDeletions()).pipe(
  Effect.repeat(Schedule.spaced(deletionRetryMillis))
)

/** The loops of a node that has nothing but its registry; `afterPass` follows every sweep that came to its end. */
export const layerNode = (afterPass: Effect.Effect<void>) => {
  const pass = Effect.flatMap(sandboxes, (isSeen) => (isSeen ? afterPass : Effect.void))
  return Layer.mergeAll(
    forked(Effect.repeat(pass, Schedule.fixed(reconcileIntervalMillis))),
    forked(maintenanceLoop)
  )
}

/** Everything that goes on in a daemon beside its requests. */
export const layer = (options: { readonly sampleIntervalMillis: number; readonly nodeName: string }) =>
  Layer.mergeAll(
    forked(Effect.repeat(sweep, Schedule.fixed(reconcileIntervalMillis))),
    forked(dispatcher),
    forked(heartbeatLoop),
    forked(Effect.flatMap(Registry, ({ node }) => presenceLoop({ id: node, name: options.nodeName }))),
    forked(maintenanceLoop),
    forked(Effect.flatMap(Registry, ({ node }) => samplingLoop(node, options.sampleIntervalMillis))),
    forked(worktrees),
    forked(pruning),
    forked(deletions)
  )
