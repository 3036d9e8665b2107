/**
 * The sweep of leases whose holder is dead: inventory first, then the deletion of exactly the process that was seen.
 * A successor that appeared in between is left alone. Who is dead is said by the machine, never by a missed heartbeat.
 */
import * as Effect from "effect/Effect"
import { type NodeId, parseProcessIdentity } from "../Identity.ts"
import { Processes } from "../Processes.ts"
import { isExpired, type ObservedLease } from "./Lease.ts"
import { LeaseStore } from "./LeaseStore.ts"

/**
 * Deletes the expired leases of an inventory whose holder is dead; answers their ids. The inventory may be old: the
 * deletion is conditional on the holder that it shows. Source: SP-LEASE-03, SP figures.
 */
export const sweepInventory = Effect.fn("leases.sweepInventory")(function* (
  inventory: ReadonlyArray<ObservedLease>
) {
  const store = yield* LeaseStore
  const processes = yield* Processes
  const expired = inventory.filter(isExpired)
  const holders = [...new Set(expired.map((lease) => lease.process))]
  const dead = yield* Effect.filter(holders, (holder) =>
    Effect.map(processes.liveness(parseProcessIdentity(holder)), (liveness) => liveness === "dead")
  )
  const stale = expired.filter((lease) => dead.includes(lease.process))
  return stale.length === 0 ? [] : yield* store.deleteObserved(stale)
})

/** One sweep of a node's leases; answers what it removed. Run by the daemon beside its reconciler. */
export const sweepLeases = Effect.fn("leases.sweepLeases")(function* (node: NodeId) {
  const store = yield* LeaseStore
  const swept = yield* sweepInventory(yield* store.inventory(node))
  const ended = yield* store.removeEnded
  return { swept: swept.length, ended }
})
