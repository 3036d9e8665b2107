/**
 * Starts machines again that are wanted running and are not: a guest that ended by itself, was lost to a reboot, or did
 * not come up. It only asks for an operation, as a user would; an explicit stop or delete takes the place of one that
 * has not begun. Source: SP figures (automatic recovery).
 */
import * as Effect from "effect/Effect"
import { reconcilePageRows, recoveryDelaysSeconds } from "../Bounds.ts"
import { type NodeId, RequestKey } from "../Identity.ts"
import { admitOperation, OperationAlerts } from "./admission.ts"
import { decideRecovery } from "./autoRecoveryDecision.ts"
import { AutoRecoveryStore, type WatchedRuntime } from "./AutoRecoveryStore.ts"

/** The same for everybody who sees the same runtime: asked twice, it is one operation. Source: SP-ADM-07. */
const requestKeyOf = ({ attempts, generation, refreshEpoch }: WatchedRuntime) =>
  RequestKey.make(`auto-recover:${generation}:${refreshEpoch}:${attempts}`)

/** A refusal means that somebody else got in first; the next pass looks again. */
const recover = Effect.fnUntraced(function* (runtime: WatchedRuntime) {
  const store = yield* AutoRecoveryStore
  const { attempts, generation, project } = runtime
  const asked = yield* admitOperation("system", {
    project,
    action: "recover",
    requestKey: requestKeyOf(runtime),
    expectedGeneration: generation,
    parameters: {}
  }).pipe(
    Effect.as("done" as const),
    Effect.catch((refusal) =>
      Effect.as(
        Effect.logWarning(`project ${project} was not recovered by itself: ${refusal.message}`),
        refusal._tag === "StorageFailure" ? ("failed" as const) : undefined
      )
    )
  )
  if (asked !== "done") return asked
  yield* store.count(runtime)
  if (attempts + 1 === recoveryDelaysSeconds.length) {
    yield* (yield* OperationAlerts).recoveriesFail({ project, attempts: attempts + 1 })
  }
  return asked
})

const carryOut = Effect.fnUntraced(function* (runtime: WatchedRuntime) {
  const store = yield* AutoRecoveryStore
  const decision = decideRecovery(runtime)
  switch (decision._tag) {
    case "Nothing":
      return
    case "NoteRunning":
      yield* store.noteRunning(runtime)
      return
    case "Reset":
      yield* store.reset(runtime)
      return
    case "Schedule":
      yield* store.schedule(runtime, decision.delaySeconds)
      return
    case "Recover":
      return yield* recover(runtime)
  }
})

/** One pass over the runtimes of the node; answers how many recoveries were due, and what became of them. */
export const recoverRuntimes = Effect.fn("runtimes.recover")(function* (node: NodeId) {
  const store = yield* AutoRecoveryStore
  const count = { attempted: 0, done: 0, failed: 0 }
  let after = 0
  for (;;) {
    const page = yield* store.watched({ node, after, limit: reconcilePageRows })
    for (const runtime of page) {
      const outcome = yield* carryOut(runtime)
      if (outcome === undefined) continue
      count.attempted += 1
      count[outcome] += 1
    }
    const last = page.at(-1)
    if (last === undefined || page.length < reconcilePageRows) return count
    after = last.project
  }
})
