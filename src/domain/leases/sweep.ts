/**
 * The sweep of leases and repository claims whose holder is dead: inventory first, then the deletion of exactly the
 * process that was seen. A successor that appeared in between is left alone. Who is dead is said by the machine, never
 * by a missed heartbeat; and the dead one's work in the guest has to be over, since it goes on without its daemon.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { executionLeaseSeconds, repositoryLeaseSeconds, sweptGuestsAtOnceMax } from "../Bounds.ts"
import { proveAbsence } from "../guests/absence.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { type LeaseId, type NodeId, parseProcessIdentity } from "../Identity.ts"
import { Processes } from "../Processes.ts"
import { HeldLeases } from "./HeldLeases.ts"
import { ExecutionEvidence, type GuestPlace, isExpired, type ObservedLease, provesEnded } from "./Lease.ts"
import { LeaseStore } from "./LeaseStore.ts"
import type { ObservedClaim } from "./RepositoryClaim.ts"
import { RepositoryClaims } from "./RepositoryClaims.ts"

/** What the sweep has to know of a row, whatever its kind. */
interface ObservedHolding extends GuestPlace {
  readonly id: LeaseId
  readonly process: string
  readonly heartbeatAgeMillis: number
}

/**
 * Whether nothing is left of what dead daemons ran in the guest: it is proved gone, or its executions are this daemon's.
 * Opening a guest that an earlier daemon launched ends what that one's executions have left, and a ping opens it. A
 * guest that is paused, uncertain or does not answer proves nothing. Source: SP-LEASE-06.
 */
const isWorkOver = Effect.fnUntraced(
  function* (place: GuestPlace) {
    const supervisor = yield* GuestSupervisor
    const observation = yield* supervisor.inspect(place.sandbox)
    if (observation._tag === "Running") {
      yield* supervisor.ping(place.sandbox)
      return true
    }
    const observedAtMillis = yield* Clock.currentTimeMillis
    const { generation, sandbox } = place
    const proof = proveAbsence(sandbox, observation, { observedAtMillis, generation })
    return (
      Result.isSuccess(proof) &&
      provesEnded(place, ExecutionEvidence.cases.GuestGone.make({ proof: proof.success }))
    )
  },
  Effect.orElseSucceed(() => false)
)

const keyOf = ({ generation, sandbox }: GuestPlace): string => `${sandbox}/${generation}`

/** Those whose guests hold nothing of them any more; each guest is asked once. The others are kept, and it is told. */
const endedAmong = Effect.fnUntraced(function* <Observed extends ObservedHolding>(
  observed: ReadonlyArray<Observed>
) {
  const places = new Map(observed.map((each) => [keyOf(each), each]))
  const over = yield* Effect.filter(places.values(), isWorkOver, { concurrency: sweptGuestsAtOnceMax })
  const ended = new Set(over.map(keyOf))
  const left = observed.filter((each) => ended.has(keyOf(each)))
  if (left.length < observed.length) {
    yield* Effect.logWarning(
      `${observed.length - left.length} leases of dead processes are kept: what they ran is not known to have ended`
    )
  }
  return left
})

/**
 * Expired rows that nobody's work stands behind: of a dead process whose work is over, or this process's own without a
 * holder in its register, as an insert leaves that came through after it was given up.
 */
const staleAmong = Effect.fnUntraced(function* <Observed extends ObservedHolding>(
  inventory: ReadonlyArray<Observed>,
  kind: { readonly termSeconds: number; readonly isHeld: (id: LeaseId) => boolean }
) {
  const processes = yield* Processes
  const { written } = yield* HeldLeases
  const expired = inventory.filter((each) => isExpired(each, kind.termSeconds))
  const unheld = expired.filter((each) => each.process === written && !kind.isHeld(each.id))
  const holders = [...new Set(expired.map((each) => each.process))].filter((holder) => holder !== written)
  const dead = yield* Effect.filter(holders, (holder) =>
    Effect.map(processes.liveness(parseProcessIdentity(holder)), (liveness) => liveness === "dead")
  )
  const ofTheDead = expired.filter((each) => dead.includes(each.process))
  return [...unheld, ...(yield* endedAmong(ofTheDead))]
})

/**
 * Deletes the expired leases of an inventory whose holder is dead and whose work is over; answers their ids. The
 * inventory may be old: the deletion is conditional on the holder that it shows. Source: SP-LEASE-03, SP-LEASE-06.
 */
export const sweepInventory = Effect.fn("leases.sweepInventory")(function* (
  inventory: ReadonlyArray<ObservedLease>
) {
  const store = yield* LeaseStore
  const { executions } = yield* HeldLeases
  const stale = yield* staleAmong(inventory, {
    termSeconds: executionLeaseSeconds,
    isHeld: (id) => executions.get(id) !== undefined
  })
  return stale.length === 0 ? [] : yield* store.deleteObserved(stale)
})

/** The same for an inventory of repository claims. */
export const sweepClaims = Effect.fn("leases.sweepClaims")(function* (
  inventory: ReadonlyArray<ObservedClaim>
) {
  const claims = yield* RepositoryClaims
  const { repositories } = yield* HeldLeases
  const stale = yield* staleAmong(inventory, {
    termSeconds: repositoryLeaseSeconds,
    isHeld: (id) => repositories.get(id) !== undefined
  })
  return stale.length === 0 ? [] : yield* claims.deleteObserved(stale)
})

/** One sweep of a node's leases and claims; answers what it removed. Run by the daemon beside its reconciler. */
export const sweepLeases = Effect.fn("leases.sweepLeases")(function* (node: NodeId) {
  const store = yield* LeaseStore
  const claims = yield* RepositoryClaims
  const swept = yield* sweepInventory(yield* store.inventory(node))
  const repositories = yield* sweepClaims(yield* claims.inventory(node))
  const ended = yield* store.removeEnded
  return { swept: swept.length + repositories.length, ended }
})
