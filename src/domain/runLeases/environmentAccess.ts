/**
 * Who may do what with environments and their leases. Environments belong to the installation, so administrators keep
 * them; leases are a tenant's own. Somebody who is no administrator leases only what is managed for his tenant, and never
 * the daemon's own machine. Source: RL section 2.1, RL-ACQ-10, SP-HTTP-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Environment } from "../environments/Environment.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import type { Caller } from "../host/Accounts.ts"
import { EnvironmentId, EnvironmentLeaseId } from "../Identity.ts"

/** Only an administrator may do this. */
export class AdministratorNeeded extends Schema.TaggedError<AdministratorNeeded>()("AdministratorNeeded", {
  what: Schema.Literals(["environments", "providers", "cleanups", "machine"])
}) {
  readonly code = "administrator_needed"
  override get message(): string {
    const what = {
      environments: "environments are kept by administrators",
      providers: "providers are kept by administrators",
      cleanups: "a sweep goes over the leases of every tenant",
      machine: "the daemon's own machine, its files and its programs, is open to administrators only"
    }
    return `${what[this.what]}: ask one of them`
  }
}

/** No environment has that name or id. */
export class EnvironmentNotFound extends Schema.TaggedError<EnvironmentNotFound>()("EnvironmentNotFound", {
  environment: Schema.String
}) {
  readonly code = "environment_not_found"
  override get message(): string {
    return `there is no environment ${this.environment}: see env list`
  }
}

/** The environment was switched off: what is leased of it goes on, and nothing new is. */
export class EnvironmentDisabled extends Schema.TaggedError<EnvironmentDisabled>()("EnvironmentDisabled", {
  environment: EnvironmentId
}) {
  readonly code = "environment_disabled"
  override get message(): string {
    return `environment ${this.environment} is disabled: use another one, or have it enabled with env update`
  }
}

/** The caller's tenant has no such lease. */
export class EnvironmentLeaseNotFound extends Schema.TaggedError<EnvironmentLeaseNotFound>()(
  "EnvironmentLeaseNotFound",
  { lease: EnvironmentLeaseId }
) {
  readonly code = "environment_lease_not_found"
  override get message(): string {
    return `there is no lease ${this.lease}: see lease list`
  }
}

/** Refuses everybody but administrators. */
export const requireAdministrator = (
  { administrator }: Caller,
  what: AdministratorNeeded["what"]
): Effect.Effect<void, AdministratorNeeded> =>
  administrator ? Effect.void : Effect.fail(new AdministratorNeeded({ what }))

const isId = Schema.is(EnvironmentId)

/** The environment of that id, or else of that name. */
export const findEnvironment = Effect.fn("runLeases.findEnvironment")(function* (reference: string) {
  const store = yield* EnvironmentStore
  const byId = isId(reference) ? yield* store.getById(reference) : Option.none<Environment>()
  if (Option.isSome(byId)) return byId.value
  const named = (yield* store.list).find(({ name }) => name === reference)
  return named ?? (yield* new EnvironmentNotFound({ environment: reference }))
})

/** The lease, if it is the caller's tenant's; one of another tenant is answered like one that is not there. */
export const findLease = Effect.fn("runLeases.findLease")(function* (
  { tenant }: Caller,
  lease: EnvironmentLeaseId
) {
  const found = yield* EnvironmentLeaseStore.use((store) => store.getLeaseById(lease))
  if (Option.isNone(found) || found.value.tenant !== tenant)
    return yield* new EnvironmentLeaseNotFound({ lease })
  return found.value
})
