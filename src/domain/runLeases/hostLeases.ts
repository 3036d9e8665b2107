/**
 * Leases of drivers that have no provider: a run works on a machine itself, here or elsewhere. What such a lease owes are
 * the processes of its commands, which its driver ends before the row. Nobody attests an expiry. Source: RL-ACQ-01,
 * RL-SSH-01, RL-EXPIRY-02, U13.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { EnvironmentLeaseStore, type NewEnvironmentLease } from "../environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLeaseId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { type Acquisition, leasePlaceOf, type Release } from "./EnvironmentDriver.ts"

export interface HostLease {
  readonly id: EnvironmentLeaseId
  readonly driver: "local" | "ssh"
  /** Of the machine; null for this one. */
  readonly providerLeaseId: string | null
  /** Beside what every lease says. */
  readonly metadata: JsonObject
  readonly sentConfig: JsonObject | null
}

/** Inserts the row of the lease; refuses what the store refuses. */
export const acquireHostLease = Effect.fnUntraced(function* (asked: Acquisition, lease: HostLease) {
  const row: NewEnvironmentLease = {
    ...leasePlaceOf(asked),
    id: lease.id,
    policy: "ephemeral",
    provider: null,
    providerLeaseId: lease.providerLeaseId,
    expiresAtMillis: null,
    metadata: {
      driver: lease.driver,
      executionWorkspaceMode: asked.executionWorkspace?.mode ?? null,
      ...asked.note,
      ...lease.metadata
    },
    sentConfig: lease.sentConfig,
    assertTenantBinding: asked.assertTenantBinding ?? false
  }
  return yield* (yield* EnvironmentLeaseStore).acquireLease(row)
})

/** Ends the row, once nothing of the lease runs any more; null where it is another run's by now. */
export const releaseHostLease = Effect.fnUntraced(function* ({ ending, lease, status }: Release) {
  const ended = yield* (yield* EnvironmentLeaseStore).releaseLease(lease.id, {
    status,
    failureReason: ending?.reason ?? null,
    cleanupStatus: "success",
    actor: ending?.actor ?? "run",
    ...(lease.run === null ? {} : { run: lease.run })
  })
  return Option.getOrNull(ended)
})
