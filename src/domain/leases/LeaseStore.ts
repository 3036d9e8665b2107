/**
 * Port of the lease table. It is made of standalone statements, each its own transaction: none takes part in one,
 * none takes a lock on another table's row, so a lease never waits behind a resource-history transaction. The
 * admission is the exception, LeaseAdmission.ts. Source: SP-LEASE-01.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { LeaseId, NodeId, ProjectId } from "../Identity.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { CancelMarker, Lease, LeaseLostReason, ObservedLease } from "./Lease.ts"
import type { RenewalOutcome } from "./Register.ts"

/** What one heartbeat did for one lease, with the cancellation that the table knows. */
export interface RenewedLease extends RenewalOutcome {
  readonly cancel: CancelMarker
}

/** A lease that its holder still means to keep, with what it knows of the cancellation. */
export interface KeptLease {
  readonly lease: Lease
  readonly cancel: CancelMarker
  /** The term was not over when the heartbeat was sent: no successor can have come and gone, so the row may be brought back. */
  readonly restorable: boolean
}

/** Answers of `settle`: deleted, left behind as the tombstone of a cancellation, or no longer this holder's. */
export type SettledLease = "released" | "cancelled" | "absent"

export class LeaseStore extends Context.Service<
  LeaseStore,
  {
    /**
     * Heartbeat repair, one statement for all leases of a process: renews its rows, brings back those that vanished,
     * and leaves alone a row that a successor holds, whose cancellation is verified, or whose generation has ended.
     * Source: SP-LEASE-04, SP-LEASE-07.
     */
    readonly renew: (
      process: string,
      kept: ReadonlyArray<KeptLease>
    ) => Effect.Effect<ReadonlyArray<RenewedLease>, StorageFailure>
    /** Deletes the lease if its holder still has it; a requested cancellation becomes a tombstone instead. Source: SP-LEASE-03. */
    readonly settle: (lease: Lease) => Effect.Effect<SettledLease, StorageFailure>
    /** Leaves the tombstone of a cancelled lease behind, even where its row had vanished; answers whether it is there. */
    readonly verifyCancel: (lease: Lease) => Effect.Effect<boolean, StorageFailure>
    /** Moves the marker from `none` to `requested`; answers where it stands then, or none for an unknown lease. */
    readonly requestCancel: (id: LeaseId) => Effect.Effect<Option.Option<CancelMarker>, StorageFailure>
    /** The same for every lease of a Project whose cancellation is not verified; answers those leases. */
    readonly requestCancelOf: (
      project: ProjectId
    ) => Effect.Effect<ReadonlyArray<ObservedLease>, StorageFailure>
    /** The lease, a tombstone too. */
    readonly byId: (id: LeaseId) => Effect.Effect<Option.Option<ObservedLease>, StorageFailure>
    readonly cancellation: (id: LeaseId) => Effect.Effect<Option.Option<CancelMarker>, StorageFailure>
    /** Why the lease cannot be used, by the table and the database's clock, or none where it can. Source: SP-LEASE-07. */
    readonly whyUnusable: (lease: Lease) => Effect.Effect<Option.Option<LeaseLostReason>, StorageFailure>
    /** Leases of the node's processes without tombstones, the longest silent first; at most `leaseInventoryMax`. */
    readonly inventory: (node: NodeId) => Effect.Effect<ReadonlyArray<ObservedLease>, StorageFailure>
    /** Leases of a Project without tombstones, the oldest first; at most `leaseInventoryMax`. */
    readonly ofProject: (project: ProjectId) => Effect.Effect<ReadonlyArray<ObservedLease>, StorageFailure>
    /** Deletes those leases whose holder is still the one that was observed; answers which. Source: SP-LEASE-03. */
    readonly deleteObserved: (
      observed: ReadonlyArray<ObservedLease>
    ) => Effect.Effect<ReadonlyArray<LeaseId>, StorageFailure>
    /** Gives an expired lease to `successor` if the observed holder still has it; answers whether it did. Source: FC-12. */
    readonly takeOver: (observed: ObservedLease, successor: string) => Effect.Effect<boolean, StorageFailure>
    /**
     * Removes tombstones of generations that have ended, and of a Project's others those beyond the newest
     * `cancelTombstonesKeptMin` that are older than `cancelTombstoneSeconds`: no heartbeat that its holder still
     * believes in is as late as that. At most `endedLeasesRemovedMax` at once. Source: SP figures, FC-15.
     */
    readonly removeEnded: Effect.Effect<number, StorageFailure>
  }
>()("holdfast/domain/leases/LeaseStore") {
  declare readonly [OutsideTransaction]: true
}
