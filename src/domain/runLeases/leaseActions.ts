/**
 * What people do about one lease by hand: hand it back, end its resource, or have its cleanup tried again. Who did it is
 * told by the row. Source: RL section 3.6, FC-09, FC-22.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import { EnvironmentLeaseStatus } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import type { Caller } from "../host/Accounts.ts"
import { EnvironmentLeaseId } from "../Identity.ts"
import { WorkStore } from "../work/WorkStore.ts"
import { findLease } from "./environmentAccess.ts"
import { EnvironmentRuntime } from "./EnvironmentRuntime.ts"
import { leaseStory } from "./leaseStory.ts"

/** Nobody holds the lease any more, so there is nothing to hand back. */
export class EnvironmentLeaseNotActive extends Schema.TaggedError<EnvironmentLeaseNotActive>()(
  "EnvironmentLeaseNotActive",
  { lease: EnvironmentLeaseId, status: EnvironmentLeaseStatus }
) {
  readonly code = "environment_lease_not_active"
  override get message(): string {
    return `lease ${this.lease} is ${this.status}, and only an active one can be released: destroy it, or see lease why`
  }
}

/** The lease owes no cleanup. */
export class EnvironmentLeaseNotOwed extends Schema.TaggedError<EnvironmentLeaseNotOwed>()(
  "EnvironmentLeaseNotOwed",
  { lease: EnvironmentLeaseId, status: EnvironmentLeaseStatus }
) {
  readonly code = "environment_lease_not_owed"
  override get message(): string {
    return `lease ${this.lease} is ${this.status} and owes no cleanup: see lease why`
  }
}

/** Its environment was deleted, so no driver can be asked; what is owed of it is the sweep's. */
export class EnvironmentLeaseGone extends Schema.TaggedError<EnvironmentLeaseGone>()("EnvironmentLeaseGone", {
  lease: EnvironmentLeaseId
}) {
  readonly code = "environment_lease_gone"
  override get message(): string {
    return `the environment of lease ${this.lease} is deleted: have its cleanup tried with lease retry`
  }
}

/** An account as the row of a lease names it. */
const actorOf = ({ account }: Caller): string => `account:${account}`

/** Hands back what the lease's run holds; fails with what this lease's driver failed with. */
export const releaseByHand = Effect.fn("runLeases.releaseByHand")(function* (
  caller: Caller,
  id: EnvironmentLeaseId
) {
  const lease = yield* findLease(caller, id)
  const { run, status } = lease
  if (status !== "active" || run === null) return yield* new EnvironmentLeaseNotActive({ lease: id, status })
  const fault = yield* Ref.make<Error | null>(null)
  yield* EnvironmentRuntime.use((runtime) =>
    runtime.releaseRunLeases(run, {
      ending: { actor: actorOf(caller), reason: "released_by_hand" },
      onError: (failed, error) => (failed === id ? Ref.set(fault, error) : Effect.void)
    })
  )
  const error = yield* Ref.get(fault)
  if (error !== null) return yield* Effect.fail(error)
  return yield* findLease(caller, id)
})

/** Ends the lease's resource now; what the provider cannot do yet stays owed. */
export const destroyByHand = Effect.fn("runLeases.destroyByHand")(function* (
  caller: Caller,
  id: EnvironmentLeaseId
) {
  const lease = yield* findLease(caller, id)
  const { environment } = lease
  const found =
    environment === null ? Option.none() : yield* EnvironmentStore.use(({ getById }) => getById(environment))
  if (Option.isNone(found)) return yield* new EnvironmentLeaseGone({ lease: id })
  return yield* EnvironmentRuntime.use((runtime) =>
    runtime.destroyRunLease({
      environment: found.value,
      lease,
      ending: { actor: actorOf(caller), reason: "destroyed_by_hand" }
    })
  )
})

/** Makes an owed cleanup due at once. */
export const retryByHand = Effect.fn("runLeases.retryByHand")(function* (
  caller: Caller,
  id: EnvironmentLeaseId
) {
  const lease = yield* findLease(caller, id)
  const isOwed = yield* EnvironmentLeaseStore.use((store) => store.makeDue(id))
  if (!isOwed) return yield* new EnvironmentLeaseNotOwed({ lease: id, status: lease.status })
  return yield* findLease(caller, id)
})

/** The lease and its story. */
export const explainLease = Effect.fn("runLeases.explainLease")(function* (
  caller: Caller,
  id: EnvironmentLeaseId
) {
  const lease = yield* findLease(caller, id)
  const { run, tenant } = lease
  const found = run === null ? Option.none() : yield* WorkStore.use((work) => work.runById(tenant, run))
  return { lease, steps: leaseStory(lease, Option.getOrUndefined(found)) }
})
