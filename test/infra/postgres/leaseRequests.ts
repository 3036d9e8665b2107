/** Requests to the store of environment leases, from a partial description; what the tests of that store share. */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type {
  CleanupClaim,
  ClaimedCleanup,
  NewEnvironmentLease,
  PendingCleanupLease
} from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { ProviderIntent } from "../../../src/domain/environments/ProviderIntent.ts"
import type { EnvironmentLease } from "../../../src/domain/environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { type EnvironmentId, EnvironmentLeaseId, type TenantId } from "../../../src/domain/Identity.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { layer as adapter } from "../../../src/infra/postgres/EnvironmentLeaseStore.ts"
import { insideHeldOf } from "../../support/insideHeld.ts"

export interface Place {
  readonly tenant: TenantId
  readonly environment: { readonly id: EnvironmentId }
}

export const leaseId = (): EnvironmentLeaseId => EnvironmentLeaseId.make(randomUUID())

export const acquisition = (
  { environment, tenant }: Place,
  given: Partial<NewEnvironmentLease> = {}
): NewEnvironmentLease => ({
  id: leaseId(),
  tenant,
  environment: environment.id,
  executionWorkspace: null,
  task: null,
  run: null,
  policy: "ephemeral",
  provider: "fake-plugin",
  providerLeaseId: "sandbox-1",
  expiresAtMillis: null,
  metadata: { driver: "sandbox" },
  sentConfig: null,
  assertTenantBinding: false,
  ...given
})

export const orphan = (
  { environment, tenant }: Place,
  given: Partial<PendingCleanupLease> = {}
): PendingCleanupLease => ({
  id: leaseId(),
  tenant,
  environment: environment.id,
  executionWorkspace: null,
  task: null,
  run: null,
  provider: "fake",
  providerLeaseId: "sandbox://fake/run/1",
  metadata: { driver: "sandbox", provider: "fake" },
  sentConfig: null,
  failureReason: "acquire_rejected_teardown_failed",
  ...given
})

export const intention = (
  { environment, tenant }: Place,
  given: Partial<ProviderIntent> = {}
): ProviderIntent => ({
  id: leaseId(),
  tenant,
  environment: environment.id,
  run: null,
  provider: "fake-plugin",
  plugin: null,
  name: "holdfast-1",
  installation: "holdfast",
  generation: 1,
  process: "somebody",
  ...given
})

export const claimOf = (lease: EnvironmentLeaseId, given: Partial<CleanupClaim> = {}): CleanupClaim => ({
  lease,
  attempt: randomUUID(),
  from: ["active", "released", "retained", "failed", "pending_cleanup"],
  refuseLiveRun: false,
  failureReason: null,
  actor: "sweep",
  ...given
})

/** What a claimer remembers of the row that it took. */
export const claimedOf = (lease: EnvironmentLease): ClaimedCleanup => ({
  lease: lease.id,
  attempt: String(lease.metadata["pendingCleanupAttemptId"]),
  run: lease.run,
  providerLeaseId: lease.providerLeaseId
})

export const store = <A, E>(act: (leases: EnvironmentLeaseStore["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(EnvironmentLeaseStore, act)

/** A claim that has to be had. */
export const claimed = (lease: EnvironmentLeaseId, given: Partial<CleanupClaim> = {}) =>
  Effect.map(
    store((leases) => leases.claimCleanup(claimOf(lease, given))),
    Option.getOrThrow
  )

/** The same statements inside a transaction that stays open at the barrier. */
export const insideHeld = insideHeldOf(EnvironmentLeaseStore, adapter)

/** One statement in a transaction that stays open at the barrier. */
export const statementHeld = (text: string, parameters: ReadonlyArray<unknown>, held: Effect.Effect<void>) =>
  PluginDb.use((db) =>
    db.transaction(
      "test.held",
      Effect.gen(function* () {
        const tx = yield* PluginTx
        yield* tx.query({ operation: "test.held", text, parameters })
        yield* held
      })
    )
  )
