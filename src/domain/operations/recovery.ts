/**
 * After a crash: claims of dead processes go back to the queue, oldest first, with the step and the flags that their
 * holder left. Takes no input, so a missed signal costs only time. Source: SP-OPS-01, SP-OPS-02.
 */
import * as Effect from "effect/Effect"
import { recoveryPageRowsMax, recoveryPagesMax } from "../Bounds.ts"
import { parseProcessIdentity } from "../Identity.ts"
import { Processes } from "../Processes.ts"
import { decideClaim } from "./claimDecision.ts"
import type { Operation } from "./Operation.ts"
import { OperationEvents } from "./OperationEvents.ts"
import { OperationStore } from "./OperationStore.ts"

/** What a pass saw and did. `left` are claims of other processes that live, here or on another node. */
export interface RecoveredClaims {
  readonly stolen: ReadonlyArray<Operation>
  readonly left: number
  readonly own: ReadonlyArray<Operation>
}

/** One page of the walk; an inventory may be old, since each theft is conditional on the claim that it saw. */
export const recoverInventory = Effect.fnUntraced(function* (inventory: ReadonlyArray<Operation>) {
  const processes = yield* Processes
  const store = yield* OperationStore
  const stolen: Array<Operation> = []
  const own: Array<Operation> = []
  let left = 0
  for (const operation of inventory) {
    if (operation.claimedBy === null) continue
    const claimant = parseProcessIdentity(operation.claimedBy)
    const decision = decideClaim(processes.current, claimant, yield* processes.liveness(claimant))
    if (decision === "own") {
      own.push(operation)
    } else if (decision === "steal" && (yield* store.requeueIfClaimedBy(operation))) {
      stolen.push(operation)
    } else {
      left += 1
    }
  }
  return { stolen, left, own } satisfies RecoveredClaims
})

/** Reads every claim of what this node may carry out, oldest first, takes back those of dead processes, and wakes the dispatcher for them. */
export const recoverClaims = Effect.fn("operations.recoverClaims")(function* () {
  const store = yield* OperationStore
  const events = yield* OperationEvents
  const { current } = yield* Processes
  let total: RecoveredClaims = { stolen: [], left: 0, own: [] }
  let afterRow = 0
  for (let page = 0; page < recoveryPagesMax; page += 1) {
    const inventory = yield* store.claimed({ node: current.node, afterRow, limit: recoveryPageRowsMax })
    const done = yield* recoverInventory(inventory)
    total = {
      stolen: [...total.stolen, ...done.stolen],
      left: total.left + done.left,
      own: [...total.own, ...done.own]
    }
    const last = inventory.at(-1)
    if (last === undefined || inventory.length < recoveryPageRowsMax) break
    afterRow = last.rowId
  }
  if (total.stolen.length > 0) {
    yield* events.wake
  }
  return total
})
